"""Going back to a checkpoint that was kept."""

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast
from holdfast import ERACE, mlp
from holdfast.durable import durable
from holdfast.errors import CheckpointError, InputError, InUse, TicketError, WriteError

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


def test_states_of_the_same_step_do_not_take_each_others_place(tmp_path: Path) -> None:
    """After going back, others may have as many steps; and calibrating changes answers, but takes no step."""
    folder, hashes = tmp_path / "w", []
    with holdfast.open(folder, mlp((3,), width=8), ERACE(), memory=20, keep=9) as learner:
        learner.observe(X, list("abababab"))
        learner.checkpoint()
        learner.checkpoint()  # nothing has changed
        learner.observe(X, list("abababab"))
        learner.checkpoint()
        hashes.append(learner.state_hash())
    assert [each.name for each in holdfast.kept(folder)] == ["2", "1", "0"]
    holdfast.roll_back(folder, 1)
    with holdfast.open(folder, keep=9) as learner:
        learner.observe(X, list("cccccccc"))
        learner.checkpoint()
        hashes.append(learner.state_hash())
        learner.calibrate(X, list("abababab"))
        learner.checkpoint()
        hashes.append(learner.state_hash())
    there = holdfast.kept(folder)
    assert [(each.name, each.step) for each in there][:3] == [("2.3", 2), ("2.2", 2), ("2", 2)]
    for name, expected in zip(("2", "2.2", "2.3"), hashes, strict=True):
        holdfast.roll_back(folder, name)
        with holdfast.open(folder) as learner:
            assert learner.state_hash() == expected, name
    assert holdfast.verify(folder).ok and holdfast.verify(folder).notes == ()


def test_numbers_of_questions_that_are_undone_are_not_used_again(tmp_path: Path) -> None:
    """Their labels may still come, and are of other samples."""
    with holdfast.open(tmp_path / "w", mlp((3,), width=8), ERACE(), memory=20, keep=9) as learner:
        learner.observe(X, list("abababab"))
        before = learner.ask(X[:1])
        learner.checkpoint()
        undone = learner.ask(X[1:2])
    holdfast.roll_back(tmp_path / "w", 1)
    with holdfast.open(tmp_path / "w") as learner:
        assert learner.ask(X[2:3]).number > undone.number
        with pytest.raises(TicketError):
            learner.tell(undone, ["a"])
        learner.tell(before, ["a"])


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
    flip(folder / "kept" / "0")
    with pytest.raises(CheckpointError):
        holdfast.roll_back(folder, 0)
    with holdfast.open(folder) as learner:
        assert learner.state_hash() == hashed


def test_files_of_others_among_them_stay(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    theirs = {folder / "kept" / name: name.encode() for name in ("2024", "1", "notes", "007", ".2.0123456789abcdef~")}
    (folder / "kept").mkdir(parents=True)
    with holdfast.open(tmp_path / "v", mlp((3,), width=8), ERACE(), memory=20) as learner:
        learner.backup(folder / "whole")
    for name in ("learner", "log.1", "lock"):
        (folder / "whole" / name).rename(folder / name)
    for file, content in theirs.items():
        file.write_bytes(content)
    with holdfast.open(folder, keep=1) as learner:
        for _ in range(3):
            learner.observe(X, list("abababab"))
            learner.checkpoint()
        learner.forget("a")
    assert {file: file.read_bytes() for file in theirs} == theirs
    assert [each.step for each in holdfast.kept(folder)] == [3]
    assert "kept/2024 is not a checkpoint that was kept; it is left alone" in holdfast.verify(folder).notes
    with pytest.raises(InputError, match="write to another place"):
        learner.save(folder / "kept" / "3")


def test_the_last_ones_stay_wherever_the_clock_stands(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "w", mlp((3,), width=8), ERACE(), memory=20, keep=2) as learner:
        for _ in range(4):
            learner.observe(X, list("abababab"))
            learner.checkpoint()
            for number, each in enumerate(holdfast.kept(tmp_path / "w")):  # as if the clock went back by years now
                os.utime(tmp_path / "w" / "kept" / str(each.step), (2e9 - number, 2e9 - number))
    assert [each.step for each in holdfast.kept(tmp_path / "w")] == [4, 3]


def test_what_a_killed_writer_left_is_forgotten_with_the_rest(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "w", mlp((3,), width=8), ERACE(), memory=20, keep=2) as learner:
        learner.observe(X, ["secret"] * 4 + ["b"] * 4)
        learner.checkpoint()
        (tmp_path / "w" / "kept" / "1").rename(tmp_path / "w" / "kept" / ".1.0123456789abcdef")
        learner.forget("secret")
    assert [file.name for file in (tmp_path / "w" / "kept").iterdir()] == ["1"]


@pytest.mark.parametrize("failing", ["replace", "unlink"])
@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_when_forgetting_fails_none_is_lost(
    failing: str, at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, calls = getattr(os, failing), [0]

    def fails(*given: Any, **named: Any) -> Any:
        calls[0] += 1
        if calls[0] == at:
            raise OSError(errno.ENOSPC, "No space left on device")
        return call(*given, **named)

    with holdfast.open(tmp_path / "w", mlp((3,), width=8), ERACE(), memory=20, keep=2) as learner:
        for _ in range(2):
            learner.observe(X, ["secret"] * 4 + ["b"] * 4)
            learner.checkpoint()
        before = learner.state_hash()
        with monkeypatch.context() as patch:
            patch.setattr(os, failing, fails)
            try:
                learner.forget("secret")
            except WriteError:
                assert learner.state_hash() == before
                assert [each.step for each in holdfast.kept(tmp_path / "w")] == [2, 1]
        if learner.state_hash() == before:
            learner.forget("secret")
    assert not any(b"secret" in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


def test_what_was_set_aside_by_a_killed_process_is_removed_when_the_folder_is_opened(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "w", mlp((3,), width=8), ERACE(), memory=20, keep=2) as learner:
        learner.observe(X, list("abababab"))
    aside = tmp_path / "w" / "kept" / ".0.0123456789abcdef"
    (tmp_path / "w" / "kept" / "0").rename(aside)
    holdfast.open(tmp_path / "w").close()
    assert not aside.exists()


def test_something_else_in_their_place_is_an_error_that_says_so(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "w", mlp((3,), width=8), ERACE(), memory=20) as learner:
        learner.observe(X, list("abababab"))
    (tmp_path / "w" / "kept").write_text("somebody else's")
    with pytest.raises(
        InputError, match=r"kept is no folder, but keep=\.\.\. keeps checkpoints in one .*: move it away"
    ):
        holdfast.open(tmp_path / "w", keep=2)
    with holdfast.open(tmp_path / "w") as learner:
        learner.forget("a")
    assert (tmp_path / "w" / "kept").read_text() == "somebody else's"


def test_a_question_too_large_for_the_log_erases_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "LARGEST_ENTRY", X.nbytes)
    with holdfast.open(tmp_path / "w", mlp((3,), width=8), ERACE(), memory=20, keep=3) as learner:
        learner.observe(X[:2], list("ab"))
        learner.checkpoint()
        assert learner.ask(X).number == 0
        hashed = learner.state_hash()
    assert [each.name for each in holdfast.kept(tmp_path / "w")] == ["1.2", "1", "0"]
    with holdfast.open(tmp_path / "w") as learner:
        assert learner.state_hash() == hashed


@pytest.mark.parametrize("step", [True, 0.0, None, -1])
def test_a_step_is_a_whole_number(step: Any, tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "w", mlp((3,), width=8), ERACE(), memory=20, keep=3) as learner:
        learner.observe(X, list("abababab"))
        learner.checkpoint()
    with pytest.raises(InputError, match="step must be a whole number"):
        holdfast.roll_back(tmp_path / "w", step)


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
