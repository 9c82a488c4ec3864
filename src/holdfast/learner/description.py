"""A learner in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast import methods
from holdfast.errors import HoldfastError
from holdfast.nets import recipe

if TYPE_CHECKING:
    from holdfast.learner import Learner

MOST_NAMES = 5  # of classes


def described(learner: Learner) -> str:
    names = [repr(label) for label in learner.classes]
    more = [f"… {len(names) - MOST_NAMES} more"] if len(names) > MOST_NAMES else []
    known = f"{len(names)} classes ({', '.join(names[:MOST_NAMES] + more)})" if names else "no class yet"
    progress = learner.progress
    right = "" if progress is None or progress.recent_accuracy is None else f", {progress.recent_accuracy:.0%} right"
    kind = type(learner).__name__
    return f"<{kind} {_method(learner)} on {_net(learner)}: {learner.step:,} steps, {known}{right}, {learner.memory!r}>"


def _method(learner: Learner) -> str:
    try:
        return methods.as_text(learner.method)
    except HoldfastError:  # a method of one's own that has no such name
        return repr(learner.method)


def _net(learner: Learner) -> str:
    module = learner.frozen_encoder or learner.net.encoder.module
    made = recipe(module)
    return str(made["name"]) if made else type(module).__name__
