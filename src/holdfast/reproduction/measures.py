"""What tables and claims say of a record: one number, or None where it has none."""

from collections.abc import Callable

import numpy as np

from holdfast.measure import metrics
from holdfast.measure.evaluate import Evaluation
from holdfast.reproduction import curves
from holdfast.runs.store import Record

AROUND_A_SWITCH = 100  # updates


def forgetting(record: Record) -> float | None:
    return None if record["forgetting"] is None else 100 * record["forgetting"]


def accuracy_at_task_ends(record: Record) -> float | None:
    evaluations = [Evaluation.from_record(e) for e in record["evaluations"]]
    mean = metrics.accuracy_at_task_ends(evaluations, record.get("tasks", []), record.get("task_ends", []))
    return None if mean is None else 100 * mean


def drift_in_second_task(record: Record) -> float | None:
    """The mean over the second task's updates that were looked at."""
    switch, end = record["task_ends"][:2]
    moved = [up for step, up in zip(*curves.drift(record), strict=True) if switch < step <= end]
    return sum(moved) / len(moved) if moved else None


def above_chance_on_the_present_task(record: Record) -> float | None:
    """Accuracy on the present task beyond that of guessing among the classes met, after the first task."""
    ends = record["task_ends"]
    met = np.cumsum([len(task) for task in record["tasks"]])
    looks = [(step, value) for step, value in curves.probed(record, "current-task") if step > ends[0]]
    beyond = [value - 1 / met[np.searchsorted(ends, step)] for step, value in looks]
    return 100 * float(np.mean(beyond)) if beyond else None


def change_at_the_switch(record: Record) -> float | None:
    """Accuracy on the first task in the first updates of the second, less that in the last ones of the first."""
    since, accuracy = curves.first_task_accuracy(record)
    near = [(at, value) for at, value in zip(since, accuracy, strict=True) if abs(at) <= AROUND_A_SWITCH]
    before, after = ([v for at, v in near if (at > 0) == late] for late in (False, True))
    return float(np.mean(after) - np.mean(before)) if before and after else None


def alignment(record: Record) -> float | None:
    """The mean over tasks, at the end."""
    return float(np.mean(curves.alignment_by_task(record))) if curves.probed(record, "alignment") else None


MEASURES: dict[str, tuple[str, Callable[[Record], float | None]]] = {
    "aaa": ("AAA %", lambda record: 100 * record["aaa"]),
    "aaa_at_task_ends": ("AAA % at task ends", accuracy_at_task_ends),
    "acc": ("Acc %", lambda record: 100 * record["acc"]),
    "forgetting": ("forgetting %", forgetting),
    "tflops": ("tera multiply-adds", lambda record: record["train_macs"] / 1e12),
    "megabytes": ("MB", lambda record: record["memory_bytes"] / 1e6),
    "drift": ("drift", drift_in_second_task),
    "present_task": ("present task, above chance", above_chance_on_the_present_task),
    "switch": ("change at the switch", change_at_the_switch),
    "alignment": ("alignment", alignment),
}
PUBLISHED_AS = {"aaa_at_task_ends": "aaa"}  # two readings of one published number
