"""Anytime evaluation. It records counts per class, never ratios, and cannot touch training."""

import time
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from holdfast.errors import InputError
from holdfast.learner import Learner
from holdfast.measure.inference import BATCH, FastNet, can_be_faster
from holdfast.measure.precision import Name
from holdfast.methods import Scores
from holdfast.nets import Net
from holdfast.seeds import generator
from holdfast.streams import Stream

Rows = NDArray[np.int64]
SAMPLES_COMPARED = 500  # with the fast net, at most


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How many test samples of each class were tried, and how many answered rightly, after `step` updates."""

    step: int
    seen: int
    correct: tuple[int, ...]
    total: tuple[int, ...]
    macs: int | None = None  # what the learner has computed until then

    @classmethod
    def from_record(cls, e: Mapping[str, Any]) -> "Evaluation":
        return cls(e["step"], e["seen"], tuple(e["correct"]), tuple(e["total"]), e.get("macs"))


@dataclass(frozen=True, slots=True)
class Schedule:
    """When to evaluate (every so many updates) and on which share of the test set (1/slices of it)."""

    every: int = 10
    slices: int = 1

    def __post_init__(self) -> None:
        if self.every < 1:
            raise InputError(f"--eval-every must be 1 or more, not {self.every}")

    @classmethod
    def parse(cls, every: int, mode: str) -> "Schedule":
        kind, _, slices = mode.partition(":")
        if mode == "exact":
            return cls(every, 1)
        if kind != "rotating" or not slices.isdecimal() or int(slices) < 1:
            raise InputError(f"--eval must be exact or rotating:K with a whole K of 1 or more, not {mode!r}")
        return cls(every, int(slices))

    @property
    def mode(self) -> str:
        return "exact" if self.slices == 1 else f"rotating:{self.slices}"


class Evaluator:
    """Tests a learner on the tasks it has met, exactly or on the next slice of a stratified partition.

    Every class is cut into the same number of slices by a seeded permutation, so a rotating evaluation is an
    unbiased estimate of the exact one. Task ends are always exact.
    """

    def __init__(self, stream: Stream, schedule: Schedule, seed: int, precision: Name = "float32") -> None:
        self.stream = stream
        self.schedule = schedule
        self._precision = precision
        self._fast: FastNet | None = None
        self._latest: tuple[int, Rows, Rows] | None = None  # the step, the samples and what was answered
        rng = generator(seed, "evaluation")
        rows_of = [rng.permutation(np.flatnonzero(self._truth == label)) for label in range(self._classes)]
        self._slices = [np.array_split(rows, schedule.slices) for rows in rows_of]

    def due(self, step: int) -> bool:
        return step % self.schedule.every == 0 or step in self.stream.task_ends

    def answers_now(self, learner: Learner) -> bool:
        """Whether the method can be asked at this step, or only at the end."""
        return learner.method.anytime or learner.step == len(self.stream)

    def scores(self, learner: Learner) -> Scores:
        """What answers for the learner in its present state, on the fast copy of its net."""
        net = self._fast_net(learner.answering_net())
        with torch.no_grad():
            return learner.method.predictor(net, learner.memory)

    def evaluate(self, learner: Learner, scores: Scores | None, seen: int) -> Evaluation:
        """Counts right answers; without `scores` there are none."""
        step = learner.step
        rows = self._asked(learner)
        truth = self._truth[rows]
        answers = np.full(len(rows), -1) if scores is None else self._answers(learner, scores, rows)
        self._latest = step, rows, answers
        return Evaluation(
            step=step,
            seen=seen,
            correct=tuple(np.bincount(truth[answers == truth], minlength=self._classes).tolist()),
            total=tuple(np.bincount(truth, minlength=self._classes).tolist()),
        )

    def answers(self, learner: Learner) -> tuple[Rows, Rows, Rows]:
        """The test samples whose turn it is, their classes, and what the learner answers now."""
        if self._latest is None or self._latest[0] != learner.step:
            rows = self._asked(learner)
            self._latest = learner.step, rows, self._answers(learner, self.scores(learner), rows)
        _, rows, answers = self._latest
        return rows, self._truth[rows], answers

    def samples(self, *, anytime: bool) -> int:
        """How many are looked at along the whole stream, or at its end alone."""
        ends = sorted(self.stream.task_ends)
        steps = [step for step in range(1, len(self.stream) + 1) if self.due(step)] if anytime else ends[-1:]
        met = {step: self.stream.tasks[: bisect_left(ends, step) + 1] for step in steps}
        return sum(len(self._rows(label, step)) for step in steps for task in met[step] for label in task)

    def seconds(self, learner: Learner) -> float:
        """About how long answers along the whole stream would take, from one batch of them."""
        rows = np.arange(min(BATCH, len(self._truth)))
        scores = self._fast_net(learner.net)
        self._answers(learner, scores, rows)
        start = time.perf_counter()
        self._answers(learner, scores, rows)
        return (time.perf_counter() - start) / len(rows) * self.samples(anytime=learner.method.anytime)

    def agreement(self, learner: Learner, samples: int = SAMPLES_COMPARED) -> float:
        """The share of test samples for which the fast net answers as the learner's own does."""
        if not can_be_faster(learner.answering_net(), self._precision):
            return 1.0
        rows = generator(0, "agreement").permutation(len(self._truth))[:samples]
        plain = learner.method.predictor(learner.answering_net(), learner.memory)
        fast, slow = (self._answers(learner, scores, rows) for scores in (self.scores(learner), plain))
        return float((fast == slow).mean())

    @property
    def _truth(self) -> Rows:
        return self.stream.dataset.test_y

    @property
    def _classes(self) -> int:
        return len(self.stream.dataset.classes)

    def _asked(self, learner: Learner) -> Rows:
        met = set(learner.classes)
        classes = [c for task in self.stream.tasks if met & set(task) for c in task]
        return np.concatenate([self._rows(label, learner.step) for label in classes])

    def _rows(self, label: int, step: int) -> Rows:
        """All of a class at the end of a task, otherwise the slice whose turn it is."""
        slices = self._slices[label]
        if step in self.stream.task_ends:
            return np.concatenate(slices)
        return slices[step // self.schedule.every % len(slices)]

    def _fast_net(self, net: Net) -> Net:
        if not can_be_faster(net, self._precision):
            return net
        if self._fast is None or self._fast.live is not net:
            self._fast = FastNet(net, self._precision)
        return self._fast.refresh()

    @torch.inference_mode()
    def _answers(self, learner: Learner, scores: Scores, rows: Rows) -> Rows:
        labels = np.array(learner.classes, np.int64)
        best = [np.empty(0, np.int64)]
        for start in range(0, len(rows), BATCH):
            x = torch.from_numpy(self.stream.dataset.test_x[rows[start : start + BATCH]]).to(learner.device)
            best.append(scores(x).argmax(1).cpu().numpy())
        return labels[np.concatenate(best)]
