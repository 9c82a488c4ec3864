"""What goes wrong inside and around a step."""

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from holdfast.learner import Learner
from holdfast.learner.labels import Labels
from holdfast.nets import Encoder

STAGES = (
    "labels",
    "growing the head",
    "recall",
    "loss",
    "learn",
    "first forward",
    "second forward",
    "third forward",
    "optimizer",
    "to_store",
    "memory",
    "a memory write",
)


class Injected(Exception):
    pass


@contextmanager
def fault(learner: Learner, stage: str, late: bool) -> Iterator[None]:
    """Inside, that stage of a step raises, once: before it does its work or after."""
    owner, name, turn = {
        "labels": (Labels, "admit", 1),
        "growing the head": (type(learner.net.head), "grow", 1),
        "recall": (type(learner.method), "recall", 1),
        "loss": (type(learner.method), "loss", 1),
        "learn": (type(learner.method), "learn", 1),
        "first forward": (Encoder, "forward", 1),
        "second forward": (Encoder, "forward", 2),
        "third forward": (Encoder, "forward", 3),
        "optimizer": (type(learner.optimizer), "step", 1),
        "to_store": (type(learner.method), "to_store", 1),
        "memory": (type(learner.memory), "add", 1),
        "a memory write": (type(learner.memory), "_write", 1),
    }[stage]
    real = getattr(owner, name)
    calls = 0

    def failing(*args: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == turn and not late:
            raise Injected(stage)
        result = real(*args, **named)
        if calls == turn:
            raise Injected(stage)
        return result

    with patch.object(owner, name, failing):
        yield


@contextmanager
def not_a_number() -> Iterator[None]:
    """Inside, encoders give features that are not numbers."""
    real = Encoder.forward

    def forward(encoder: Encoder, x: Tensor) -> Tensor:
        return real(encoder, x) * float("nan")

    with patch.object(Encoder, "forward", forward):
        yield


def bad_batches(x: NDArray[Any], y: Sequence[Hashable]) -> dict[str, tuple[Any, Any]]:
    """Batches that are wrong, made from one that is right."""
    holed, endless = x.copy(), x.copy()
    holed[0, 0], endless[-1, -1] = np.nan, np.inf
    n = len(y)
    return {
        "NaN in x": (holed, y),
        "infinity in x": (endless, y),
        "x without a batch dimension": (x[0], y[:1]),
        "x with another shape": (x[:, :-1], y),
        "complex numbers as x": (x.astype(np.complex64), y),
        "text as x": (np.full(x.shape, "a"), y),
        "None as x": (None, y),
        "a list of samples of different lengths as x": ([row[: 1 + i % 2] for i, row in enumerate(x.tolist())], y),
        "an empty batch": (x[:0], []),
        "more samples than labels": (x, y[:-1]),
        "more labels than samples": (x[:-1], y),
        "None as y": (x, None),
        "a label None": (x, [None] * n),
        "a label NaN": (x, [float("nan")] * n),
        "a label that is not hashable": (x, [[1]] * n),
        "labels with two dimensions": (x, np.zeros((n, 2))),
        "1 and True": (x, [1, True] * (n // 2)),
        "1 and 1.0": (x, [1, 1.0] * (n // 2)),
    }
