"""What a learner is given and what it hands out is not what it learns with."""

import numpy as np
import pytest

import holdfast


def learner() -> holdfast.Learner:
    made = holdfast.Learner(holdfast.mlp((3,)), holdfast.DER(), memory=8, progress=10)
    made.observe(np.arange(12, dtype=np.float32).reshape(4, 3), ["a", "b", "a", "b"])
    return made


def test_what_it_hands_out_can_be_changed_without_changing_it() -> None:
    made, x = learner(), np.ones((2, 3), np.float32)
    before = made.state_hash()
    held = made.memory.at(np.arange(len(made.memory)))
    drawn = made.memory.sample(2, np.random.default_rng(0))
    assert drawn is not None
    for tensor in (held.x, held.y, *held.extra.values(), drawn.x, drawn.y, *drawn.extra.values()):
        tensor.zero_()
    made.memory.class_counts[:] = 0
    made.memory.members(0)[:] = 0
    made.predict_proba(x)[:] = 0
    made.classes.clear()
    made.settings.clear()
    assert made.state_hash() == before


def test_views_are_frozen() -> None:
    made = learner()
    progress = made.progress
    assert progress is not None
    assert type(progress.labels) is tuple
    counted = (progress.tally.by_class, progress.tally.last, progress.tally.curve)
    for view in (made.memory.arrivals, *made.memory.extras.values(), *counted):
        with pytest.raises(ValueError, match="read-only"):
            view[:] = 0


def test_what_it_was_given_is_the_callers_again() -> None:
    one, other = learner(), learner()
    x = np.ones((2, 3), np.float32)
    one.observe(x, ["a", "b"])
    ticket = one.ask(x)
    y = x.copy()
    other.observe(y, ["a", "b"])
    y[:] = 5
    asked = x.copy()
    also = other.ask(asked)
    asked[:] = 5
    one.tell(ticket, ["a", "b"])
    other.tell(also, ["a", "b"])
    assert one.state_hash() == other.state_hash()
