"""Figures of the paper: which runs they need, and how they are drawn."""

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.report.figures import COLOURS, mean_and_band, write
from holdfast.reproduction.curves import Curve
from holdfast.reproduction.setting import RecordsOf, Setting

INCH_PER_COLUMN = 3.3
STYLE: Any = {
    "font.size": 8,
    "axes.titlesize": 8,
    "legend.fontsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "holdfast",
}


@dataclass(frozen=True)
class PaperFigure:
    name: str
    title: str
    place: str
    needs: Sequence[Setting]
    draw: Callable[[Any, RecordsOf], None]  # onto a matplotlib figure
    size: tuple[float, float] = (INCH_PER_COLUMN, 2.4)

    def settings(self) -> list[Setting]:
        return list(self.needs)

    def render(self, found: RecordsOf, file: Path) -> list[Path]:
        paths = [file.with_suffix(suffix) for suffix in (".png", ".svg")]
        self.write(found, *paths)
        return paths

    def write(self, found: RecordsOf, *paths: Path, dpi: int = 300) -> None:
        with self._drawn(found) as figure:
            for path in paths:
                write(figure, path, dpi=dpi, metadata={"Date": None} if path.suffix == ".svg" else None)

    def svg(self, found: RecordsOf) -> str:
        """Without background and metadata, to stand on a page."""
        text, nothing = io.StringIO(), dict.fromkeys(("Creator", "Date", "Format", "Type"))
        with self._drawn(found) as figure:
            figure.savefig(text, format="svg", transparent=True, metadata=nothing)
        return text.getvalue()

    @contextmanager
    def _drawn(self, found: RecordsOf) -> Iterator[Any]:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot as plt

        with matplotlib.rc_context(STYLE):
            figure = plt.figure(figsize=self.size, layout="constrained")
            try:
                self.draw(figure, found)
                yield figure
            finally:
                plt.close(figure)


def band(
    axes: Any, curves: Sequence[Curve], setting: Setting, label: str, *, style: str = "-", smoothed: int = 10
) -> None:
    """The mean over seeds ± its standard error, on what all of them have, each a running mean of so many points."""
    colour = COLOURS[setting.name]
    if not curves:
        axes.plot([], [], style, color=colour, label=f"{label} (missing)")
        return
    length = min(len(x) for x, _ in curves)
    heights = np.array([smooth(y[:length], smoothed) for _, y in curves])
    label = f"{label} (n = {len(curves)})"
    mean_and_band(axes, curves[0][0][:length], heights, style, color=colour, linewidth=1.1, label=label)


def smooth(values: Sequence[float], window: int) -> list[float]:
    """A running mean, shorter at the beginning."""
    return [float(np.mean(values[max(0, i - window + 1) : i + 1])) for i in range(len(values))]
