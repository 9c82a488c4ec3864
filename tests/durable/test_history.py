"""Going back to a checkpoint that was kept."""

from pathlib import Path

import numpy as np
import pytest

import holdfast
from holdfast import ERACE, mlp
from holdfast.errors import CheckpointError, InputError, InUse

X = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32)


def test_a_learner_becomes_what_it_was(tmp_path: Path) -> None:
    folder, hashes = tmp_path / "w", {}
    with holdfast.open(folder, mlp((3,), width=8), ERACE(), memory=20, keep=3) as learner:
        for _ in range(5):
            learner.observe(X, list("abababab"))
            learner.checkpoint()
            hashes[learner.step] = learner.state_hash()
        learner.observe(X, list("aaaabbbb"))
        with pytest.raises(InUse):
            holdfast.roll_back(folder, 4)
    assert [each.step for each in holdfast.kept(folder)] == [5, 4, 3]
    assert holdfast.verify(folder).notes == ()
    with pytest.raises(InputError, match="step 2 is not kept; kept are: 5, 4, 3"):
        holdfast.roll_back(folder, 2)
    holdfast.roll_back(folder, 3)
    assert holdfast.verify(folder, deep=True).ok
    with holdfast.open(folder) as learner:
        assert learner.step == 3 and learner.state_hash() == hashes[3]
    holdfast.roll_back(folder, 5)  # what was undone can be had again
    with holdfast.open(folder) as learner:
        assert learner.state_hash() == hashes[5]


def test_what_is_forgotten_is_in_no_kept_checkpoint(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "w", mlp((3,), width=8), ERACE(), memory=20, keep=3) as learner:
        learner.observe(X, ["secret"] * 4 + ["b"] * 4)
        learner.checkpoint()
        learner.forget("secret")
        assert [each.step for each in holdfast.kept(tmp_path / "w")] == [1]  # as it is since
        learner.forget_samples(X[4:5])
    for file in (tmp_path / "w").rglob("*"):
        assert file.is_dir() or (b"secret" not in file.read_bytes() and X[4].tobytes() not in file.read_bytes())


def test_a_damaged_one_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    with holdfast.open(folder, mlp((3,), width=8), ERACE(), memory=20, keep=2) as learner:
        learner.observe(X, list("abababab"))
        hashed = learner.state_hash()
    (folder / "kept" / "0").write_bytes(b"something else")
    with pytest.raises(CheckpointError):
        holdfast.roll_back(folder, 0)
    with holdfast.open(folder) as learner:
        assert learner.state_hash() == hashed


@pytest.mark.parametrize("damage", ["flipped", "missing", "without its log"])
def test_a_learner_whose_checkpoint_is_damaged_goes_back_to_one_that_is_kept(damage: str, tmp_path: Path) -> None:
    folder, hashes = tmp_path / "w", {}
    with holdfast.open(folder, mlp((3,), width=8), ERACE(), memory=20, keep=3) as learner:
        for _ in range(3):
            learner.observe(X, list("abababab"))
            learner.checkpoint()
            hashes[learner.step] = learner.state_hash()
        learner.observe(X, list("abababab"))
    (folder / "log.1").write_text("not the learner's")
    if damage == "missing":
        (folder / "learner").unlink()
    else:
        flip(folder / "learner")
    if damage == "without its log":
        for file in folder.glob("log.[2-9]"):
            file.unlink()
        flip(folder / "kept" / "3")
    found = holdfast.verify(folder)
    last = 2 if damage == "without its log" else 3
    assert found.problems[0].file == "learner"
    goes_back = f"holdfast.roll_back({str(folder)!r}, {last}) goes back to step {last}, which is kept"
    assert found.problems[0].remedy == goes_back
    holdfast.roll_back(folder, last)
    with holdfast.open(folder) as learner:
        assert learner.state_hash() == hashes[last]
        learner.observe(X, list("abababab"))
    assert (folder / "log.1").read_text() == "not the learner's"
    assert len(list(folder.glob("log.*"))) == 2


def test_verify_checks_what_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    with holdfast.open(folder, mlp((3,), width=8), ERACE(), memory=20, keep=3) as learner:
        learner.observe(X, list("abababab"))
        learner.checkpoint()
    assert holdfast.verify(folder).ok
    flip(folder / "kept" / "0")
    (problem,) = holdfast.verify(folder).problems
    assert (problem.file, problem.what) == ("kept/0", "is damaged: its checksum does not match its content")
    assert not holdfast.repair(folder).needed
    (folder / "kept" / "0").unlink()
    assert holdfast.verify(folder).ok


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-10] ^= 1
    file.write_bytes(content)


def test_nothing_is_kept_unless_asked_for(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "w", mlp((3,), width=8), ERACE(), memory=20) as learner:
        learner.checkpoint()
    assert holdfast.kept(tmp_path / "w") == [] and not (tmp_path / "w" / "kept").exists()
