"""Labels that come later."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

import holdfast
from holdfast import ERACE, Learner, mlp
from holdfast.errors import BatchError, InputError, LabelError, TicketError

X = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32)


def learner(**settings: int) -> Learner:
    return Learner(mlp((3,), width=8), ERACE(), memory=20, **settings)  # type: ignore[arg-type]


def test_telling_is_observing_later() -> None:
    late, early = learner(), learner()
    first, second = late.ask(X[:4]), late.ask(X[4:])
    assert first.answers == [None] * 4
    late.tell(second, list("bbaa"))
    late.tell(first.number, list("abab"))
    early.observe(X[4:], list("bbaa"))
    early.observe(X[:4], list("abab"))
    assert np.array_equal(late.predict_proba(X), early.predict_proba(X))
    assert late.ask(X).answers == early.predict(X)


def test_tickets_that_are_not_open() -> None:
    asked = learner(pending=2)
    tickets = [asked.ask(X[i : i + 1]) for i in range(3)]
    with pytest.raises(TicketError, match="ticket 0 has been told or has expired; there is room for 2 open ones"):
        asked.tell(tickets[0], ["a"])
    asked.tell(tickets[1], ["a"])
    with pytest.raises(TicketError, match="ticket 1 has been told"):
        asked.tell(tickets[1], ["a"])
    for unknown in (3, -1, "2", None, 1.5, [2]):
        with pytest.raises(TicketError, match="there is no ticket"):
            asked.tell(unknown, ["a"])  # type: ignore[arg-type]
    assert len(asked.pending) == 1


def test_a_question_stays_open_as_long_as_there_is_room() -> None:
    asked = learner(pending=10)
    for number in range(25):
        asked.ask(X[:1])
        assert len(asked.pending) == min(number + 1, 10)
        assert len(asked.pending[max(0, number - 9)]) == 1


def test_what_is_refused_leaves_the_question_open() -> None:
    asked = learner()
    asked.observe(X, list("abababab"))
    ticket = asked.ask(X[:2])
    before = asked.state_hash()
    with pytest.raises(BatchError, match="2 samples but y has 1"):
        asked.tell(ticket, ["a"])
    with pytest.raises(LabelError):
        asked.tell(ticket, ["a", None])
    with pytest.raises(BatchError):
        asked.ask(X[:0])
    with pytest.raises(BatchError):
        asked.ask(X[:, :2])
    assert asked.state_hash() == before
    asked.tell(ticket, ["a", "b"])


def test_the_caller_may_reuse_the_array() -> None:
    x = X.copy()
    ours, theirs = learner(), learner()
    ticket = ours.ask(x)
    x[:] = 0
    ours.tell(ticket, list("abababab"))
    theirs.observe(X, list("abababab"))
    assert np.array_equal(ours.predict_proba(X), theirs.predict_proba(X))


def test_open_questions_are_saved(tmp_path: Path) -> None:
    asked = learner(pending=3)
    tickets = [asked.ask(X[i : i + 2]) for i in range(5)]
    asked.save(tmp_path / "file")
    loaded = Learner.load(tmp_path / "file")
    assert loaded.state_hash() == asked.state_hash()
    for each in (asked, loaded):
        each.tell(tickets[3], ["a", "b"])
        each.ask(X)
        with pytest.raises(TicketError):
            each.tell(tickets[1], ["a", "b"])
    assert loaded.state_hash() == asked.state_hash()


def test_there_is_room_for_at_least_one() -> None:
    with pytest.raises(InputError, match="pending"):
        learner(pending=0)


BYTES = np.random.default_rng(0).integers(0, 256, (8, 3), np.uint8)


@pytest.mark.parametrize("later", [BYTES, X[:, :2].copy()], ids=["of another type", "of another shape"])
def test_what_was_asked_before_the_first_batch_is_checked_when_it_is_told(later: Any) -> None:
    asked = Learner(nn.Flatten(), ERACE(), memory=20)
    ticket = asked.ask(X)
    asked.observe(later, list("abababab"))
    before = asked.state_hash()
    with pytest.raises(BatchError, match=r"shape \(3,\) and type torch.float32; this learner takes"):
        asked.tell(ticket, list("abababab"))
    assert asked.state_hash() == before and len(asked.pending) == 1
    asked.observe(later, list("abababab"))
    with pytest.raises(BatchError, match="this learner takes"):
        asked.forget_samples(X + 1)
    asked.forget_samples(X[:1])  # what cannot be told can be erased
    assert len(asked.pending) == 0


def test_a_durable_learner_refuses_it_too_and_reopens(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "home", mlp((3,), width=8), ERACE(), memory=20) as asked:
        ticket = asked.ask(X)
        asked.observe(BYTES, list("abababab"))
        with pytest.raises(BatchError):
            asked.tell(ticket, list("abababab"))
        asked.observe(BYTES, list("abababab"))
        there = asked.state_hash()
    with holdfast.open(tmp_path / "home") as asked:
        assert asked.state_hash() == there


def test_a_ticket_may_be_numpys_number(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "home", mlp((3,), width=8), ERACE(), memory=20) as asked:
        asked.ask(X)
        asked.tell(np.int64(0), list("abababab"))  # type: ignore[arg-type]
        with pytest.raises(TicketError, match="there is no ticket True"):
            asked.tell(True, list("abababab"))


def test_asking_does_not_touch_the_questions_that_are_open() -> None:
    """So it costs the same however many there are."""
    asked = learner(pending=3)
    there = asked.pending._open
    for i in range(5):
        asked.ask(X[i : i + 1])
        assert asked.pending._open is there
    assert len(asked.pending) == 3 and asked.pending.asked == 5
