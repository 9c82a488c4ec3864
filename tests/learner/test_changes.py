"""A learner that lives can be changed: completely or not at all, and a durable one knows it after a restart."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast
from holdfast import ER, ERACE, Learner
from holdfast.errors import CheckpointError, InputError

RNG = np.random.default_rng(0)


def batch(samples: int = 10) -> tuple[np.ndarray, list[int]]:
    y = RNG.integers(0, 3, samples)
    return (2 * np.eye(3, 4)[y] + RNG.normal(size=(samples, 4))).astype(np.float32), y.tolist()


def learned(**how: Any) -> Learner:
    learner = Learner(holdfast.mlp((4,)), ERACE(), memory=20, **how)
    for _ in range(5):
        learner.observe(*batch())
    return learner


def test_what_is_changed_holds_from_now_on(tmp_path: Path) -> None:
    learner = learned()
    learner.change(lr=0.01, updates=3, memory=50, method="er-ace:replay=20")
    assert learner.settings["lr"] == 0.01 and learner.settings["updates"] == 3
    assert learner.method == ERACE(replay=20) and learner.memory.capacity == 50 and len(learner.memory) == 20
    for _ in range(10):
        learner.observe(*batch())
    assert len(learner.memory) == 50
    learner.save(tmp_path / "saved")
    again = Learner.load(tmp_path / "saved")
    assert again.state_hash() == learner.state_hash() and again.settings == learner.settings
    x, y = batch()
    again.observe(x, y)
    learner.observe(x, y)
    assert again.state_hash() == learner.state_hash()


@pytest.mark.parametrize("memory", [7, "600B", 0])
def test_a_smaller_memory_keeps_some_of_what_it_held(memory: int | str) -> None:
    learner = learned()
    held = {sample.tobytes() for sample in np.asarray(learner.memory.at(np.arange(20)).x)}
    learner.change(memory=memory)
    left = [np.asarray(learner.memory.at(np.array([slot])).x[0]) for slot in range(len(learner.memory))]
    assert len(left) == learner.memory.capacity <= 12
    assert {sample.tobytes() for sample in left} <= held
    learner.observe(*batch())
    learner.predict(batch()[0])


def test_a_durable_learner_repeats_it(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "mine", holdfast.mlp((4,)), ERACE(), memory=20) as first:
        first.observe(*batch(30))
        first.change(lr=0.02, memory=5, method=ERACE(replay=3))
        first.observe(*batch())
        there = first.state_hash()
        assert first._folder is not None
        first._folder.abandon()  # as a kill would: the log is repeated
        first._folder = None
    assert holdfast.verify(tmp_path / "mine", deep=True).ok
    with holdfast.open(tmp_path / "mine", memory=5, lr=0.02) as again:
        assert again.state_hash() == there and again.method == ERACE(replay=3)


def test_who_comes_back_with_what_was_before_is_told(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "mine", holdfast.mlp((4,)), ERACE(), memory=20) as learner:
        learner.change(lr=0.02, memory=5, method=ERACE(replay=3))
    before: dict[str, Any] = {"lr": 0.1, "memory": 20, "method": ERACE()}
    for name, value in before.items():
        with pytest.raises(CheckpointError, match=rf"there, which holds until learner\.change\({name}=\.\.\.\)"):
            holdfast.open(tmp_path / "mine", **{name: value})
    with pytest.raises(CheckpointError, match=r"seed does not fit the learner in the folder: 1 here and 0 there$"):
        holdfast.open(tmp_path / "mine", seed=1)
    for _ in range(2):  # with the change in the log, and with a checkpoint after it
        with holdfast.open(tmp_path / "mine", memory=5, lr=0.02, method="er-ace:replay=3") as again:
            assert again.method == ERACE(replay=3)
            again.checkpoint()
    assert holdfast.verify(tmp_path / "mine", method=ERACE(replay=3), deep=True).ok


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "say what to change"),
        ({"lr": -1}, "lr must be"),
        ({"lr": 0.01, "updates": 0}, "updates must be"),
        ({"lr": 0.01, "updates": 1001}, "updates must be .* at most 1000"),
        ({"lr": 0.01, "memory": 10**12}, "such samples need .* GiB"),
        ({"lr": 0.01, "memory": 10**18}, "such samples need .* GiB"),
        ({"lr": 0.01, "memory": "lots"}, "50MB"),
        ({"lr": 0.01, "memory": "3B"}, "too few"),
        ({"memory": 5, "method": ER()}, r"method=ERACE"),
        ({"memory": 5, "method": ERACE(head="linear")}, "another net"),
        ({"method": ERACE}, "ERACE"),
        ({"updates": 2, "method": "er-ace:replay=-1"}, "0 or more"),
    ],
)
def test_all_or_nothing(wrong: dict[str, Any], message: str) -> None:
    learner = learned()
    before, settings = learner.state_hash(), learner.settings
    with pytest.raises(InputError, match=message):
        learner.change(**wrong)
    assert learner.state_hash() == before and learner.settings == settings
    learner.observe(*batch())


def test_before_the_first_batch_and_with_encoded_samples() -> None:
    learner = Learner(holdfast.mlp((4,)), ER(), memory=20)
    learner.change(memory="1kB")
    learner.observe(*batch())
    assert learner.memory.nbytes <= 1000
    encoded = Learner(holdfast.small_cnn((3, 8, 8)), ER(), memory=holdfast.Reservoir(nbytes=10_000, codec="png"))
    with pytest.raises(InputError, match="png"):
        encoded.change(memory=5)
