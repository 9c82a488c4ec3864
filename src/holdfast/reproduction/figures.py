"""The ten figures."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from holdfast.report.figures import COLOURS, shade, shade_tasks
from holdfast.report.statistics import mean_and_error
from holdfast.reproduction import curves
from holdfast.reproduction.curves import Curve
from holdfast.reproduction.figure import INCH_PER_COLUMN, PaperFigure, band
from holdfast.reproduction.setting import VALIDATION, RecordsOf, Setting
from holdfast.reproduction.tables import TITLES
from holdfast.runs.store import Record

PROBES = "drift,gradient,current-task"
AFTER_SWITCH = 100  # updates
SINCE_SWITCH = "updates since the second task began"
ER, ERACE, ERAML, ALL_NEGATIVES, SSIL = (
    Setting(method=method, probe=PROBES) for method in ("er", "er-ace", "er-aml", "er-aml:negatives=all", "ss-il")
)
COSINE_ER = Setting(method="er:head=cosine", probe="drift")
ALIGNED = [Setting(method=method, stream=VALIDATION, probe="alignment") for method in ("er", "er-ace")]
FROM_ONE_MODEL, GRADIENTS = (
    [Setting(method=method, start="er:head=cosine", probe=probe) for method in ("er:head=cosine", "er-ace", "er-aml")]
    for probe in ("projection", "prototype-gradient")
)
AT_A_SWITCH = [Setting(method="er"), Setting(method="er-ace"), Setting(method="er", memory=100)]
DATASETS = {"cifar10": (5, 20, 50, 100), "cifar100": (20, 50, 100), "mini-imagenet": (20, 50, 100)}
ROWS = sum(map(len, DATASETS.values()))  # of F10
COMPARED = ("er", "icarl", "mir", "ss-il", "er-ace", "er-aml")
POINTS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2")


def title_of(setting: Setting) -> str:
    variants = {
        "er:head=cosine": "ER, cosine head",
        "er-aml:negatives=all": "ER-AML, all negatives",
        "der++-ace": "DER++ with ACE",
    }
    return variants.get(setting.method) or TITLES[setting.name]


def draw(axes: Any, found: RecordsOf, settings: Sequence[Setting], curve: Callable[[Record], Curve]) -> None:
    """A line for each setting; variants of a method share its colour."""
    for setting in settings:
        style = "--" if "negatives=all" in setting.method else "-"
        band(axes, drawable(found, setting, curve), setting, title_of(setting), style=style)


def drawable(found: RecordsOf, setting: Setting, curve: Callable[[Record], Curve]) -> list[Curve]:
    return [(x, y) for x, y in map(curve, found(setting)) if x]


def draw_tasks(axes: Any, found: RecordsOf, settings: Sequence[Setting], curve: Callable[[Record], Curve]) -> None:
    shade_tasks(axes, [record for setting in settings for record in found(setting)])
    draw(axes, found, settings, curve)
    axes.set(xlabel="updates")


def draw_drift(figure: Any, found: RecordsOf, settings: Sequence[Setting]) -> None:
    """All samples in memory in all tasks, and those of the first task in the second."""
    whole, closer = figure.subplots(2, 1)
    draw_tasks(whole, found, settings, curves.drift)
    draw(closer, found, settings, partial(curves.of_first_task, probe="drift"))
    whole.set(title="all samples in memory")
    closer.set(title="those of the first task", xlabel=SINCE_SWITCH, xscale="log")
    figure.supylabel("distance moved in one update", fontsize="medium")
    legend_above(figure)


def shade_second_task(axes: Any) -> None:
    """Where updates are counted from its beginning."""
    axes.set_xlim(axes.get_xlim())
    shade(axes, 0, axes.get_xlim()[1])


def legend_above(figure: Any, columns: int = 2) -> None:
    """Where it hides no curve; that of the first panel that has one."""
    legends = [axes.get_legend_handles_labels() for axes in figure.axes]
    for handles, labels in [legend for legend in legends if legend[0]][:1]:
        figure.legend(handles, labels, frameon=False, ncols=columns, loc="outside upper center", fontsize=6)


def legend_inside(axes: Any) -> None:
    """Where there is nothing to show yet, there are no scales either."""
    if not any(len(line.get_xdata()) for line in axes.lines) and not axes.collections:
        axes.set(xscale="linear", xticks=[], yticks=[])
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=6)


def scatter(axes: Any, view: dict[str, Any], plane: "np.ndarray[Any, Any]") -> None:
    flat, labels = np.array(view["features"]) @ plane.T, np.array(view["label"])
    for colour, (number, label) in zip(POINTS, enumerate(np.unique(labels)), strict=False):
        axes.scatter(*flat[labels == label].T, s=2, color=colour, alpha=0.6, linewidth=0)
        if str(label) in view["prototypes"]:
            at = plane @ np.array(view["prototypes"][str(label)])
            axes.scatter(*at, s=50, marker="*", color=colour, edgecolor="black", linewidth=0.5, label=f"class {number}")
    axes.set(xticks=[], yticks=[])


def displacement(axes: Any, before: dict[str, Any], after: dict[str, Any], plane: "np.ndarray[Any, Any]") -> None:
    """An arrow from where the prototype of each class of the first task was to where it is."""
    old = sorted(before["prototypes"], key=int)[: len(before["prototypes"]) // 2]
    for colour, label in zip(POINTS, old, strict=False):
        tail, head = (plane @ np.array(view["prototypes"][label]) for view in (before, after))
        axes.annotate("", head, tail, arrowprops={"arrowstyle": "->", "color": colour, "linewidth": 1.2})


def f1(figure: Any, found: RecordsOf) -> None:
    er, erace, gradient, accuracy = figure.subplots(1, 4)
    erace.sharex(er)
    erace.sharey(er)
    for panel, setting in zip((er, erace), FROM_ONE_MODEL, strict=False):
        panel.set(title=f"{title_of(setting)}: missing", xticks=[], yticks=[])
        for record in found(setting)[:1]:
            looks, plane = curves.projections(record)
            view = next((each for each in looks if each["iteration"] == AFTER_SWITCH), looks[-1])
            scatter(panel, view, plane)
            displacement(panel, looks[0], view, plane)
            panel.set_title(f"{title_of(setting)}: update {view['iteration']}")
    draw(gradient, found, GRADIENTS[:2], partial(curves.of_first_task, probe="prototype-gradient"))
    gradient.set(title="gradient on prototypes of old classes", xlabel=SINCE_SWITCH, xscale="log", ylabel="norm")
    for setting, style in zip(AT_A_SWITCH, ("-", "-", ":"), strict=True):
        title = f"{title_of(setting)}, M = {setting.memory}"
        found_curves = drawable(found, setting, curves.first_task_accuracy)
        band(accuracy, found_curves, setting, title, style=style, smoothed=5)
    accuracy.set(title="accuracy on the first task", xlabel=SINCE_SWITCH, ylabel="%")
    shade_second_task(accuracy)
    for panel in (er, gradient, accuracy):
        legend_inside(panel)


def f2(figure: Any, found: RecordsOf) -> None:
    draw_drift(figure, found, F2.needs)


def f3(figure: Any, found: RecordsOf) -> None:
    axes = figure.subplots()
    draw(axes, found, F3.needs, curves.by_compute)
    axes.set(xlabel="tera multiply-adds so far", ylabel="accuracy on all classes, %")
    axes.ticklabel_format(axis="x", style="sci", scilimits=(-2, 3))
    legend_above(figure, columns=3)


def f4(figure: Any, found: RecordsOf) -> None:
    axes = figure.subplots()
    draw_tasks(axes, found, F4.needs, curves.present_task_accuracy)
    axes.set(ylabel="accuracy on the present task, %", ylim=(0, 100))
    legend_above(figure, columns=3)


def bars(axes: Any, groups: Sequence[Sequence[float]], number: int, of: int, setting: Setting) -> None:
    """A bar for each group of values over seeds, mean ± standard error, beside those of the other methods."""
    seeds = sorted({len(group) for group in groups if group})
    label = f"{title_of(setting)} ({'n = ' + ' or '.join(map(str, seeds)) if seeds else 'missing'})"
    width = 0.8 / of
    for position, group in enumerate(groups, 1):
        at = position + (number - (of - 1) / 2) * width
        mean, error = mean_and_error(group) if group else (0.0, None)
        axes.bar(at, mean, width, yerr=error, color=COLOURS[setting.name], label=label if position == 1 else None)
        if not group:
            axes.text(at, 0, " missing", rotation=90, ha="center", va="bottom", fontsize=6, color="0.5")


def f5(figure: Any, found: RecordsOf) -> None:
    axes = figure.subplots()
    for number, setting in enumerate(F5.needs):
        by_task = list(zip(*map(curves.alignment_by_task, found(setting)), strict=True))
        bars(axes, by_task or [()], number, len(F5.needs), setting)
    axes.set(xlabel="task", ylabel="best cosine similarity")
    legend_above(figure)


def f6(figure: Any, found: RecordsOf) -> None:
    methods, memories = ("der++", "der++-ace"), (20, 100)
    for axes, measure in zip(figure.subplots(1, 2), ("acc", "forgetting"), strict=True):
        for number, method in enumerate(methods):
            settings = [Setting(method=method, memory=memory, augment=True) for memory in memories]
            of_memory = [[100 * record[measure] for record in found(setting)] for setting in settings]
            bars(axes, of_memory, number, len(methods), settings[0])
        axes.set(xlim=(0.5, 2.5), xticks=[1, 2], xticklabels=[f"M = {memory}" for memory in memories])
        axes.set_ylabel({"acc": "accuracy, %", "forgetting": "forgetting, %"}[measure])
    legend_above(figure)


def f7(figure: Any, found: RecordsOf) -> None:
    axes = figure.subplots()
    draw(axes, found, F7.needs, partial(curves.of_first_task, probe="gradient", before=True))
    axes.set(xlabel=SINCE_SWITCH, ylabel="gradient norm, old classes")
    shade_second_task(axes)
    legend_above(figure)


def f8(figure: Any, found: RecordsOf) -> None:
    draw_drift(figure, found, F8.needs)


def f9(figure: Any, found: RecordsOf) -> None:
    grid = figure.subplots(len(FROM_ONE_MODEL), 4, squeeze=False, sharex="row", sharey="row")
    for row, setting in zip(grid, FROM_ONE_MODEL, strict=True):
        records = found(setting)[:1]
        row[0].set_ylabel(title_of(setting) + ("" if records else ": missing"))
        for record in records:
            looks, plane = curves.projections(record)
            for axes, view in zip(row, looks, strict=False):
                scatter(axes, view, plane)
                axes.set_title(f"update {view['iteration']}")
        for axes in row:
            axes.set(xticks=[], yticks=[])
    figure.supxlabel("updates of the second task", fontsize="medium")
    legend_above(figure, columns=4)


def f10(figure: Any, found: RecordsOf) -> None:
    """Without the rows of panels of which nothing is there, unless nothing is there at all."""
    panels = [(dataset, memory) for dataset, memories in DATASETS.items() for memory in memories]
    shown = [(s.dataset, s.memory) for s in F10.needs if found(s)]
    panels = [panel for panel in panels if panel in shown] or panels
    figure.set_size_inches(F10.size[0], F10.size[1] * len(panels) / ROWS)
    grid = figure.subplots(len(panels), 2, squeeze=False, sharex=False)
    for row, (dataset, memory) in zip(grid, panels, strict=True):
        for axes, augment in zip(row, (False, True), strict=True):
            here = [s for s in F10.needs if (s.dataset, s.memory, s.augment) == (dataset, memory, augment)]
            if any(map(found, here)):
                draw_tasks(axes, found, here, curves.anytime)
                axes.legend(frameon=False, ncols=2, fontsize=6)
            else:
                axes.text(0.5, 0.5, "missing", transform=axes.transAxes, ha="center", color="0.5")
                axes.set(xticks=[])
            axes.set(title=f"{dataset}, M = {memory}{', augmented' if augment else ''}", ylim=(0, 100))
        row[0].set_ylabel("anytime accuracy, %")


def anytime_settings() -> list[Setting]:
    return [
        Setting(dataset=dataset, method=method, memory=memory, augment=augment)
        for dataset, memories in DATASETS.items()
        for memory in memories
        for augment in (False, True)
        for method in (*COMPARED, *(("der++",) if augment else ()))
    ]


F1 = PaperFigure(
    "F1",
    "What happens at a task boundary",
    "fig:first_fig",
    [*FROM_ONE_MODEL[:2], *GRADIENTS[:2], *AT_A_SWITCH],
    f1,
    (10, 2.5),
)
F2 = PaperFigure(
    "F2",
    "Drift of samples in memory, by the negatives of ER-AML",
    "fig:drift_aml",
    [ERAML, ALL_NEGATIVES],
    f2,
    (INCH_PER_COLUMN, 4),
)
F3 = PaperFigure(
    "F3",
    "Accuracy on all classes by compute, Split CIFAR-10, M = 20",
    "fig:flop",
    [Setting(method=method) for method in (*COMPARED, "iid++")],
    f3,
    (INCH_PER_COLUMN, 2.8),
)
F4 = PaperFigure("F4", "Accuracy on the present task", "fig:ssil_first_task", [SSIL, ER, ERACE], f4)
F5 = PaperFigure("F5", "Alignment of memory and validation samples", "fig:drift_barchart", ALIGNED, f5)
F6 = PaperFigure(
    "F6",
    "DER++ with and without ACE",
    "fig:der",
    [Setting(method=m, memory=size, augment=True) for m in ("der++", "der++-ace") for size in (20, 100)],
    f6,
)
F7 = PaperFigure("F7", "Gradient norms at a switch", "fig:rep-gradient-mask", [ER, ERACE, ALL_NEGATIVES, ERAML], f7)
F8 = PaperFigure(
    "F8", "Drift of samples in memory, ER and ER-ACE", "appendix:drift", [COSINE_ER, ERACE], f8, (INCH_PER_COLUMN, 4)
)
F9 = PaperFigure("F9", "Features and prototypes during the second task", "appendix", FROM_ONE_MODEL, f9, (7, 5.2))
F10 = PaperFigure("F10", "Anytime accuracy", "appendix:add", anytime_settings(), f10, (7, 22))
FIGURES = {figure.name: figure for figure in (F1, F2, F3, F4, F5, F6, F7, F8, F9, F10)}
