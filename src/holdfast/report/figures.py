"""Pictures. A method has one colour everywhere."""

import io
import textwrap
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets import Dataset
from holdfast.measure import metrics
from holdfast.measure.evaluate import Evaluation
from holdfast.measure.mistakes import pictures
from holdfast.report import classes
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
OTHER_COLOURS = ["#2962ff", "#ff6d00", "#00b8d4", "#76c900", "#1a237e", "#6a3d00"]
IN_A_LINE = 150  # characters below a picture
IN_HEADLINE = ("stream=", "memory=", "codec=", "net=")
STYLES = ["-", "--", ":", "-."]
Array = NDArray[np.floating[Any]]
Measure = Callable[[Evaluation, metrics.Tasks], float | None]


def drawn(records: Sequence[Record]) -> "Figure":
    """Accuracy along the stream on all tasks met and on the earlier ones, mean ± standard error over seeds.

    It has a row for each setting. Pyplot and its state are left alone.
    """
    settings = by_setting(records)
    figure = _figure(11, 4 * len(settings))
    rows = figure.subfigures(len(settings), 1, squeeze=False)[:, 0]
    for row, (setting, group) in zip(rows, settings.items(), strict=True):
        _draw(row, group)
        row.suptitle(headline(group) + "".join(f", {each}" for each in setting if not each.startswith(IN_HEADLINE)))
        if own := of_methods(group):
            lines = textwrap.fill(own, IN_A_LINE, break_on_hyphens=False)
            row.supxlabel(lines, fontsize="small", color="0.5")
    return figure


def confusions(records: Sequence[Record]) -> "Figure | None":
    """What classes are taken for at the end, a matrix for each method of one setting; None if there are too many
    classes, or if records are too old to tell."""
    methods = [each for each in classes.of_methods(records) if each.counts is not None]
    if not methods or len(methods[0].names) > classes.MOST_IN_A_MATRIX:
        return None
    side = max(3.2, 1.2 + 0.28 * len(methods[0].names))
    across = min(3, len(methods))
    down = -(-len(methods) // across)
    figure = _figure(max(9, across * side + 1), down * (side + 0.4))
    panels = figure.subplots(down, across, squeeze=False)
    for number, axes in enumerate(panels.flat):
        if number >= len(methods):
            axes.set_visible(False)
            continue
        _matrix(axes, methods[number])
        if number % across:
            axes.set_yticklabels([])
    figure.suptitle(f"{headline(records)}: the classes (rows) and what they are taken for, %")
    return figure


def _matrix(axes: Any, of: classes.ByClass) -> None:
    axes.imshow(of.shares, cmap="Blues", vmin=0, vmax=100)
    places = range(len(of.names))
    axes.set_xticks(places, of.names, rotation=90)
    axes.set_yticks(places, of.names)
    axes.tick_params(length=0)
    axes.set_title(of.title)
    for row, column in zip(*np.nonzero(of.shares >= 0.5), strict=True):
        share = of.shares[row, column]
        colour = "white" if share > 55 else "black"
        axes.text(column, row, f"{share:.0f}", ha="center", va="center", color=colour, fontsize="x-small")


def mistakes(records: Sequence[Record], data: Dataset) -> "Figure | None":
    """Test samples that the best method answered wrongly, each with its class and the answer; None if there are none,
    or no images."""
    record = by_title(records)[classes.best(records)][0]
    found = classes.mistakes(record)
    images = pictures(data.test_x[[each.row for each in found]])
    if not images:
        return None
    across = 8
    down = -(-len(images) // across)
    figure = _figure(11, 0.5 + 1.7 * down)
    panels = figure.subplots(down, across, squeeze=False)
    for axes in panels.flat:
        axes.axis("off")
    for axes, mistake, image in zip(panels.flat, found, images, strict=False):
        axes.imshow(image, interpolation="nearest")
        axes.set_title(f"{mistake.truth}\nnot {mistake.answer}", fontsize="small")
    figure.suptitle(f"{headline(records)}: some mistakes of {record['title']} at the end, seed {record['seed']}")
    return figure


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    class Picture(Figure):
        def _repr_png_(self) -> bytes:
            """For notebooks that were not told to show figures."""
            content = io.BytesIO()
            self.savefig(content, format="png")
            return content.getvalue()

    return Picture(figsize=(width, height), layout="constrained")


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
    colour = colours(methods.values())
    variants: dict[str, int] = {}
    found = {}
    for title, method in methods.items():
        variant = variants[method] = variants.get(method, -1) + 1
        found[title] = colour[method], STYLES[variant % len(STYLES)]
    return found


def colours(methods: Iterable[str]) -> dict[str, str]:
    """By method. One of one's own has that which is farthest from all others in the picture."""
    methods = list(dict.fromkeys(methods))
    found = {method: COLOURS[method] for method in methods if method in COLOURS}
    for method in methods:
        if method not in found:
            free = [each for each in OTHER_COLOURS if each not in found.values()] or OTHER_COLOURS
            taken = list(found.values())
            found[method] = max(free, key=lambda each: min((_apart(each, other) for other in taken), default=0.0))
    return found


def _apart(one: str, other: str) -> float:
    """How unlike two colours look, about: red and blue count by how red both are, green counts most."""
    a, b = (np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) for colour in (one, other))
    red = (a[0] + b[0]) / 2 / 256
    return float(np.sqrt(((2 + red, 4, 3 - red) * (a - b) ** 2).sum()))


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
