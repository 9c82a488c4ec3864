"""What every tool does to show a run; how it does it is in its own file."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.measure.evaluate import Evaluation
from holdfast.measure.metrics import Tasks, task_accuracies
from holdfast.runs.spec import RunSpec

AA = "AA"
FIGURES = ("acc", "aaa", "forgetting", "train_macs", "memory_bytes", "seconds")
Row = Mapping[str, float]  # values of one step by name


class Logger(ABC):
    """One run in one tool."""

    def __init__(self) -> None:
        self.shown: set[int] = set()  # the steps whose anytime accuracy the tool has

    def advance(self, anytime: Iterable[tuple[int, float]]) -> None:
        self._send({step: {AA: value} for step, value in anytime if step not in self.shown})

    def finish(self, record: Mapping[str, Any]) -> None:
        """Completes the curves from the record, then ends the run."""
        evaluations, tasks = record["evaluations"], record["tasks"]
        missing = set(self.missing([e["step"] for e in evaluations]))
        self._send({e["step"]: {**_overall(e, missing), **_by_task(e, tasks)} for e in evaluations})
        self.end(record["updates"], {name: float(record[name]) for name in FIGURES if record[name] is not None})

    def missing(self, steps: Sequence[int]) -> Sequence[int]:
        """The steps whose anytime accuracy is yet to be sent."""
        return [step for step in steps if step not in self.shown]

    @abstractmethod
    def send(self, rows: Mapping[int, Row]) -> None:
        """Shows values, by step in increasing order."""

    @abstractmethod
    def end(self, step: int, figures: Row) -> None:
        """The run is done."""

    @abstractmethod
    def fail(self, why: str) -> None: ...

    @abstractmethod
    def stop(self) -> None:
        """The run was interrupted and may go on another time."""

    def _send(self, rows: Mapping[int, Row]) -> None:
        rows = {step: row for step, row in rows.items() if row}
        if rows:
            self.send(rows)
            self.shown |= rows.keys()


class Tool(ABC):
    @abstractmethod
    def __init__(self, out: Path) -> None:
        """Makes the first contact: what is wrong with the tool's own settings shows here."""

    @abstractmethod
    def start(self, spec: RunSpec, run: str) -> Logger: ...


def name_of(spec: RunSpec) -> str:
    return f"{spec.title} seed {spec.seed}"


def settings(spec: RunSpec) -> dict[str, Any]:
    """The hyper-parameters, on one level; what is left open is left out."""
    fields = {name: value for name, value in spec.as_json().items() if value is not None and value != ()}
    options = fields.pop("options")
    if "probe" in fields:
        fields["probe"] = ",".join(fields["probe"])
    return fields | {f"options.{name}": value for name, value in options.items()}


def _overall(evaluation: Mapping[str, Any], steps: set[int]) -> Row:
    return {AA: evaluation["aa"]} if evaluation["step"] in steps else {}


def _by_task(e: Mapping[str, Any], tasks: Tasks) -> Row:
    if len(tasks) < 2:
        return {}
    accuracies = task_accuracies(Evaluation.from_record(e), tasks)
    return {f"tasks/{number}": value for number, value in enumerate(accuracies, start=1) if value is not None}
