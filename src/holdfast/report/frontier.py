"""Accuracy against what it costs: bytes that a learner keeps, and multiply-adds that it takes to learn."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from holdfast import methods
from holdfast.errors import HoldfastError
from holdfast.report.figures import colours, write
from holdfast.report.groups import is_usual, word
from holdfast.report.statistics import mean_and_error, show
from holdfast.report.tables import figure_of_macs, memory_of
from holdfast.report.terminal import printable
from holdfast.runs.spec import CHOICES, SETTING
from holdfast.runs.store import Record

APART = ("stream", "memory", "lr", "net", "eval_every", "eval_mode")  # one stream; told elsewhere; of no effect
SHOWN = [name for name in SETTING if name not in APART]  # what sets two variants of a method apart, beside the net
MARKERS = "osD^vPX*"


@dataclass(frozen=True)
class Point:
    """The runs of one method in one setting."""

    variant: str
    method: str
    memory: str
    accuracies: list[float]
    megabytes: float
    macs: float
    shuffled: bool  # it was given the stream in random order

    @property
    def accuracy(self) -> float:
        return mean_and_error(self.accuracies)[0]

    @property
    def teramacs(self) -> float:
        return self.macs / 1e12

    @property
    def error(self) -> float:
        return mean_and_error(self.accuracies)[1] or 0.0


def points(records: Sequence[Record]) -> list[Point]:
    """A point for each method, memory and setting, over its seeds; the last run of a seed counts."""
    groups: dict[tuple[str, str, Any], dict[int, Record]] = {}
    for record in records:
        groups.setdefault((_variant(record), _memory(record), record["lr"]), {})[record["seed"]] = record
    return [_point(variant, memory, list(of.values())) for (variant, memory, _), of in groups.items()]


def front(found: Sequence[Point], cost: str) -> list[Point]:
    """Those that nothing beats: no other is at least as accurate for less, or more accurate at the same cost.

    Methods that get the stream shuffled are a bound for the others, not one of them.
    """
    best: list[Point] = []
    for point in sorted((p for p in found if not p.shuffled), key=lambda p: (getattr(p, cost), -p.accuracy)):
        if not best or point.accuracy > best[-1].accuracy:
            best.append(point)
    return best


def table(found: Sequence[Point]) -> Table:
    """Every point, best first; marked where nothing beats it."""
    by_bytes, by_macs = front(found, "megabytes"), front(found, "macs")
    shown = Table(
        caption="mean ± standard error over n seeds; MB: everything that the learner keeps, its nets included; "
        "●: nothing is more accurate for less; iid: the stream shuffled",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    shown.add_column("method", overflow="fold", min_width=12)
    for column in ("memory", "n", "Acc %", "MB", "", "MACs", ""):
        shown.add_column(column, justify="right", no_wrap=True)
    for point in sorted(found, key=lambda p: -p.accuracy):
        shown.add_row(
            point.variant,
            point.memory,
            str(len(point.accuracies)),
            show(point.accuracies, 1),
            f"{point.megabytes:.2f}",
            "●" * (point in by_bytes),
            figure_of_macs(point.macs),
            "●" * (point in by_macs),
        )
    return shown


def picture(found: Sequence[Point], title: str, path: Path) -> None:
    """Two panels: accuracy against megabytes and against multiply-adds, each with the front."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    figure, panels = plt.subplots(1, 2, figsize=(12, 5), sharey=True, layout="constrained")
    looks = _looks(found)
    names = {"megabytes": "MB kept, nets included", "teramacs": "10¹² multiply-adds to learn"}
    for axes, (cost, name) in zip(panels, names.items(), strict=True):
        best = front(found, cost)
        axes.step([getattr(p, cost) for p in best], [p.accuracy for p in best], where="post", color="0.8", zorder=1)
        for variant, (shade, _) in looks.items():
            its = sorted((getattr(p, cost), p.accuracy) for p in found if p.variant == variant)
            axes.plot(*zip(*its, strict=True), color=shade, linewidth=0.8, alpha=0.6, zorder=1)
        for point in found:
            x = getattr(point, cost)
            shade, marker = looks[point.variant]
            if point.shuffled:
                axes.axhline(point.accuracy, color=shade, linestyle=":", linewidth=1, zorder=0)
            spread = point.error or None
            axes.errorbar(x, point.accuracy, spread, fmt=marker, color=shade, markersize=6, elinewidth=1, zorder=2)
        for point in best:
            at = getattr(point, cost), point.accuracy
            axes.annotate(
                point.memory, at, xytext=(-8, 0), textcoords="offset points", fontsize=8, ha="right", va="center"
            )
        axes.set(xscale="log", xlabel=name)
        axes.minorticks_off()
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.margins(0.15, 0.05)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("accuracy at the end, %")
    handles = [Line2D([], [], color=c, marker=m, linestyle="", label=name) for name, (c, m) in looks.items()]
    figure.legend(handles=handles, frameon=False, loc="outside right upper", fontsize=8)
    figure.suptitle(title)
    write(figure, path, dpi=160)
    plt.close(figure)


def _looks(found: Sequence[Point]) -> dict[str, tuple[str, str]]:
    """Colour by method, marker by which of its variants."""
    methods = {point.variant: point.method for point in sorted(found, key=lambda p: -p.accuracy)}
    shades = colours(methods.values())
    seen: dict[str, int] = {}
    looks = {}
    for variant, method in methods.items():
        seen[method] = seen.get(method, -1) + 1
        looks[variant] = shades[method], MARKERS[seen[method] % len(MARKERS)]
    return looks


def _variant(record: Record) -> str:
    chosen = {CHOICES[name].name: record.get(name) for name in SHOWN if not is_usual(record, name)}
    chosen |= {"net": record["net"]} if record.get("net") else {}
    apart = [name if value is True else f"{name} {word(value)}" for name, value in chosen.items()]
    return printable(", ".join([record["title"], *apart]))


def _memory(record: Record) -> str:
    memory = record["memory"]
    return f"M = {memory}" if isinstance(memory, int) else memory_of(memory, None).removesuffix(" of memory")


def _point(variant: str, memory: str, group: Sequence[Record]) -> Point:
    mean = {name: mean_and_error([record[name] for record in group])[0] for name in ("memory_bytes", "train_macs")}
    accuracies = [100 * record["acc"] for record in group]
    method = str(group[0]["method"])
    shuffled = _is_shuffled(method)
    return Point(variant, method, memory, accuracies, mean["memory_bytes"] / 1e6, mean["train_macs"], shuffled)


def _is_shuffled(method: str) -> bool:
    try:
        return bool(methods.find(method).iid_batches)
    except HoldfastError:  # a file of the user's that is gone
        return False
