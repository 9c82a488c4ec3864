"""One run, from top to bottom."""

import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch

import holdfast
from holdfast import machine
from holdfast.errors import CheckpointError
from holdfast.learner.labels import decode, encode
from holdfast.learner.state import pack, unpack
from holdfast.measure import metrics, mistakes
from holdfast.measure.evaluate import Evaluation
from holdfast.measure.inference import BATCH, suitable
from holdfast.measure.ledger import ACCOUNTS, Ledger
from holdfast.measure.precision import Precision
from holdfast.measure.probes import PROBES
from holdfast.runs.plan import Plan, plan
from holdfast.runs.spec import RunSpec, code_hash
from holdfast.storage import checkpoint
from holdfast.streams import source

UPDATES_AFTER_A_SWITCH = 20  # all of which the probes look at; otherwise where evaluations fall
Report = Callable[["Progress"], None]


@dataclass(frozen=True, slots=True)
class Progress:
    step: int
    steps: int
    seconds: float


class Run:
    """A run under way. All it has done so far can be saved, and a run of the same spec can take it up."""

    def __init__(self, plan: Plan, device: str = "cpu", precision: str | None = None) -> None:
        self.plan = plan
        self.learner, self.stream = plan.learner(device), plan.stream()
        self.precision = suitable(self.learner.net, torch.from_numpy(self.stream.dataset.test_x[:BATCH]), precision)
        self.evaluator = plan.evaluator(self.stream, self.precision.name)
        self.elsewhere: list[dict[str, Any]] = []  # other conditions that parts of it were done under
        self.moved = ""  # in what the conditions of the snapshot it goes on from differ from those here
        self._ledger = Ledger()
        self._evaluations: list[Evaluation] = []
        self._probes: list[dict[str, Any]] = []
        self._seen = 0
        self._seconds = {"train": 0.0, "all": 0.0}

    @property
    def done(self) -> bool:
        return self.learner.step == len(self.stream)

    @property
    def progress(self) -> Progress:
        return Progress(self.learner.step, len(self.stream), self._seconds["all"])

    def anytime(self, since: int = 0) -> list[tuple[int, float]]:
        """The step and the anytime accuracy of every evaluation after step `since`."""
        newer = takewhile(lambda e: e.step > since, reversed(self._evaluations))
        return [(e.step, metrics.anytime_accuracy(e, self.stream.tasks)) for e in newer][::-1]

    def advance(self) -> None:
        """The next batch, and an evaluation if one is due. The time that probes take is not the run's."""
        learner, evaluator, ledger = self.learner, self.evaluator, self._ledger
        x, y, task = self.stream.batch(learner.step)
        self.plan.enter(task, learner, self.stream)
        due = evaluator.due(learner.step + 1)
        if self.looks_at(learner.step + 1):
            self.look_ahead()
        started = time.perf_counter()
        with ledger.watch("training"):
            learner.observe(x, y, task=task)
        self._seen += len(y)
        self._seconds["train"] += time.perf_counter() - started
        if due:
            with ledger.watch("query"):
                scores = evaluator.scores(learner) if evaluator.answers_now(learner) else None
            with ledger.watch("evaluation"):
                evaluation = evaluator.evaluate(learner, scores, self._seen)
            self._evaluations.append(replace(evaluation, macs=ledger.train_macs))
            ledger.weigh(learner)
        self._seconds["all"] += time.perf_counter() - started
        self.look_back(due=due)

    def looks_at(self, step: int) -> bool:
        """Whether the probes look ahead at this update."""
        after_a_switch = (0 < step - end <= UPDATES_AFTER_A_SWITCH for end in self.stream.task_ends)
        return self.evaluator.due(step) or any(after_a_switch)

    def look_ahead(self) -> None:
        """What the probes find in the update that is to come."""
        for name in self.plan.spec.probe:
            self._note(name, self.learner.step + 1, PROBES[name].before(self.learner, self.stream))

    def look_back(self, *, due: bool) -> None:
        """What the probes find in the learner as it is now; `due`: an evaluation falls on this update."""
        for name in self.plan.spec.probe:
            self._note(name, self.learner.step, PROBES[name].after(self.learner, self.stream, due=due))

    def _note(self, probe: str, step: int, value: Any) -> None:
        if value is not None:
            self._probes.append({"name": probe, "step": step, "value": value})

    def record(self) -> dict[str, Any]:
        """What is kept of a finished run."""
        spec, learner, ledger, evaluations = self.plan.spec, self.learner, self._ledger, self._evaluations
        tasks, task_ends = self.stream.tasks, sorted(self.stream.task_ends)
        anytime = learner.method.anytime
        aaa = metrics.averaged_anytime_accuracy(evaluations, tasks, spec.eval_every)
        forgetting = metrics.forgetting(evaluations, tasks, task_ends)
        return {
            **spec.as_json(),
            "title": spec.title,
            "usual": dict(self.plan.usual),
            "acc": metrics.anytime_accuracy(evaluations[-1], tasks),
            "aaa": aaa if anytime else 0.0,
            "forgetting": forgetting if anytime else None,
            "train_macs": ledger.train_macs,
            "eval_macs": ledger.macs["evaluation"],
            "macs": {account: ledger.macs[account] for account in ACCOUNTS},
            "memory_bytes": ledger.mean_bytes,
            "seconds": self._seconds["all"],
            "train_seconds": self._seconds["train"],
            "updates": learner.step,
            "fast_path_agreement": self.evaluator.agreement(learner),
            "state_hash": learner.state_hash(),
            "classes": list(self.plan.source.dataset.classes),
            "tasks": tasks,
            "task_ends": task_ends,
            "confusion": mistakes.confusion(*self.evaluator.answers(learner)[1:]),
            "mistakes": self._mistakes,
            "evaluations": [{**asdict(e), "aa": metrics.anytime_accuracy(e, tasks)} for e in evaluations],
            "probes": self._probes,
            "data": self.plan.source.fingerprint,
            "code": code_hash(spec.method),
            "precision": asdict(self.precision),
            "environment": {**environment(self._conditions()), "elsewhere": self.elsewhere},
        }

    @cached_property
    def _mistakes(self) -> list[list[int]]:
        return mistakes.some(*self.evaluator.answers(self.learner))

    def artifacts(self, *, keep_learner: bool) -> dict[str, bytes]:
        """Files that belong to a finished run."""
        rows = [row for row, _, _ in self._mistakes]
        found = {
            "mistakes": mistakes.strip(self.plan.source.dataset.test_x[rows]),
            "learner": self.trained() if keep_learner else None,
        }
        return {name: content for name, content in found.items() if content is not None}

    def trained(self) -> bytes:
        """The learner of a finished run, as a file, with the names of its classes for labels."""
        names, labels = self.stream.dataset.classes, self.learner.labels
        if len(set(names)) == len(names):
            labels.restore([names[index] for index in self.learner.classes if isinstance(index, int)])
        return self.learner.serialized()

    def snapshot(self) -> bytes:
        """All it has done so far, as a checksummed file would hold it."""
        tensors, values = pack(self.learner)
        done = {
            "evaluations": [asdict(e) for e in self._evaluations],
            "probes": self._probes,
            "ledger": self._ledger.state(),
            "seen": self._seen,
            "seconds": self._seconds,
        }
        labels = [encode(label) for label in self.learner.classes]
        made = {"here": self._conditions(), "elsewhere": self.elsewhere}
        made["precision"] = asdict(self.precision)
        manifest = {"whose": self._whose, "done": done, "learner": values, "labels": labels, "made": made}
        return checkpoint.pack(tensors, manifest)

    def take_up(self, snapshot: bytes) -> bool:
        """Goes on from a snapshot; False if it is damaged or of another run or other code."""
        try:
            tensors, manifest = checkpoint.unpack(snapshot)
        except CheckpointError:
            return False
        if manifest["whose"] != self._whose:
            return False
        unpack(self.learner, tensors, manifest["learner"], [decode(label) for label in manifest["labels"]])
        self._take_over(**manifest["made"])
        done = manifest["done"]
        self._evaluations = [Evaluation.from_record(e) for e in done["evaluations"]]
        self._probes = done["probes"]
        self._ledger.restore(done["ledger"])
        self._seen, self._seconds = done["seen"], done["seconds"]
        return True

    def _take_over(self, here: dict[str, Any], elsewhere: list[dict[str, Any]], precision: dict[str, Any]) -> None:
        """Under the same conditions the precision stays what it was; under others it is the one that works here."""
        self.elsewhere = elsewhere
        self.moved = machine.differences(self._conditions(), here)
        if self.moved:
            self.elsewhere = [*elsewhere, here]
        else:
            self.precision = Precision(**precision)
            self.evaluator = self.plan.evaluator(self.stream, self.precision.name)

    def _conditions(self) -> dict[str, Any]:
        return machine.conditions(self.learner.device.type, codec=self.learner.memory.codec_version)

    @property
    def _whose(self) -> dict[str, str]:
        return {"run": self.plan.run_id, "code": code_hash(self.plan.spec.method)}


def run(spec: RunSpec, root: Path, report: Report = lambda progress: None) -> dict[str, Any]:
    """Runs `spec` from its first batch to its last and returns its record."""
    whole = Run(plan(spec, source(spec.stream, root)))
    while not whole.done:
        whole.advance()
        report(whole.progress)
    return whole.record()


def environment(conditions: dict[str, Any]) -> dict[str, Any]:
    """What the bits of a record depend on, and what tells a reader where it was made."""
    return {
        "holdfast": holdfast.__version__,
        "python": platform.python_version(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "processor": machine.processor(),
        "limits": machine.limits(),
        **conditions,
    }
