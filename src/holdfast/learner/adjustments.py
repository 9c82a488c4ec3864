"""Settings of a learner that lives: what may be changed, and how it is taken back."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.arguments import LEARNING_RATES, UPDATES, real, whole
from holdfast.errors import InputError, UnknownName
from holdfast.learner.calibration import unpack
from holdfast.learner.parts import as_method, check_average, check_learns
from holdfast.memory.class_index import Journal
from holdfast.methods.base import Method
from holdfast.methods.options import read, written
from holdfast.seeds import generator

if TYPE_CHECKING:
    from holdfast.learner.base import BaseLearner


def settings_of(
    lr: float | None, updates: int | None, memory: int | str | None, method: Method | str | None
) -> dict[str, Any]:
    """Those that are given, as plain values."""
    if method is not None:
        method = as_method(method)
        if not isinstance(method, Method):
            raise InputError("method must be a Method such as ERACE(replay=20), or its name")
    options = None if method is None else {"name": type(method).__name__, "options": written(method)}
    given = {"lr": lr, "updates": updates, "memory": memory, "method": options}
    found = {name: value for name, value in given.items() if value is not None}
    if not found:
        raise InputError("say what to change: lr, updates, memory or method")
    return found


def adjust(learner: BaseLearner, settings: Mapping[str, Any], journal: Journal) -> None:
    """Also from a log, which anybody may have written."""
    for name, value in settings.items():
        if name not in ADJUSTABLE:
            raise UnknownName("setting", name, ADJUSTABLE)
        ADJUSTABLE[name](learner, value, journal)


def _calibration(learner: BaseLearner, value: Any, journal: Journal) -> None:
    journal.on_undo(partial(setattr, learner, "calibration", learner.calibration))
    learner.calibration = unpack(value)


def _lr(learner: BaseLearner, value: Any, journal: Journal) -> None:
    lr = real("lr", value, LEARNING_RATES)
    for group in learner.optimizer.param_groups:
        journal.on_undo(partial(group.__setitem__, "lr", group["lr"]))
        group["lr"] = lr


def _updates(learner: BaseLearner, value: Any, journal: Journal) -> None:
    updates = whole("updates", value, UPDATES)
    check_learns(learner.method, updates, False)
    journal.on_undo(partial(setattr, learner.training, "updates", learner.training.updates))
    learner.training.updates = updates


def _memory(learner: BaseLearner, value: Any, journal: Journal) -> None:
    learner.versions.storing()
    learner.memory.resize(value, generator(learner.seed, "memory/resize", learner.step), journal)


def _method(learner: BaseLearner, value: Any, journal: Journal) -> None:
    present = learner.method
    kind = type(present)
    if value["name"] != kind.__name__:
        why = f"this learner learns by {kind.__name__}, and {value['name']} keeps other things"
        raise InputError(f"{why}: change its options, method={kind.__name__}(...)")
    method = kind(**read(kind, value["options"]))
    fixed = ("head", "spare_rows", "needs_unseen_classes", "answers_from_memory", "needs_teacher")
    for name in fixed:
        if getattr(method, name) != getattr(present, name):
            raise InputError(f"{method} would need another net or memory ({name}): make a new learner")
    check_average(0.0 if learner.average is None else learner.average.decay, method)
    journal.on_undo(partial(setattr, learner, "method", present))
    learner.method = method


ADJUSTABLE = {"calibration": _calibration, "lr": _lr, "updates": _updates, "memory": _memory, "method": _method}
