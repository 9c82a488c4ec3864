"""Runs of one setting on the page: curves along the stream, a summary, and the methods against each other."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.measure import metrics
from holdfast.measure.evaluate import Evaluation
from holdfast.report.classes import ClassesView, view
from holdfast.report.compare import Comparison, compare
from holdfast.report.figures import looks
from holdfast.report.groups import by_setting, by_title, of_methods
from holdfast.report.statistics import mean_and_error, show
from holdfast.report.tables import headline
from holdfast.runs.store import Record

MOST_POINTS = 300  # of a curve; a screen shows no more
DASHES = {"-": "", "--": "6 3", ":": "2 2", "-.": "6 2 2 2"}
PANELS = {"aa": "on all tasks met so far", "earlier": "on the tasks before the present one"}
Curves = dict[str, list[float | None]]
Chart = dict[str, Any]  # what page.js draws


@dataclass(frozen=True)
class Summary:
    """A method of a setting: its numbers, and the runs behind them."""

    title: str
    figures: list[str]
    runs: list[str]


@dataclass(frozen=True)
class SettingView:
    headline: str
    apart: tuple[str, ...]  # what sets it apart from the others
    of_methods: str  # what the methods have each of their own
    rows: list[Summary]
    charts: list[Chart]
    comparison: Comparison | None
    classes: ClassesView | None
    runs: list[str]


Load = Callable[[str], Record]
Strip = Callable[[str], bytes | None]


def settings(records: Sequence[Record], load: Load, strip: Strip = lambda run: None) -> list[SettingView]:
    """`records` need no evaluations; whole ones are loaded when they are shown. `strip`: pictures of mistakes."""
    return [_view(apart, group, load, strip) for apart, group in by_setting(records).items()] if records else []


def _view(apart: tuple[str, ...], group: Sequence[Record], load: Load, strip: Strip) -> SettingView:
    methods = {title: _one_a_seed(of_title) for title, of_title in by_title(group).items()}
    rows = [Summary(title, _figures(of_title), _ids(of_title)) for title, of_title in methods.items()]
    accuracies = {title: {r["seed"]: 100 * r["acc"] for r in of_title} for title, of_title in methods.items()}
    charts, comparison = _charts(group, methods, load), compare(accuracies)
    classes = view([load(run) for of_title in methods.values() for run in _ids(of_title)], strip)
    return SettingView(headline(group), apart, of_methods(group), rows, charts, comparison, classes, _ids(group))


def _one_a_seed(group: Sequence[Record]) -> list[Record]:
    """The last: an earlier one may be of a file of the user's as it was then, or have other probes."""
    return list({record["seed"]: record for record in group}.values())


def _ids(group: Sequence[Record]) -> list[str]:
    return [record["id"] for record in group]


def _figures(group: Sequence[Record]) -> list[str]:
    macs = [record["train_macs"] for record in group]
    scale, unit = next(((s, u) for s, u in ((1e12, "T"), (1e9, "G")) if max(macs) >= s), (1e6, "M"))
    return [
        *(show([record[key] for record in group]) for key in ("acc", "aaa", "forgetting")),
        f"{show(macs, 1 / scale)} {unit}",
        show([record["memory_bytes"] for record in group], 1e-6),
        show([record["seconds"] for record in group], 1),
    ]


def curves(record: Record) -> Curves:
    """Steps and accuracies in per cent, thinned out."""
    evaluations = record["evaluations"]
    every = math.ceil(len(evaluations) / MOST_POINTS)
    kept = evaluations[::-1][:: every or 1][::-1]  # with the last
    return {
        "steps": [e["step"] for e in kept],
        "aa": [_percent(e["aa"]) for e in kept],
        "earlier": [_percent(metrics.earlier_accuracy(Evaluation.from_record(e), record["tasks"])) for e in kept],
    }


def chart(record: Record, title: str, series: list[Chart]) -> Chart:
    return {"title": title, "ends": record["task_ends"], "updates": record["updates"], "series": series}


def _charts(group: Sequence[Record], methods: dict[str, list[Record]], load: Load) -> list[Chart]:
    series: dict[str, list[Chart]] = {panel: [] for panel in PANELS}
    longest = load(group[0]["id"])
    for title, (colour, style) in looks(group).items():
        records = [load(run) for run in _ids(methods[title])]
        longest = max(longest, records[0], key=lambda record: len(record["task_ends"]))
        of_seeds = [curves(record) for record in records]
        look = {"name": title, "colour": colour.removeprefix("#"), "dash": DASHES[style]}
        for panel in PANELS:
            series[panel].append(look | _band([each["steps"] for each in of_seeds], [each[panel] for each in of_seeds]))
    return [chart(longest, name, series[panel]) for panel, name in PANELS.items()]


def _band(steps: list[list[float | None]], heights: list[list[float | None]]) -> Chart:
    """Mean and standard error over seeds, where all of them have a value."""
    columns = zip(*heights, strict=False)
    points = [mean_and_error(known) if len(known) == len(heights) else (None, None) for known in map(_known, columns)]
    return {
        "steps": steps[0][: len(points)],
        "mean": [None if mean is None else round(mean, 2) for mean, _ in points],
        "error": [None if error is None else round(error, 2) for _, error in points],
    }


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 1)
