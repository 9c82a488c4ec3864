"""What a learner is given and what it hands out is not what it learns with."""

import copy
import pickle
import threading
from collections.abc import Callable

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


def test_a_copy_is_another_learner() -> None:
    made, x = learner(), np.ones((2, 3), np.float32)
    copied = copy.deepcopy(made)
    assert copied.state_hash() == made.state_hash()
    made.observe(x, ["a", "c"])
    assert copied.state_hash() != made.state_hash()
    copied.observe(x, ["a", "c"])
    assert copied.state_hash() == made.state_hash()


def test_a_copy_beside_a_thread_that_learns_is_of_a_whole_step() -> None:
    made, twin = learner(), learner()
    batches = [(np.full((2, 3), step, np.float32), ["a", "b"]) for step in range(60)]
    copies: list[holdfast.Learner] = []

    def teach() -> None:
        for batch in batches:
            made.observe(*batch)

    teaching = threading.Thread(target=teach, daemon=True)
    teaching.start()
    while teaching.is_alive() or not copies:
        copies.append(copy.deepcopy(made))
    teaching.join()
    hashes = {twin.step: twin.state_hash()}
    for batch in batches:
        twin.observe(*batch)
        hashes[twin.step] = twin.state_hash()
    assert [copied.state_hash() for copied in copies] == [hashes[copied.step] for copied in copies]


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy])
def test_two_learners_cannot_share_their_parts(copied: Callable[[object], object]) -> None:
    with pytest.raises(holdfast.InputError, match=r"learner\.save\(file\)"):
        copied(learner())
