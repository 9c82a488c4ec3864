"""Whatever its user does to the folder: the lock holds or the learner refuses, and no file of others is touched."""

import errno
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import holdfast
from holdfast import ERACE, Learner, mlp
from holdfast.durable import durable, log, log_v1
from holdfast.errors import CheckpointError, InputError, InUse, WriteError
from holdfast.storage import checkpoint
from tests.durable.small import opened
from tests.threads import beside

RNG = np.random.default_rng(1)
BATCHES = [(RNG.standard_normal((4, 3)).astype(np.float32), [f"k{i // 2}"] * 4) for i in range(6)]


def hash_after(batches: int) -> str:
    learner = Learner(mlp((3,), width=8), ERACE(), memory=20)
    for x, y in BATCHES[:batches]:
        learner.observe(x, y)
    return learner.state_hash()


def open_elsewhere(path: Path) -> str:
    """What another process is told that opens it."""
    code = f"import holdfast; holdfast.open({str(path)!r})"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr


def copied(folder: Path) -> None:
    shutil.copytree(folder, folder.with_name("backup"))


def read(folder: Path) -> None:
    for file in folder.iterdir():
        file.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    "act", [copied, read, lambda folder: (folder / "lock").unlink()], ids=["copied", "read", "lock removed"]
)
def test_the_lock_holds_whatever_is_done_to_the_files(home: Path, act: Callable[[Path], None]) -> None:
    with opened(home) as learner:
        learner.observe(*BATCHES[0])
        act(home)
        assert "InUse" in open_elsewhere(home)
        with pytest.raises(InUse):
            opened(home)
        learner.observe(*BATCHES[1])
    with opened(home) as learner:
        assert learner.state_hash() == hash_after(2)


def test_one_folder_under_two_names_is_one_folder(home: Path, tmp_path: Path) -> None:
    with opened(home):
        (tmp_path / "link").symlink_to(home)
        with pytest.raises(InUse):
            opened(tmp_path / "link")


def test_a_copy_of_an_open_folder_is_a_learner_of_its_own(home: Path) -> None:
    with opened(home) as learner:
        learner.observe(*BATCHES[0])
        copied(home)
        with opened(home.with_name("backup")) as copy:
            assert copy.state_hash() == learner.state_hash()


@pytest.mark.slow
def test_a_lock_ends_with_the_process_that_took_it_not_with_those_it_forked(home: Path) -> None:
    code = f"""
import os, sys, time, numpy as np, holdfast
learner = holdfast.open({str(home)!r}, holdfast.mlp((3,), width=8), holdfast.ERACE(), memory=20)
child = os.fork()
if child == 0:
    os.closerange(0, 3)  # nobody waits for what it might still say
    time.sleep(60)
    os._exit(0)
print(child, flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    child = int(done.stdout)
    try:
        opened(home).close()
    finally:
        os.kill(child, 9)


def test_it_stays_where_it_was_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
        opened(folder / "weather").close()
    others = {file: file.read_bytes() for file in (there / "weather").iterdir()}
    monkeypatch.chdir(here)
    with opened("weather", checkpoint_every=2) as learner:
        monkeypatch.chdir(there)
        for batch in BATCHES:
            learner.observe(*batch)
        learner.checkpoint()
    assert {file: file.read_bytes() for file in (there / "weather").iterdir()} == others
    with opened(here / "weather") as learner:
        assert learner.state_hash() == hash_after(6)


@pytest.mark.parametrize(
    "act",
    [shutil.rmtree, lambda folder: folder.rename(folder.with_name("moved"))],
    ids=["removed", "moved"],
)
def test_a_folder_that_is_gone_is_not_learned_into(home: Path, act: Callable[[Path], None], tmp_path: Path) -> None:
    learner = opened(home)
    learner.observe(*BATCHES[0])
    act(home)
    before = learner.state_hash()
    for change in (lambda: learner.observe(*BATCHES[1]), lambda: learner.ask(BATCHES[1][0]), learner.checkpoint):
        with pytest.raises(WriteError, match="was removed, moved or replaced"):
            change()
    assert learner.state_hash() == before
    learner.save(tmp_path / "elsewhere")
    assert Learner.load(tmp_path / "elsewhere").state_hash() == before
    with pytest.raises(WriteError, match="was removed, moved or replaced"):
        learner.close()


def test_another_folder_in_its_place_is_left_alone(home: Path) -> None:
    learner = opened(home)
    learner.observe(*BATCHES[0])
    home.rename(home.with_name("moved"))
    home.mkdir()
    with pytest.raises(WriteError):
        learner.observe(*BATCHES[1])
    assert not list(home.iterdir())
    with pytest.raises(WriteError):
        learner.close()
    with opened(home.with_name("moved")) as again:
        assert again.state_hash() == hash_after(1)


@pytest.mark.parametrize("name", ["learner", "log.1"])
def test_files_that_are_removed_while_it_is_open_are_written_again(home: Path, name: str) -> None:
    learner = opened(home)
    learner.observe(*BATCHES[0])
    (home / name).unlink()
    learner.observe(*BATCHES[1])
    (home / "learner").unlink()
    learner.close()
    with opened(home) as learner:
        assert learner.state_hash() == hash_after(2)


def test_files_of_others_are_left_alone(home: Path) -> None:
    opened(home).close()
    theirs = {"log.2": b"mine", "log.2024": b"mine too", "log.txt": b"", ".learner.keep": b"x", "notes": b"y"}
    for name, content in theirs.items():
        (home / name).write_bytes(content)
    for _ in range(2):
        with opened(home, checkpoint_every=2) as learner:
            for batch in BATCHES[:5]:
                learner.observe(*batch)
            learner.forget("k0")
    assert {name: (home / name).read_bytes() for name in theirs} == theirs


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_among_the_logs_is_neither_read_nor_removed(home: Path) -> None:
    opened(home).close()
    (log,) = home.glob("log.*")
    os.mkfifo(home / "log.77")
    pipe = os.open(home / "log.77", os.O_RDWR)  # whoever reads from it now gets what looks like a log
    os.write(pipe, log.read_bytes())
    with opened(home) as learner:
        learner.observe(*BATCHES[0])
        learner.checkpoint()
    os.close(pipe)
    assert (home / "log.77").is_fifo()


def test_logs_without_their_learner_are_no_new_learner(home: Path) -> None:
    with opened(home) as learner:
        learner.observe(*BATCHES[0])
    (home / "learner").rename(home.with_name("kept"))
    there = {file: file.read_bytes() for file in home.glob("log.*")}
    with pytest.raises(CheckpointError, match="bring the file learner back"):
        opened(home)
    assert {file: file.read_bytes() for file in home.glob("log.*")} == there
    home.with_name("kept").rename(home / "learner")
    with opened(home) as learner:
        assert learner.state_hash() == hash_after(1)


@pytest.mark.parametrize("sync_every", [float("inf"), float("nan"), 1e10, -1.0])
def test_a_time_between_syncs_that_cannot_be_is_refused(home: Path, sync_every: float) -> None:
    with pytest.raises(InputError, match="sync_every"):
        opened(home, sync_every=sync_every)
    assert not home.exists()


def test_where_the_folders_own_file_was_replaced_it_is_written_again(home: Path) -> None:
    learner = opened(home)
    for x, y in BATCHES[:2]:
        learner.observe(x, y)
        (home / "learner").write_bytes(learner.serialized())
    learner.close()
    with opened(home) as again:
        assert again.state_hash() == hash_after(2)


def test_a_file_of_save_is_no_folder_of_a_learner_and_says_so(home: Path) -> None:
    home.mkdir()
    learner = Learner(mlp((3,), width=8), ERACE(), memory=20)
    learner.save(home / "learner")
    with pytest.raises(CheckpointError, match=r"was written by Learner\.save"):
        opened(home)


def test_conditions_that_cannot_be_are_no_error_of_pythons(home: Path) -> None:
    opened(home).close()
    tensors, manifest = checkpoint.read(home / "learner")
    (home / "learner").write_bytes(checkpoint.pack(tensors, {**manifest, "conditions": 1e300}))
    with pytest.raises(CheckpointError, match="has values that no learner has"):
        opened(home)


@pytest.mark.slow
@pytest.mark.parametrize("holder", ["kept = learner", "import torch; torch.kept = learner"])
def test_what_is_left_open_at_the_end_of_python_is_let_go_of_as_it_is(holder: str, home: Path) -> None:
    """Nothing is serialised while Python ends, whatever state the log is in."""
    code = f"""
import numpy as np, holdfast
learner = holdfast.open({str(home)!r}, holdfast.mlp((3,), width=8), holdfast.ERACE(), memory=20)
learner.observe(np.zeros((2, 3), np.float32), ["a", "b"])
learner._folder._log.end()  # as after a write that failed
{holder}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    with opened(home) as learner:
        assert learner.step == 1


def test_a_question_asked_while_another_thread_fails_is_not_lost(home: Path) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def failing(x: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
        inside.set()
        assert go_on.wait(20)
        raise ZeroDivisionError

    learner = opened(home)
    learner.observe(*BATCHES[0])
    learner.training.augment = failing

    def fail() -> None:
        with pytest.raises(ZeroDivisionError):
            learner.observe(*BATCHES[1])

    with beside(fail):
        assert inside.wait(20)
        ticket = learner.ask(BATCHES[2][0])
        go_on.set()
    copied(home)  # as kill -9 would leave it
    with opened(home.with_name("backup")) as copy:
        assert copy.step == 1
        copy.tell(ticket.number, BATCHES[2][1])


def test_a_question_leaves_the_checkpoint_to_the_next_change(home: Path) -> None:
    with opened(home, checkpoint_every=1) as learner:
        learner.observe(*BATCHES[0])
        learner.observe(*BATCHES[1])
        before = (home / "learner").stat()
        tickets = [learner.ask(BATCHES[2][0]) for _ in range(5)]
        assert (home / "learner").stat() == before
        learner.tell(tickets[0], BATCHES[2][1])
        assert (home / "learner").stat() != before
    with opened(home) as learner:
        assert len(learner.pending) == 4


def test_a_large_number_of_somebody_elses_log_does_no_harm(home: Path) -> None:
    with opened(home) as learner:
        learner.observe(*BATCHES[0])
        for digits in (14, 15, 18, 30):
            (home / f"log.{'9' * digits}").write_bytes(b"theirs")
        learner.checkpoint()
        learner.observe(*BATCHES[1])
    with opened(home) as learner:
        assert learner.state_hash() == hash_after(2)


@pytest.mark.parametrize("link", [True, False])
def test_somebody_elses_file_called_lock_is_left_alone(home: Path, tmp_path: Path, link: bool) -> None:
    opened(home).close()
    (home / "lock").unlink()
    theirs = tmp_path / "theirs" if link else home / "lock"
    theirs.write_text("my own words")
    if link:
        (home / "lock").symlink_to(theirs)
    with opened(home) as learner:
        learner.observe(*BATCHES[0])
        with pytest.raises(InUse):
            opened(home)
    assert theirs.read_text() == "my own words"


def test_the_callers_default_type_changes_nothing(home: Path) -> None:
    with opened(home) as learner:
        learner.observe(*BATCHES[0])
    right = [hash_after(1), hash_after(2)]
    torch.set_default_dtype(torch.float64)
    try:
        with torch.inference_mode():
            learner = holdfast.open(home)
        found = [learner.state_hash()]
        learner.observe(*BATCHES[1])
        found.append(learner.state_hash())
    finally:
        torch.set_default_dtype(torch.float32)
    assert found == right
    learner.close()


def test_nor_does_it_change_an_average(home: Path) -> None:
    learner = opened(home, average=0.9)
    torch.set_default_dtype(torch.float64)
    try:
        for batch in BATCHES[:3]:
            learner.observe(*batch)
    finally:
        torch.set_default_dtype(torch.float32)
    there = learner.state_hash()
    del learner  # as if it was killed
    with opened(home) as learner:
        assert learner.state_hash() == there


def only_log_of(folder: Path) -> Path:
    (file,) = folder.glob("log.*")
    return file


@pytest.mark.slow
@pytest.mark.parametrize("tail", [b"", b"garbage" * 100, log.MARK * 100])
@pytest.mark.parametrize("closed", [True, False])
def test_a_log_of_any_length_is_refused_without_reading_it_all(home: Path, tail: bytes, closed: bool) -> None:
    learner = opened(home)
    for x, y in BATCHES[:3]:
        learner.observe(x, y)
    if closed:
        learner.close()
    del learner
    file = only_log_of(home)
    whole = file.stat().st_size
    with file.open("ab") as grown:
        grown.write(tail)
    os.truncate(file, 2**40)  # sparse
    with pytest.raises(CheckpointError, match=f"is damaged at byte {whole}: it has more than the"):
        opened(home)
    (problem,) = holdfast.verify(home).problems
    assert problem.offset == whole
    os.truncate(file, log.MOST_BYTES + 1)
    assert holdfast.repair(home, yes=True).kept == 3
    assert opened(home).state_hash() == hash_after(3)


def test_what_looks_like_entries_of_the_first_version_all_along_is_looked_at_a_few_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    like_entries = b"".join(
        log_v1.FRAME.pack(log_v1.MARK, 10_000 * 36 - 36 * i, 0, bytes(16)) for i in range(1, 10_000)
    )
    hashed = [0]

    def counting(content: bytes, safe: int) -> bytes:
        hashed[0] += len(content)
        return b""

    monkeypatch.setattr(log_v1, "_checksum", counting)
    assert not log_v1.examined(like_entries).entries
    assert hashed[0] <= 5 * len(like_entries)


def test_the_log_of_questions_alone_is_bounded_and_none_is_lost(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "FULL", 10_000)
    learner = opened(home)
    learner.observe(*BATCHES[0])
    for number in range(100):
        assert learner.ask(BATCHES[number % 6][0]).number == number
        assert only_log_of(home).stat().st_size < 11_000
    there = learner.state_hash()
    del learner  # as if it was killed
    assert opened(home).state_hash() == there


def test_what_is_too_large_for_the_log_is_written_with_the_learner(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "LARGEST_ENTRY", 2000)
    learner, plain = opened(home), Learner(mlp((3,), width=8), ERACE(), memory=20)
    x, y = np.tile(BATCHES[0][0], (50, 1)), BATCHES[0][1] * 50
    for each in (learner, plain):
        each.observe(*BATCHES[1])
        ticket = each.ask(x)
        each.observe(x, y)
        each.tell(ticket, y)
        each.ask(x)
    assert only_log_of(home).stat().st_size == log.HEAD.size
    del learner  # as if it was killed
    assert opened(home).state_hash() == plain.state_hash()


def files_of(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in folder.iterdir()}


@pytest.mark.parametrize("how", ["in use", "killed", "closed", "a backup"])
def test_it_can_be_read_without_writing_or_locking(home: Path, how: str) -> None:
    learner = opened(home)
    for x, y in BATCHES[:3]:
        learner.observe(x, y)
    x, folder = BATCHES[0][0], home
    there, answers = learner.state_hash(), learner.predict(x)
    if how == "a backup":
        folder = home.with_name("backup")
        learner.backup(folder)
    elif how == "closed":
        learner.close()
    elif how == "killed":
        del learner
    before = files_of(folder)
    reader = holdfast.open(folder, read_only=True)
    assert reader.state_hash() == there and reader.step == 3
    assert reader.predict(x) == answers
    for change in (
        lambda: reader.observe(*BATCHES[3]),
        lambda: reader.ask(x),
        lambda: reader.remember(*BATCHES[3]),
        lambda: reader.forget("k0"),
        lambda: reader.forget_samples(x),
    ):
        with pytest.raises(WriteError, match="was opened with read_only: it answers, but learns nothing"):
            change()
    reader.checkpoint()
    reader.close()
    assert reader.state_hash() == there and files_of(folder) == before
    if how != "in use":
        assert opened(folder).state_hash() == there  # nobody has it


def test_what_cannot_be_opened_to_read(home: Path) -> None:
    with pytest.raises(InputError, match="there is no learner in"):
        holdfast.open(home, mlp((3,)), ERACE(), read_only=True)
    assert not home.exists()
    opened(home).close()
    with pytest.raises(InputError, match="not for read_only"):
        holdfast.open(home, read_only=True, sync_every=1)
    with pytest.raises(CheckpointError, match="seed does not fit"):
        holdfast.open(home, read_only=True, seed=5)


def test_on_a_full_disk_it_says_how_it_can_be_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = opened(home)
    learner.observe(*BATCHES[0])
    there = learner.state_hash()
    del learner  # as if it was killed

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WriteError, match=r"No space left on device; holdfast.open\(folder, read_only=True\) answers"):
        opened(home)
    assert holdfast.open(home, read_only=True).state_hash() == there
