"""Anytime evaluation. It records counts per class, never ratios, and cannot touch training."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from holdfast.errors import InputError
from holdfast.learner import Learner
from holdfast.measure.inference import BATCH, FastNet, agreement
from holdfast.nets import Net
from holdfast.seeds import generator
from holdfast.streams import Stream


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How many test samples of each class were tried, and how many answered rightly, after `step` updates."""

    step: int
    seen: int
    correct: tuple[int, ...]
    total: tuple[int, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


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

    def __init__(self, stream: Stream, schedule: Schedule, seed: int) -> None:
        data = stream.dataset
        self.stream = stream
        self.schedule = schedule
        self.images = 0  # how many test samples were forwarded so far
        rng = generator(seed, "evaluation")
        self._slices: list[list[NDArray[np.int64]]] = []
        for label in range(len(data.classes)):
            rows = rng.permutation(np.flatnonzero(data.test_y == label))
            self._slices.append(np.array_split(rows, schedule.slices))
        self._fast: FastNet | None = None

    def due(self, step: int) -> bool:
        return step % self.schedule.every == 0 or step in self.stream.task_ends

    def net_for(self, learner: Learner) -> Net:
        """The fast copy that answers for the learner's net."""
        return self._fast_net(learner).net

    def evaluate(self, learner: Learner, seen: int) -> Evaluation:
        step = learner.step
        met = set(learner.classes)
        classes = [c for task in self.stream.tasks if met & set(task) for c in task]
        exact = self.schedule.slices == 1 or step in self.stream.task_ends
        turn = step // self.schedule.every
        rows = np.concatenate([self._rows(label, None if exact else turn) for label in classes])
        answers = self._answers(learner, rows)
        truth = self.stream.dataset.test_y[rows]
        count = len(self.stream.dataset.classes)
        return Evaluation(
            step=step,
            seen=seen,
            correct=tuple(np.bincount(truth[answers == truth], minlength=count).tolist()),
            total=tuple(np.bincount(truth, minlength=count).tolist()),
        )

    def agreement(self, learner: Learner, samples: int = 500) -> float:
        """The share of test samples for which the fast path answers as the plain one does."""
        rows = generator(0, "agreement").permutation(len(self.stream.dataset.test_y))[:samples]
        x = torch.from_numpy(self.stream.dataset.test_x[rows])
        net = self._fast_net(learner).refresh()
        with torch.inference_mode():
            fast, plain = (
                torch.cat([learner.method.predict(n, learner.memory, part) for part in x.split(BATCH)])
                for n in (net, learner.net)
            )
        return agreement(fast, plain)

    def _rows(self, label: int, turn: int | None) -> NDArray[np.int64]:
        slices = self._slices[label]
        return np.concatenate(slices) if turn is None else slices[turn % len(slices)]

    def _fast_net(self, learner: Learner) -> FastNet:
        if self._fast is None:
            self._fast = FastNet(learner.net)
        return self._fast

    @torch.inference_mode()
    def _answers(self, learner: Learner, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        net = self._fast_net(learner).refresh()
        names = np.array(learner.classes, np.int64)
        self.images += len(rows)
        device = net.head.weight.device
        indices = []
        for part in np.array_split(rows, max(1, -(-len(rows) // BATCH))):
            x = torch.from_numpy(self.stream.dataset.test_x[part]).to(device)
            indices.append(learner.method.predict(net, learner.memory, x).argmax(1).cpu().numpy())
        return names[np.concatenate(indices)]
