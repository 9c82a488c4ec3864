"""The ten figures."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from holdfast.measure import metrics
from holdfast.measure.evaluate import Evaluation
from holdfast.paper.figure import INCH_PER_COLUMN, PaperFigure, band, of_first_task, probed, smooth
from holdfast.paper.setting import Found, Setting
from holdfast.paper.tables import TITLES
from holdfast.report.figures import COLOURS, shade_tasks
from holdfast.runs.store import Record

PROBES = "drift,gradient,alignment,current-task"
AROUND_SWITCH = 100  # updates
SMOOTHED = 10  # evaluations
ER, ERACE, ERAML, ALL_NEGATIVES, SSIL = (
    Setting(method=method, probe=PROBES) for method in ("er", "er-ace", "er-aml", "er-aml:negatives=all", "ss-il")
)
FROM_ONE_MODEL = [
    Setting(method=method, start="er:head=cosine", probe="projection,gradient")
    for method in ("er:head=cosine", "er-ace", "er-aml")
]
DATASETS = {"cifar10": (5, 20, 50, 100), "cifar100": (20, 50, 100), "mini-imagenet": (20, 50, 100)}
COMPARED = ("er", "icarl", "mir", "ss-il", "er-ace", "er-aml")
POINTS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2")


def title_of(setting: Setting) -> str:
    variants = {"er-aml:negatives=all": "ER-AML, all negatives", "der++-ace": "DER++ with ACE"}
    return variants.get(setting.method) or TITLES[setting.name]


def anytime_curve(record: Record) -> tuple[list[int], list[float]]:
    evaluations = record["evaluations"]
    return [e["step"] for e in evaluations], smooth([100 * e["aa"] for e in evaluations], SMOOTHED)


def old_task_curve(record: Record, name: str) -> tuple[list[int], list[float]]:
    """What a probe says of the first task's classes, during the second task, by updates since the switch."""
    first, second = record["task_ends"][:2]
    values = [
        (step, of_first_task(v, len(record["tasks"][0]))) for step, v in probed(record, name) if first < step <= second
    ]
    return [step - first for step, v in values if v is not None], [v for _, v in values if v is not None]


def draw_old_task(axes: Any, found: Found, settings: Sequence[Setting], probe: str) -> None:
    for setting in settings:
        curves = [old_task_curve(record, probe) for record in found(setting)]
        band(axes, [(x, smooth(y, SMOOTHED)) for x, y in curves if x], setting, title_of(setting))
    axes.set(xlabel="updates since the second task began")


def legend_above(figure: Any, columns: int = 2) -> None:
    """Where it hides no curve; that of the first panel that has one."""
    legends = [axes.get_legend_handles_labels() for axes in figure.axes]
    for handles, labels in [legend for legend in legends if legend[0]][:1]:
        figure.legend(handles, labels, frameon=False, ncols=columns, loc="outside upper center", fontsize=6)


def legend_inside(axes: Any) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=6)


def projected(record: Record) -> tuple[list[dict[str, Any]], np.ndarray[Any, Any]]:
    """The looks at the second task, and the two main directions of all features and prototypes together."""
    looks = [value for _, value in probed(record, "projection")]
    everything = np.concatenate([np.array([*each["features"], *each["prototypes"].values()]) for each in looks])
    _, _, directions = np.linalg.svd(everything - everything.mean(0), full_matrices=False)
    return looks, directions[:2]


def scatter(axes: Any, view: dict[str, Any], plane: "np.ndarray[Any, Any]") -> None:
    flat, labels = np.array(view["features"]) @ plane.T, np.array(view["label"])
    for colour, (number, label) in zip(POINTS, enumerate(np.unique(labels)), strict=False):
        axes.scatter(*flat[labels == label].T, s=2, color=colour, alpha=0.6, linewidth=0)
        if str(label) in view["prototypes"]:
            at = plane @ np.array(view["prototypes"][str(label)])
            axes.scatter(*at, s=50, marker="*", color=colour, edgecolor="black", linewidth=0.5, label=f"class {number}")
    axes.set(xticks=[], yticks=[])


def f1(figure: Any, found: Found) -> None:
    axes = figure.subplots(1, 4)
    for panel, setting in zip(axes[:2], FROM_ONE_MODEL, strict=False):
        panel.set_title(f"{title_of(setting)}: missing")
        for record in found(setting)[:1]:
            looks, plane = projected(record)
            view = next((each for each in looks if each["iteration"] == AROUND_SWITCH), looks[-1])
            scatter(panel, view, plane)
            panel.set_title(f"{title_of(setting)}, {view['iteration']} updates after the switch")
    legend_inside(axes[0])
    draw_old_task(axes[2], found, FROM_ONE_MODEL[:2], "gradient")
    legend_inside(axes[2])
    axes[2].set(title="gradient on features of old classes", xscale="log", ylabel="norm")
    for setting in FROM_ONE_MODEL[:2]:
        band(axes[3], [around_switch(record) for record in found(setting)], setting, title_of(setting))
    axes[3].set(title="accuracy on the first task", xlabel="updates since the second task began", ylabel="%")
    axes[3].axvline(0, color="0.6", linewidth=0.7)
    legend_inside(axes[3])


def around_switch(record: Record) -> tuple[list[int], list[float]]:
    first, reach = record["task_ends"][0], max(AROUND_SWITCH, record["task_ends"][0] // 2)
    near = [e for e in record["evaluations"] if abs(e["step"] - first) <= reach]
    accuracy = [100 * (metrics.task_accuracies(Evaluation.from_record(e), record["tasks"])[0] or 0.0) for e in near]
    return [e["step"] - first for e in near], accuracy


def f2(figure: Any, found: Found) -> None:
    axes = figure.subplots()
    draw_old_task(axes, found, [ERAML, ALL_NEGATIVES], "drift")
    axes.set(ylabel="distance moved in one update")
    legend_above(figure)


def f3(figure: Any, found: Found) -> None:
    axes = figure.subplots()
    for setting in F3.needs:
        band(axes, [against_compute(record) for record in found(setting)], setting, title_of(setting))
    axes.set(xlabel="tera multiply-adds so far", ylabel="accuracy on all classes, %")
    axes.ticklabel_format(axis="x", style="sci", scilimits=(-2, 3))
    legend_above(figure, columns=3)


def against_compute(record: Record) -> tuple[list[float], list[float]]:
    """Accuracy over all classes, also those still to come, by what was computed until then."""
    shares = [metrics.task_accuracies(Evaluation.from_record(e), record["tasks"]) for e in record["evaluations"]]
    accuracy = [100 * sum(a or 0.0 for a in each) / len(each) for each in shares]
    spent = [
        e["macs"] if e.get("macs") is not None else record["train_macs"] * e["step"] / record["updates"]
        for e in record["evaluations"]
    ]
    return [each / 1e12 for each in spent], smooth(accuracy, SMOOTHED)


def f4(figure: Any, found: Found) -> None:
    axes = figure.subplots()
    shade_tasks(axes, [record for setting in F4.needs for record in found(setting)])
    for setting in F4.needs:
        curves = [tuple(zip(*probed(record, "current-task"), strict=True)) for record in found(setting)]
        band(axes, [(x, smooth([100 * v for v in y], SMOOTHED)) for x, y in curves], setting, title_of(setting))
    axes.set(xlabel="updates", ylabel="accuracy on the present task, %", ylim=(0, 100))
    legend_above(figure, columns=3)


def f5(figure: Any, found: Found) -> None:
    axes = figure.subplots()
    for number, setting in enumerate(F5.needs):
        bars = [alignment_by_task(record) for record in found(setting)]
        bars_drawn(axes, bars, number, len(F5.needs), setting)
    axes.set(xlabel="task", ylabel="best cosine similarity")
    legend_above(figure)


def alignment_by_task(record: Record) -> list[float]:
    _, last = probed(record, "alignment")[-1]
    ends = np.cumsum([0, *(len(task) for task in record["tasks"])])
    by_task = [[v for label, v in last.items() if a <= int(label) < b] for a, b in pairwise(ends)]
    return [float(np.mean(values)) if values else 0.0 for values in by_task]


def bars_drawn(axes: Any, bars: Sequence[Sequence[float]], number: int, of: int, setting: Setting) -> None:
    label = f"{title_of(setting)} ({f'n = {len(bars)}' if bars else 'missing'})"
    if not bars:
        axes.bar([], [], color=COLOURS[setting.name], label=label)
        return
    heights = np.array(bars)
    error = heights.std(0, ddof=1) / np.sqrt(len(heights)) if len(heights) > 1 else None
    at = np.arange(1, heights.shape[1] + 1) + (number - (of - 1) / 2) * 0.8 / of
    axes.bar(at, heights.mean(0), 0.8 / of, yerr=error, color=COLOURS[setting.name], label=label)


def f6(figure: Any, found: Found) -> None:
    methods, memories = ("der++", "der++-ace"), (20, 100)
    for axes, (name, measure) in zip(
        figure.subplots(1, 2), (("accuracy, %", "acc"), ("forgetting, %", "forgetting")), strict=True
    ):
        for number, method in enumerate(methods):
            of_memory = [found(Setting(method=method, memory=memory, augment=True)) for memory in memories]
            seeds = min(map(len, of_memory))
            bars = [[100 * records[seed][measure] for records in of_memory] for seed in range(seeds)]
            bars_drawn(axes, bars, number, len(methods), Setting(method=method))
        axes.set(xticks=[1, 2], xticklabels=[f"M = {memory}" for memory in memories], ylabel=name)
    legend_above(figure)


def f7(figure: Any, found: Found) -> None:
    axes = figure.subplots()
    draw_old_task(axes, found, [ER, ERACE, ALL_NEGATIVES, ERAML], "gradient")
    axes.set(ylabel="gradient norm, old classes", xscale="log")
    legend_above(figure)


def f8(figure: Any, found: Found) -> None:
    axes = figure.subplots()
    draw_old_task(axes, found, [ER, ERACE], "drift")
    axes.set(ylabel="distance moved in one update")
    legend_above(figure)


def f9(figure: Any, found: Found) -> None:
    grid = figure.subplots(len(FROM_ONE_MODEL), 4, squeeze=False, sharex="row", sharey="row")
    for row, setting in zip(grid, FROM_ONE_MODEL, strict=True):
        row[0].set_ylabel(title_of(setting))
        for record in found(setting)[:1]:
            looks, plane = projected(record)
            for axes, view in zip(row, looks, strict=False):
                scatter(axes, view, plane)
                axes.set_title(f"update {view['iteration']}")
        for axes in row:
            axes.set(xticks=[], yticks=[])
    figure.supxlabel("updates of the second task", fontsize="medium")
    legend_above(figure, columns=4)


def f10(figure: Any, found: Found) -> None:
    panels = [(dataset, memory) for dataset, memories in DATASETS.items() for memory in memories]
    grid = figure.subplots(len(panels), 2, squeeze=False, sharex=False)
    for row, (dataset, memory) in zip(grid, panels, strict=True):
        for axes, augment in zip(row, (False, True), strict=True):
            here = [s for s in F10.needs if (s.dataset, s.memory, s.augment) == (dataset, memory, augment)]
            shade_tasks(axes, [record for setting in here for record in found(setting)])
            for setting in here:
                if records := found(setting):
                    band(axes, [anytime_curve(record) for record in records], setting, title_of(setting))
            if any(map(found, here)):
                axes.legend(frameon=False, ncols=2)
            else:
                axes.text(0.5, 0.5, "missing", transform=axes.transAxes, ha="center", color="0.5")
            axes.set(title=f"{dataset}, M = {memory}{', augmented' if augment else ''}", ylim=(0, 100))
    grid[-1][0].set(xlabel="updates", ylabel="anytime accuracy, %")


def anytime_settings() -> list[Setting]:
    return [
        Setting(dataset=dataset, method=method, memory=memory, augment=augment)
        for dataset, memories in DATASETS.items()
        for memory in memories
        for augment in (False, True)
        for method in (*COMPARED, *(("der++",) if augment else ()))
    ]


F1 = PaperFigure("F1", "What happens at a task boundary", "fig:first_fig", FROM_ONE_MODEL[:2], f1, (10, 2.5))
F2 = PaperFigure(
    "F2", "Drift of samples in memory, by the negatives of ER-AML", "fig:drift_aml", [ERAML, ALL_NEGATIVES], f2
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
F5 = PaperFigure("F5", "Alignment of memory and held-out samples", "fig:drift_barchart", [ER, ERACE], f5)
F6 = PaperFigure(
    "F6",
    "DER++ with and without ACE",
    "fig:der",
    [Setting(method=m, memory=size, augment=True) for m in ("der++", "der++-ace") for size in (20, 100)],
    f6,
)
F7 = PaperFigure("F7", "Gradient norms at a switch", "fig:rep-gradient-mask", [ER, ERACE, ALL_NEGATIVES, ERAML], f7)
F8 = PaperFigure("F8", "Drift of samples in memory, ER and ER-ACE", "appendix:drift", [ER, ERACE], f8)
F9 = PaperFigure("F9", "Features and prototypes during the second task", "appendix", FROM_ONE_MODEL, f9, (7, 5.2))
F10 = PaperFigure("F10", "Anytime accuracy", "appendix:add", anytime_settings(), f10, (7, 22))
FIGURES = {figure.name: figure for figure in (F1, F2, F3, F4, F5, F6, F7, F8, F9, F10)}
