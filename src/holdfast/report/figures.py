"""Pictures. A method has one colour everywhere."""

import io
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast.measure import metrics
from holdfast.measure.evaluate import Evaluation
from holdfast.report.groups import by_setting, by_title, of_methods
from holdfast.report.tables import headline
from holdfast.runs.store import Record
from holdfast.storage import files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {
    "er": "#7f7f7f",
    "er-ace": "#d1495b",
    "er-aml": "#2e6f95",
    "holdfast": "#00796b",
    "der": "#b39ddb",
    "der++": "#8e5ea2",
    "der++-ace": "#4a148c",
    "mir": "#e08e45",
    "icarl": "#17a2b8",
    "ss-il": "#5d4037",
    "gdumb": "#607d8b",
    "a-gem": "#8d9b2f",
    "scr": "#e377c2",
    "slda": "#f0a202",
    "ncm": "#6c8e00",
    "fine-tuning": "#b5a642",
    "iid": "#3a9d5d",
    "iid++": "#1f6f43",
    "iid-offline": "#0b3d20",
}
OTHER_COLOURS = ["#c2185b", "#00695c", "#ff7043", "#3949ab", "#9e7b00", "#455a64"]
IN_HEADLINE = ("stream=", "memory=", "codec=")
STYLES = ["-", "--", ":", "-."]
Array = NDArray[np.floating[Any]]
Measure = Callable[[Evaluation, metrics.Tasks], float | None]


def anytime(records: Sequence[Record], path: Path) -> None:
    """Accuracy along the stream on all tasks met and on the earlier ones, mean ± standard error over seeds."""
    write(drawn(records), path, dpi=160)


def drawn(records: Sequence[Record]) -> "Figure":
    """The same as a matplotlib figure, with a row for each setting. Pyplot and its state are left alone."""
    from matplotlib.figure import Figure

    class Picture(Figure):
        def _repr_png_(self) -> bytes:
            """For notebooks that were not told to show figures."""
            content = io.BytesIO()
            self.savefig(content, format="png")
            return content.getvalue()

    settings = by_setting(records)
    figure = Picture(figsize=(11, 4 * len(settings)), layout="constrained")
    rows = figure.subfigures(len(settings), 1, squeeze=False)[:, 0]
    for row, (setting, group) in zip(rows, settings.items(), strict=True):
        _draw(row, group)
        row.suptitle(headline(group) + "".join(f", {each}" for each in setting if not each.startswith(IN_HEADLINE)))
        if own := of_methods(group):
            row.supxlabel(own, fontsize="small", color="0.5")
    return figure


def _draw(figure: Any, records: Sequence[Record]) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    panels: list[tuple[Any, Measure, str]] = [
        (left, metrics.anytime_accuracy, "on all tasks met so far"),
        (right, metrics.earlier_accuracy, "on the tasks before the present one"),
    ]
    of_title = looks(records)
    for axes, measure, name in panels:
        shade_tasks(axes, records)
        for title, group in by_title(records).items():
            _curve(axes, group, measure, of_title[title])
        axes.set(xlabel="updates", title=name, ylim=(0, 100), xlim=(0, records[0]["updates"]))
        axes.spines[["top", "right"]].set_visible(False)
    left.set_ylabel("accuracy, %")
    left.legend(frameon=False, loc="lower left")


def write(figure: Any, path: Path, **how: Any) -> None:
    """The whole picture or, if there is no room for it, none."""
    content = io.BytesIO()
    figure.savefig(content, format=path.suffix.removeprefix("."), **how)
    files.write(path, content.getvalue())


def _curve(axes: Any, group: Sequence[Record], measure: Measure, look: tuple[str, str]) -> None:
    colour, style = look
    steps = [e["step"] for e in group[0]["evaluations"]]
    curves = 100 * np.array([[_value(measure, record, e) for e in record["evaluations"]] for record in group])
    mean_and_band(axes, steps, curves, style, color=colour, label=group[0]["title"], linewidth=1.6)


def _value(measure: Measure, record: Record, e: dict[str, Any]) -> float:
    value = measure(Evaluation.from_record(e), record["tasks"])
    return np.nan if value is None else value


def looks(records: Sequence[Record]) -> dict[str, tuple[str, str]]:
    """Colour by method, line style by which of its variants."""
    methods = {title: group[0]["method"] for title, group in by_title(records).items()}
    others = [method for method in dict.fromkeys(methods.values()) if method not in COLOURS]
    variants: dict[str, int] = {}
    found = {}
    for title, method in methods.items():
        variant = variants[method] = variants.get(method, -1) + 1
        found[title] = colour(method, others), STYLES[variant % len(STYLES)]
    return found


def colour(method: str, others: Sequence[str]) -> str:
    """A method of one's own has one by its place among `others`."""
    return COLOURS.get(method) or OTHER_COLOURS[others.index(method) % len(OTHER_COLOURS)]


def mean_and_band(axes: Any, x: Sequence[float], heights: Array, style: str, *, color: str, **line: Any) -> None:
    """The mean over seeds (rows) ± its standard error."""
    mean = heights.mean(0)
    axes.plot(x, mean, style, color=color, **line)
    if len(heights) > 1:
        error = heights.std(0, ddof=1) / np.sqrt(len(heights))
        axes.fill_between(x, mean - error, mean + error, color=color, alpha=0.2, linewidth=0)


def shade_tasks(axes: Any, records: Sequence[Record]) -> None:
    """Every other task of the run that has most."""
    ends: list[int] = max((record["task_ends"] for record in records), key=len, default=[])
    for start, end in list(pairwise([0, *ends]))[1::2]:
        shade(axes, start, end)


def shade(axes: Any, start: float, end: float) -> None:
    axes.axvspan(start, end, color="0.94", linewidth=0, zorder=0)
