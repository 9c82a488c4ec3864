"""How well a learner does, without a test set: every labelled sample is answered before it is learned."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.arguments import COUNTED, Range, whole
from holdfast.errors import InputError
from holdfast.learner.answers import CHUNK
from holdfast.learner.labels import FORGOTTEN, Labels
from holdfast.modes import in_inference

if TYPE_CHECKING:
    from holdfast.learner.base import BaseLearner

NONE = -1  # the answer while no class is known
POINTS = 256  # of the curve: when there are as many, each two become one
TIMES = 64  # of the last steps
LONGEST = 10**6  # window

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ClassProgress:
    """`first` is the number of samples that had been counted when the class appeared."""

    label: Hashable
    samples: int
    right: int
    first: int

    @property
    def accuracy(self) -> float:
        return self.right / self.samples


@dataclass(frozen=True, slots=True)
class Confusion:
    """So many of the last samples have this label and got that answer."""

    label: Hashable
    answer: Hashable
    count: int


@dataclass(frozen=True, slots=True)
class Point:
    """Of the curve: this share of `samples` samples, up to the one with this number, got the right answer."""

    end: int
    samples: int
    accuracy: float


@dataclass(frozen=True, slots=True)
class Tally:
    """What has been counted, by class index. It is never changed but replaced, so whoever has one may read it."""

    window: int
    samples: int
    right: int
    unknown: int  # samples of classes that the learner had not met
    by_class: Numbers  # samples, right answers, number of the first sample
    last: Numbers  # class and answer of the last samples
    curve: Numbers  # samples and right answers of each point
    width: int  # samples that a point of the curve has when it is full
    times: tuple[tuple[float, int], ...] = ()  # when so many samples had been counted; not saved

    def __post_init__(self) -> None:
        for counts in (self.by_class, self.last, self.curve):
            counts.flags.writeable = False

    @classmethod
    def empty(cls, window: int) -> Tally:
        none = np.zeros((0, 3), np.int64)
        return cls(window, 0, 0, 0, none, none[:, :2], none[:, :2], width=10)

    def add(self, classes: Sequence[int], answers: Sequence[int], known: int) -> Tally:
        """`known`: how many classes the learner had met before these samples."""
        pairs = np.array([classes, answers], np.int64).T
        right = pairs[:, 0] == pairs[:, 1]
        by_class = np.zeros((max(len(self.by_class), max(classes) + 1), 3), np.int64)
        by_class[: len(self.by_class)] = self.by_class
        for place, index in enumerate(classes):
            if not by_class[index, 0]:
                by_class[index, 2] = self.samples + place
            by_class[index, :2] += 1, right[place]
        samples, hits = self.samples + len(pairs), self.right + int(right.sum())
        curve, width = _longer(self.curve, self.width, right)
        return replace(
            self,
            samples=samples,
            right=hits,
            unknown=self.unknown + int((pairs[:, 0] >= known).sum()),
            by_class=by_class,
            last=np.concatenate([self.last, pairs])[-self.window :],
            curve=curve,
            width=width,
            times=(*self.times, (time.monotonic(), samples))[-TIMES:],
        )

    def pack(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        tensors = {"by_class": self.by_class, "last": self.last, "curve": self.curve}
        values = {name: getattr(self, name) for name in ("window", "samples", "right", "unknown", "width")}
        return {f"progress/{name}": torch.from_numpy(array.copy()) for name, array in tensors.items()}, values

    @classmethod
    def unpack(cls, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> Tally:
        counts: dict[str, Any] = {name: whole(name, values[name], COUNTED) for name in ("samples", "right", "unknown")}
        arrays: dict[str, Any] = {name: _counts(tensors[name]) for name in _COLUMNS}
        width = whole("width", values["width"], Range(least=1, most=2**53))
        return cls(check_window(values["window"]), width=width, **counts, **arrays)

    def flaw(self, classes: int) -> str | None:
        """What is wrong with it, as it was unpacked."""
        arrays = {name: getattr(self, name) for name in _COLUMNS}
        if any(array.ndim != 2 or array.shape[1] != _COLUMNS[name] for name, array in arrays.items()):
            return "their shapes"
        if len(self.by_class) > classes or len(self.last) > self.window or len(self.curve) > POINTS:
            return "their lengths"
        rows = np.concatenate([self.by_class[:, :2], self.curve])
        fits = max(self.right, self.unknown) <= self.samples and (rows[:, 1] <= rows[:, 0]).all()
        counts = (self.by_class >= 0).all() and (self.curve >= 0).all() and (self.curve[:, 0] > 0).all()
        truth, answers = self.last.T
        named = ((truth >= 0) & (answers >= NONE) & (self.last < classes).all(1)).all()
        return None if fits and counts and named else "their values"


_COLUMNS = {"by_class": 3, "last": 2, "curve": 2}


@dataclass(frozen=True, slots=True)
class Progress:
    """How well the learner has answered the labelled samples before it learned from them.

    Counted are samples that were observed or told. An answer counts as wrong, too, while nothing is known of the
    class. `recent` figures are those of the last samples, as many as `Learner(progress=...)` says.
    """

    tally: Tally
    labels: Sequence[Hashable]

    def __repr__(self) -> str:
        if not self.samples:
            return "<Progress: no labelled samples yet>"
        last = f"of the last {len(self.tally.last):,} {self.recent_accuracy:.1%}"
        return f"<Progress: of {self.samples:,} samples {self.accuracy:.1%} answered right, {last}>"

    @property
    def samples(self) -> int:
        return self.tally.samples

    @property
    def right(self) -> int:
        return self.tally.right

    @property
    def accuracy(self) -> float | None:
        """The share of right answers over all samples; None if there are none."""
        return self.right / self.samples if self.samples else None

    @property
    def recent_accuracy(self) -> float | None:
        last = self.tally.last
        return float((last[:, 0] == last[:, 1]).mean()) if len(last) else None

    @property
    def unknown(self) -> float | None:
        """The share of samples whose class the learner had not met when they came: no answer could be right."""
        return self.tally.unknown / self.samples if self.samples else None

    @property
    def classes(self) -> list[ClassProgress]:
        """In the order of their first appearance."""
        rows = zip(self.labels, self.tally.by_class.tolist(), strict=False)
        return [ClassProgress(label, *row) for label, row in rows if row[0] and label is not FORGOTTEN]

    @property
    def confused(self) -> list[Confusion]:
        """Labels that got another answer, of the last samples, the most frequent first."""
        pairs = Counter((true, answer) for true, answer in self.tally.last.tolist() if true != answer != NONE)
        named = (Confusion(self.labels[true], self.labels[answer], count) for (true, answer), count in pairs.items())
        found = [each for each in named if FORGOTTEN not in (each.label, each.answer)]
        return sorted(found, key=lambda each: -each.count)

    @property
    def curve(self) -> list[Point]:
        """Accuracy along the stream, in at most 256 points."""
        rows = self.tally.curve.tolist()
        ends = np.cumsum(self.tally.curve[:, 0]).tolist()
        return [Point(end, samples, right / samples) for end, (samples, right) in zip(ends, rows, strict=True)]

    @property
    def rate(self) -> float:
        """Samples a second, of the last steps that this process has made, until now."""
        times = self.tally.times
        if len(times) < 2:
            return 0.0
        return (times[-1][1] - times[0][1]) / max(time.monotonic() - times[0][0], 1e-9)


def check_window(window: object) -> int:
    return whole("progress", window, Range(least=0, most=LONGEST))


def new_tally(window: object, learner: BaseLearner, so_far: Tally | None = None) -> Tally | None:
    """None if nothing is to be counted."""
    window = check_window(window)
    if window and learner.method.trains_to_answer:
        name = type(learner.method).__name__
        raise InputError(f"{name} trains a net for its answers: answering every sample would take too long, progress=0")
    if not window or so_far is None:
        return Tally.empty(window) if window else None
    return replace(so_far, window=window, last=so_far.last[-window:])


def seen_of(tally: Tally | None, labels: Labels) -> Progress | None:
    return None if tally is None else Progress(tally, tuple(labels.known))


@in_inference(True)
def answered(learner: BaseLearner, samples: Tensor) -> list[int]:
    """The class index that is answered for each sample now, in the middle of a change."""
    labels = learner.labels
    if len(labels) == len(labels.forgotten):
        return [NONE] * len(samples)
    scores_of = learner.method.predictor(learner.nets[-1], learner.memory)
    scores = torch.cat([scores_of(part.to(learner.device)) for part in torch.split(samples, CHUNK)])
    scores[:, list(labels.forgotten)] = -torch.inf
    found: list[int] = scores.argmax(1).tolist()
    return found


def _longer(curve: Numbers, width: int, right: NDArray[np.bool_]) -> tuple[Numbers, int]:
    """Fills the last point, then begins others."""
    rows = curve.tolist()
    while len(right):
        if not rows or rows[-1][0] >= width:
            if len(rows) == POINTS:
                rows = [[a + c, b + d] for (a, b), (c, d) in zip(rows[::2], rows[1::2], strict=True)]
                width *= 2
                continue
            rows.append([0, 0])
        room = width - rows[-1][0]
        rows[-1][0] += len(right[:room])
        rows[-1][1] += int(right[:room].sum())
        right = right[room:]
    return np.array(rows, np.int64).reshape(-1, 2), width


def _counts(tensor: Tensor) -> Numbers:
    if tensor.dtype != torch.int64:
        raise InputError(f"counts have the type {tensor.dtype}")
    return tensor.numpy()
