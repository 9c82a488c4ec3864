"""Settings of a learner that lives: what may be changed, and how it is taken back."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.errors import UnknownName
from holdfast.learner.calibration import unpack
from holdfast.memory.class_index import Journal

if TYPE_CHECKING:
    from holdfast.learner import Learner


def adjust(learner: Learner, settings: Mapping[str, Any], journal: Journal) -> None:
    """Also from a log, which anybody may have written."""
    for name, value in settings.items():
        if name not in ADJUSTABLE:
            raise UnknownName("setting", name, ADJUSTABLE)
        ADJUSTABLE[name](learner, value, journal)


def _calibration(learner: Learner, value: Any, journal: Journal) -> None:
    journal.on_undo(partial(setattr, learner, "calibration", learner.calibration))
    learner.calibration = unpack(value)


ADJUSTABLE = {"calibration": _calibration}
