"""What the figures show of a record: curves are (across, up)."""

from itertools import pairwise
from typing import Any

import numpy as np

from holdfast.measure import metrics
from holdfast.measure.evaluate import Evaluation
from holdfast.runs.store import Record

Curve = tuple[list[float], list[float]]
LEAST_REACH = 100  # updates


def probed(record: Record, name: str) -> list[tuple[int, Any]]:
    return [(probe["step"], probe["value"]) for probe in record["probes"] if probe["name"] == name]


def anytime(record: Record) -> Curve:
    return [e["step"] for e in record["evaluations"]], [100 * e["aa"] for e in record["evaluations"]]


def by_compute(record: Record) -> Curve:
    """Accuracy over all classes, also those still to come, by what was computed until then."""
    spent = [
        e["macs"] if e.get("macs") is not None else record["train_macs"] * e["step"] / record["updates"]
        for e in record["evaluations"]
    ]
    of_tasks = [_task_accuracies(record, e) for e in record["evaluations"]]
    return [each / 1e12 for each in spent], [100 * sum(of_each) / len(of_each) for of_each in of_tasks]


def first_task_accuracy(record: Record) -> Curve:
    """Around the first switch, by updates since then."""
    switch = record["task_ends"][0]
    near = [e for e in record["evaluations"] if abs(e["step"] - switch) <= max(LEAST_REACH, switch // 2)]
    return [e["step"] - switch for e in near], [100 * _task_accuracies(record, e)[0] for e in near]


def present_task_accuracy(record: Record) -> Curve:
    looks = probed(record, "current-task")
    return [step for step, _ in looks], [100 * accuracy for _, accuracy in looks]


def drift(record: Record) -> Curve:
    """How far an update moves the samples in memory, the mean over their classes."""
    looks = probed(record, "drift")
    return [step for step, _ in looks], [_mean(moved.values()) for _, moved in looks]


def of_first_task(record: Record, probe: str, *, before: bool = False) -> Curve:
    """What a probe says of the first task's classes, by updates since the second began: in that, or `before` it too."""
    (switch, end), classes = record["task_ends"][:2], len(record["tasks"][0])
    looks = [(step, v) for step, v in probed(record, probe) if (before or switch < step) and step <= end]
    old = [(step, [v for label, v in by_class.items() if int(label) < classes]) for step, by_class in looks]
    return [step - switch for step, values in old if values], [_mean(values) for _, values in old if values]


def alignment_by_task(record: Record) -> list[float]:
    _, last = probed(record, "alignment")[-1]
    ends = np.cumsum([0, *(len(task) for task in record["tasks"])])
    by_task = [[v for label, v in last.items() if a <= int(label) < b] for a, b in pairwise(ends)]
    return [_mean(values) if values else 0.0 for values in by_task]


def projections(record: Record) -> tuple[list[dict[str, Any]], np.ndarray[Any, Any]]:
    """The looks at the second task, and the two main directions of all features and prototypes together."""
    looks = [value for _, value in probed(record, "projection")]
    everything = np.concatenate([np.array([*each["features"], *each["prototypes"].values()]) for each in looks])
    _, _, directions = np.linalg.svd(everything - everything.mean(0), full_matrices=False)
    return looks, directions[:2]


def _task_accuracies(record: Record, evaluation: dict[str, Any]) -> list[float]:
    """0 for tasks not met yet."""
    return [a or 0.0 for a in metrics.task_accuracies(Evaluation.from_record(evaluation), record["tasks"])]


def _mean(values: Any) -> float:
    return float(np.mean(list(values)))
