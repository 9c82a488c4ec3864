"""A batch that is sent twice under one key is learned once."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast
from holdfast import ERACE, Learner, mlp
from holdfast.errors import BatchError, CheckpointError, InputError, KeyReused
from holdfast.learner import keys
from holdfast.storage import checkpoint

X = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32)
Y = list("abababab")


def parts() -> dict[str, Any]:
    return {"encoder": mlp((3,), width=8), "method": ERACE(), "memory": 20}


def test_it_is_learned_once() -> None:
    twice, once = Learner(**parts()), Learner(**parts())
    for _ in range(2):
        twice.observe(X, Y, key="first")
    once.observe(X, Y, key="first")
    assert twice.step == 1 and twice.state_hash() == once.state_hash() and twice.keys.step("first") == 1
    with pytest.raises(KeyReused, match="the key 'first' was given to another batch"):
        twice.observe(X, Y[::-1], key="first")
    with pytest.raises(KeyReused):
        twice.observe(X[::-1], Y, key="first")
    twice.observe(X, Y, key="second")
    assert twice.step == 2


def test_labels_are_told_once() -> None:
    learner = Learner(**parts())
    ticket = learner.ask(X)
    learner.tell(ticket, Y, key="k")
    learner.tell(ticket.number, Y, key="k")
    assert learner.step == 1
    with pytest.raises(KeyReused):
        learner.tell(ticket, Y[::-1], key="k")


def test_what_was_refused_can_be_sent_again() -> None:
    learner = Learner(**parts())
    with pytest.raises(BatchError):
        learner.observe(X, Y[:3], key="k")
    learner.observe(X, Y, key="k")
    assert learner.step == 1


@pytest.mark.parametrize("checkpoint_every", [1, 100])
def test_it_holds_after_a_kill(tmp_path: Path, checkpoint_every: int) -> None:
    learner = holdfast.open(tmp_path / "w", checkpoint_every=checkpoint_every, **parts())
    for number in range(3):
        learner.observe(X, Y, key=f"k{number}")
    hashed = learner.state_hash()
    learner._folder.abandon()  # type: ignore[union-attr]
    with holdfast.open(tmp_path / "w") as again:
        for number in range(3):
            again.observe(X, Y, key=f"k{number}")
        assert again.step == 3 and again.state_hash() == hashed and again.keys.step("k1") == 2


def test_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "MOST", 2)
    learner = Learner(**parts())
    for key in "abc":
        learner.observe(X, Y, key=key)
    assert [learner.keys.step(key) for key in "abc"] == [None, 2, 3]
    with monkeypatch.context() as patch:
        patch.setattr(learner.memory, "add", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            learner.observe(X, Y, key="d")
    assert [learner.keys.step(key) for key in "bcd"] == [2, 3, None]


def test_keys_that_cannot_be(tmp_path: Path) -> None:
    learner = Learner(**parts())
    for wrong in ("", "k" * 256, "ü", "a\nb", 3):
        with pytest.raises(InputError, match="key must be 1 to 255 printable ASCII characters"):
            learner.observe(X, Y, key=wrong)  # type: ignore[arg-type]
    learner.observe(X, Y, key="k")
    tensors, values = checkpoint.unpack(learner.serialized())
    values["keys"] = [["\n", "", 1]]
    (tmp_path / "forged").write_bytes(checkpoint.pack(tensors, values))
    with pytest.raises(CheckpointError):
        Learner.load(tmp_path / "forged")
