"""The small streams and learners that checks play with."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from holdfast.learner import Learner
from holdfast.learner.state import pack, part
from holdfast.memory import Memory
from holdfast.methods.base import Method
from holdfast.nets import mlp, small_cnn

Samples = NDArray[Any]

FEATURES = 6
IMAGE = (1, 16, 16)
CAPACITY = 24
TASKS, CLASSES_A_TASK, BATCHES_A_TASK = 3, 2, 4
LENGTH = TASKS * BATCHES_A_TASK


@dataclass(frozen=True, slots=True)
class Step:
    x: Samples
    y: Sequence[Hashable] | NDArray[Any]
    task: int


def stream(batch: int = 6, images: bool = False) -> list[Step]:
    """Three tasks of two classes, four batches each."""
    rng = np.random.default_rng(0)
    shape = IMAGE if images else (FEATURES,)
    centres = 2 * rng.standard_normal((TASKS * CLASSES_A_TASK, *shape))
    steps = []
    for task in np.repeat(np.arange(TASKS), BATCHES_A_TASK).tolist():
        y = task * CLASSES_A_TASK + np.arange(batch) % CLASSES_A_TASK
        x = (centres[y] + rng.standard_normal((batch, *shape))).astype(np.float32)
        steps.append(Step(np.clip(32 * x + 128, 0, 255).astype(np.uint8) if images else x, y.tolist(), task))
    return steps


def learner_for(method: Method, *, images: bool = False, memory: int | Memory = CAPACITY) -> Learner:
    encoder = small_cnn(IMAGE, width=4) if images else mlp((FEATURES,), width=16)
    classes = TASKS * CLASSES_A_TASK if method.needs_unseen_classes else 0
    return Learner(encoder, method, memory=memory, lr=0.01, classes=classes)


def feed(learner: Learner, steps: Sequence[Step]) -> Learner:
    for step in steps:
        learner.observe(step.x, step.y, task=step.task)
    return learner


def same_tensors(one: Learner, other: Learner) -> bool:
    ours, theirs = pack(one)[0], pack(other)[0]
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def assert_sound(learner: Learner) -> None:
    """Weights are finite, and answers are probabilities of known classes."""
    weights = part("net", pack(learner)[0]).values()
    assert all(tensor.isfinite().all() for tensor in weights), "a weight is not finite"
    shape = IMAGE if learner.sample_template is not None and learner.sample_template.ndim == 4 else (FEATURES,)
    x = stream(images=shape == IMAGE)[0].x
    chances = learner.predict_proba(x)
    assert chances.shape == (len(x), len(learner.classes)), f"predict_proba has shape {chances.shape}"
    assert np.allclose(chances.sum(1), 1, atol=1e-4), "predict_proba does not add up to 1"
    assert set(learner.predict(x)) <= set(learner.classes), "an answer is not one of the classes"
