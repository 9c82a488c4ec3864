"""Probabilities that mean something, and when to answer that a sample is of no known class."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from holdfast.arguments import COUNTED, Range, real, whole
from holdfast.errors import BatchError, InputError
from holdfast.learner import answers
from holdfast.learner.labels import FORGOTTEN
from holdfast.samples import Samples

if TYPE_CHECKING:
    from holdfast.learner import Learner

TEMPERATURES = Range(least=1e-6, most=1e6)
SHARES = Range(least=0, most=1)
SHOWN = (1.0, 0.99, 0.95, 0.9, 0.8, 0.7, 0.5)  # shares of known samples, of the trade-off
FEWEST = 2  # samples of known classes
ITERATIONS = 100


class TradeOff(NamedTuple):
    """What a threshold does with the samples that were calibrated on.

    Args:
        threshold: answers of a lower probability become None.
        answered: the share of samples of known classes that are still answered.
        accuracy: the share of right answers among these.
        rejected: the share of samples of unknown classes that get None; None if there were none.
    """

    threshold: float
    answered: float
    accuracy: float
    rejected: float | None


@dataclass(frozen=True, slots=True)
class Calibration:
    """What `learner.calibrate` has found.

    Args:
        temperature: what scores are divided by before they become probabilities.
        threshold: the probability below which `predict(x, unknown=True)` answers None.
        samples: how many samples of known classes it is from.
        step: the learner's step then. The more it has learned since, the less the figures hold.
        error_before: the mean difference of confidence and accuracy, in ten bins, as it was.
        error: the same with the temperature, on the same samples.
        trade_off: what other thresholds would do.
    """

    temperature: float
    threshold: float
    samples: int
    step: int
    error_before: float
    error: float
    trade_off: tuple[TradeOff, ...]

    def pack(self) -> dict[str, Any]:
        return {**asdict(self), "trade_off": [list(each) for each in self.trade_off]}


def unpack(values: Mapping[str, Any]) -> Calibration:
    """From a file, which anybody may have written."""
    share = partial(real, allowed=SHARES)
    rows = [(*(share("trade_off", each) for each in row[:3]), row[3]) for row in values["trade_off"]]
    return Calibration(
        temperature=real("temperature", values["temperature"], TEMPERATURES),
        threshold=share("threshold", values["threshold"]),
        samples=whole("samples", values["samples"], COUNTED),
        step=whole("step", values["step"], COUNTED),
        error_before=share("error_before", values["error_before"]),
        error=share("error", values["error"]),
        trade_off=tuple(TradeOff(a, b, c, None if d is None else share("trade_off", d)) for a, b, c, d in rows),
    )


def calibrated(learner: Learner, x: Samples, y: object, accept: float) -> Calibration:
    """Finds it; changes nothing."""
    accept = real("accept", accept, Range(above=0, most=1))
    scores, labels, step = answers.scores_at(learner, x)
    truth = learner.labels.check(y)
    if len(truth) != len(scores):
        raise BatchError(f"x has {len(scores)} samples but y has {len(truth)} labels")
    known = [index for index in range(scores.shape[1]) if labels[index] is not FORGOTTEN]
    place: dict[Hashable, int] = {labels[index]: column for column, index in enumerate(known)}
    columns = np.array([place.get(label, -1) for label in truth])
    if (fresh := int((columns >= 0).sum())) < FEWEST:
        raise InputError(
            f"calibrate needs labelled samples of classes that were learned, {FEWEST} or more, not {fresh}"
        )
    scores = scores[:, known].double()
    met, right = columns >= 0, torch.from_numpy(columns[columns >= 0])
    temperature = _temperature(scores[torch.from_numpy(met)], right)
    best = scores.argmax(1).numpy()
    hit = (best == columns)[met]
    confidence = answers.shares(scores, temperature).amax(1).numpy()
    before = answers.shares(scores, 1.0).amax(1).numpy()
    others = confidence[~met]
    rows = []
    for share in SHOWN:
        threshold = _reached_by(confidence[met], share)
        answered = confidence[met] >= threshold
        rejected = float((others < threshold).mean()) if len(others) else None
        rows.append(TradeOff(threshold, float(answered.mean()), float(hit[answered].mean()), rejected))
    return Calibration(
        temperature=temperature,
        threshold=_reached_by(confidence[met], accept),
        samples=fresh,
        step=step,
        error_before=_error(before[met], hit),
        error=_error(confidence[met], hit),
        trade_off=tuple(rows),
    )


def temperature_of(learner: Learner) -> float:
    """What scores are divided by: 1 before anything was calibrated."""
    return 1.0 if learner.calibration is None else learner.calibration.temperature


def is_unknown(learner: Learner, scores: Tensor) -> list[bool]:
    """Whether the best probability of each sample is below the threshold."""
    if learner.calibration is None:
        raise InputError("unknown=True needs a threshold: learner.calibrate(x, y) finds one on labelled fresh samples")
    return answers.is_unknown(scores, learner.calibration)


def _temperature(scores: Tensor, right: Tensor) -> float:
    """The one under which the labels are most likely, and one more label that may be any: few right answers are no
    proof that all will be. There is one minimum over the logarithm."""

    def loss(power: float) -> float:
        return float(cross_entropy(scores / np.exp(power), right, label_smoothing=1 / (len(right) + 1)))

    low, high = np.log(TEMPERATURES.least), np.log(TEMPERATURES.most)
    for _ in range(ITERATIONS):
        third = (high - low) / 3
        if loss(low + third) <= loss(high - third):
            high -= third
        else:
            low += third
    return float(np.exp((low + high) / 2).clip(TEMPERATURES.least, TEMPERATURES.most))


def _reached_by(confidence: NDArray[np.float64], share: float) -> float:
    """The largest threshold that at least this share of samples reaches."""
    return float(np.quantile(confidence, 1 - share, method="lower"))


def _error(confidence: NDArray[np.float64], hit: NDArray[np.bool_]) -> float:
    bins = np.minimum((confidence * 10).astype(int), 9)
    gaps = [
        abs(float(hit[bins == each].mean() - confidence[bins == each].mean())) * np.mean(bins == each)
        for each in set(bins.tolist())
    ]
    return float(min(1.0, sum(gaps)))
