"""What a learner answers, from the version of its last whole step."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.arguments import real
from holdfast.errors import InputError, NothingLearned
from holdfast.learner.labels import FORGOTTEN
from holdfast.learner.versions import MemoryChanges, Version
from holdfast.methods.base import Method, Scores
from holdfast.modes import in_inference, no_autocast
from holdfast.nets import CosineHead
from holdfast.samples import Features, Samples

if TYPE_CHECKING:
    from holdfast.learner import Learner
    from holdfast.learner.calibration import Calibration

CHUNK = 64  # larger batches fall out of the cache, and take a fifth longer
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Answers:
    """Of one whole step: the best labels, the probability of each class, one row per sample, their similarity, and
    whether the best probability is below the threshold of `calibrate`."""

    step: int
    classes: list[Hashable]
    labels: list[Hashable]
    probabilities: NDArray[np.float32]
    similarities: NDArray[np.float32] | None  # only a cosine head tells
    unknown: list[bool] | None  # only after `calibrate`


def answers(learner: Learner, x: Samples) -> Answers:
    """All that can be told of samples at once."""
    found, labels, step = scores_at(learner, x)
    known = [index for index in range(found.shape[1]) if labels[index] is not FORGOTTEN]
    calibration = learner.calibration
    scaling = 1.0 if calibration is None else calibration.temperature
    cosine = cosines(learner, found) if tells_similarity(learner) else None
    return Answers(
        step,
        [labels[index] for index in known],
        [labels[index] for index in found.argmax(1).tolist()],
        shares(found[:, known], scaling).float().numpy(),
        None if cosine is None else cosine.float().numpy(),
        None if calibration is None else is_unknown(found, calibration),
    )


def shares(scores: Tensor, temperature: float) -> Tensor:
    """The probability of each class. Where absurd samples make scores that are no numbers, nothing is known."""
    found = (scores / temperature).softmax(1)
    return torch.where(found.isnan(), 1 / scores.shape[1], found)


def cosines(learner: Learner, scores: Tensor) -> Tensor:
    """How similar each sample is to its best class; not at all, where that is no number."""
    return (scores.amax(1) * temperature(learner)).nan_to_num(-1.0)


def is_unknown(scores: Tensor, calibration: Calibration) -> list[bool]:
    """Whether the best probability of each sample is below the threshold."""
    confidence = shares(scores.double(), calibration.temperature).amax(1)
    return (confidence < calibration.threshold).tolist()


def top(found: Answers, k: int) -> list[list[tuple[Hashable, float]]]:
    """The best labels of each sample with their probabilities."""
    places = np.argsort(-found.probabilities, axis=1, kind="stable")[:, :k]
    rows = zip(places.tolist(), found.probabilities, strict=True)
    return [[(found.classes[place], float(row[place])) for place in best] for best, row in rows]


def scores(learner: Learner, x: Samples) -> tuple[Tensor, Sequence[Hashable]]:
    """Of each class index, -inf for forgotten ones; and the labels behind the indices."""
    return scores_at(learner, x)[:2]


@in_inference(True)
def scores_at(learner: Learner, x: Samples) -> tuple[Tensor, Sequence[Hashable], int]:
    """Also the step that they are of."""
    samples = learner.as_samples(x)

    def answer(version: Version) -> tuple[Tensor, Sequence[Hashable], int]:
        seen = version.net.seen
        if seen == len(version.forgotten):
            raise NothingLearned("the learner knows no class yet; call observe(x, y) first")
        scores_of = version.predictor(partial(_predictor, learner))
        parts = [scores_of(part.to(learner.device)) for part in torch.split(samples, CHUNK)]
        found = torch.cat(parts).cpu() if len(samples) else torch.empty(0, seen)
        found[:, list(version.forgotten)] = -torch.inf
        return found, version.labels, version.step

    with no_autocast(learner.device):
        return _read(learner, answer)


def temperature(learner: Learner) -> float:
    """What turns a score into a cosine similarity."""
    head = learner.net.head
    if not isinstance(head, CosineHead) or not tells_similarity(learner):
        name = type(learner.method).__name__
        raise InputError(f"only answers of a cosine head tell how similar a class is; {name}(head='cosine') has one")
    return head.temperature


def tells_similarity(learner: Learner) -> bool:
    return isinstance(learner.net.head, CosineHead) and not _from_memory(learner.method)


def rejection_threshold(learner: Learner, accept: float) -> float:
    """The similarity that this share of the samples in memory reaches."""
    if not 0 < real("accept", accept) < 1:
        raise InputError(f"accept must be between 0 and 1, not {accept}")

    def similarities() -> list[NDArray[np.float32]]:
        held = len(learner.memory)
        if held == 0:
            raise NothingLearned("the memory is empty: there is nothing to find a threshold from")
        parts = np.array_split(np.arange(held), math.ceil(held / CHUNK))
        held_as = (lambda x: x) if learner.frozen_encoder is None else Features
        return [learner.similarity(held_as(learner.memory.at(part).x)) for part in parts]

    return float(np.quantile(np.concatenate(learner.at_rest(similarities)), 1 - accept))


def _read(learner: Learner, work: Callable[[Version], Result]) -> Result:
    """Training a net to answer takes turns with learning, because both draw from torch's generator."""
    if learner.method.trains_to_answer:
        return learner.at_rest(lambda: learner.versions.read(work))
    memory = _from_memory(learner.method)
    try:
        return learner.versions.read(work, memory=memory)
    except MemoryChanges:
        return learner.at_rest(lambda: learner.versions.read(work, memory=memory))


def _predictor(learner: Learner, version: Version) -> Scores:
    net = learner.answering_net() if learner.method.trains_to_answer else version.net
    return learner.method.predictor(net, version.memory)


def _from_memory(method: Method) -> bool:
    return method.answers_from_memory or method.trains_to_answer
