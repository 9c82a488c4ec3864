"""A copy made while it learns is whole, and a learner of its own."""

import errno
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import holdfast
from holdfast import ERACE, Learner, mlp
from holdfast.durable import snapshot
from holdfast.durable.log import Flaw
from holdfast.errors import CheckpointError, InputError, InUse, WriteError
from holdfast.storage import files
from tests.durable.small import log_of, opened
from tests.threads import beside

RELEASE = Path(__file__).parents[1] / "releases" / "0.1.0" / "durable"

STREAM = """
import os, sys
import numpy as np
import holdfast
acknowledged = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)
learner = holdfast.open(sys.argv[1], holdfast.mlp((3,), width=8), holdfast.ERACE(), memory=20, checkpoint_every=3)
while True:
    rng = np.random.default_rng(learner.step)
    learner.observe(rng.standard_normal((4, 3)).astype(np.float32), rng.integers(0, 5, 4))
    os.pwrite(acknowledged, b"%8d" % learner.step, 0)
"""


def batch(step: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    rng = np.random.default_rng(step)
    return rng.standard_normal((4, 3)).astype(np.float32), rng.integers(0, 5, 4)


def learn(learner: Learner, to_step: int) -> None:
    while learner.step < to_step:
        learner.observe(*batch(learner.step))


class Stream:
    """Another process that learns, and says how far it is."""

    def __init__(self, home: Path) -> None:
        self._said = home.with_name("acknowledged")
        self.process = subprocess.Popen([sys.executable, "-c", STREAM, str(home), str(self._said)])

    @property
    def acknowledged(self) -> int:
        return int(self._said.read_bytes() or 0) if self._said.exists() else 0

    def wait_for(self, step: int) -> None:
        while self.acknowledged < step:
            assert self.process.poll() is None
            time.sleep(0.01)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def streaming(home: Path) -> Iterator[Stream]:
    stream = Stream(home)
    try:
        stream.wait_for(1)
        yield stream
    finally:
        stream.kill()


@pytest.mark.slow
def test_while_another_process_learns_everything_is_read_as_it_was_at_one_moment(home: Path) -> None:
    """Its log is changed for another every three steps. In the end it is killed, and copied once more."""
    reference = Learner(mlp((3,), width=8), ERACE(), memory=20)
    with streaming(home) as stream:
        for number in range(4):
            stream.wait_for(acknowledged := stream.acknowledged + 1)
            found = holdfast.inspect(home)
            assert found.step >= acknowledged and found.pid == stream.process.pid
            checked = holdfast.verify(home, deep=True)
            assert checked.ok and checked.step is not None and checked.step >= found.step
            assert checked.notes == (f"in use by process {stream.process.pid}",)
            before = stream.acknowledged
            holdfast.backup(home, copy := home.with_name(f"copy{number}"))
            with holdfast.open(copy) as learner:
                assert before <= learner.step <= stream.acknowledged + 1
                learn(reference, learner.step)
                assert learner.state_hash() == reference.state_hash()
        with pytest.raises(InUse):
            holdfast.repair(home, yes=True)
        stream.kill()
        checked = holdfast.verify(home)
        assert checked.ok and checked.step in (stream.acknowledged, stream.acknowledged + 1)
        assert "not sealed" in checked.notes[0]
        assert holdfast.inspect(home).pid is None
    with (home / holdfast.inspect(home).log.file).open("ab") as log:
        log.write(b"held and not finished")
    holdfast.backup(home, copy := home.with_name("last"))
    assert holdfast.verify(copy, deep=True).notes == ()
    with holdfast.open(copy) as learner, holdfast.open(home) as original:
        assert learner.step == checked.step and learner.state_hash() == original.state_hash()


def test_a_log_that_goes_between_two_readings_is_no_damage(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(home) as learner:
        learn(learner, 2)
        read, calls = snapshot._content, [0]

        def late(file: Path, settled: bool) -> bytes | Flaw:
            calls[0] += 1
            if calls[0] < 4:
                learn(learner, learner.step + 1)
                learner.checkpoint()
            return read(file, settled)

        monkeypatch.setattr(snapshot, "_content", late)
        assert holdfast.inspect(home).step == 5 and calls[0] == 4


def test_inside_the_process_that_learns(home: Path) -> None:
    with opened(home) as learner:
        learn(learner, 4)
        states = {learner.step: learner.state_hash()}

        def go_on() -> None:
            while learner.step < 12:
                learn(learner, learner.step + 1)
                states[learner.step] = learner.state_hash()

        with beside(go_on):
            learner.backup(home.with_name("copy"))
            holdfast.backup(home, home.with_name("other"))
    for name in ("copy", "other"):
        with holdfast.open(home.with_name(name)) as copy:
            assert copy.step >= 4 and copy.state_hash() == states[copy.step]


def test_a_copy_and_its_original_go_on_apart(home: Path) -> None:
    copy = home.with_name("copy")
    with opened(home) as learner:
        learn(learner, 2)
        learner.backup(copy)
        with opened(copy) as other:  # a lock of its own
            other.observe(*batch(50))
            learn(learner, 4)
            assert other.state_hash() != learner.state_hash()
    with opened(home) as learner:
        assert learner.step == 4
    with opened(copy) as other:
        assert other.step == 3
    shutil.copy(log_of(home), log_of(copy))
    with pytest.raises(CheckpointError, match="is not the log that belongs to this learner"):
        opened(copy)


def test_a_learner_whose_folder_is_gone_can_still_be_copied(home: Path) -> None:
    learner = opened(home)
    learn(learner, 3)
    shutil.rmtree(home)
    learner.backup(home.with_name("copy"))
    with opened(home.with_name("copy")) as copy:
        assert copy.state_hash() == learner.state_hash()


def test_the_copy_of_a_folder_of_the_first_release(tmp_path: Path) -> None:
    there = Path(shutil.copytree(RELEASE, tmp_path / "learner"))
    before = {file: file.read_bytes() for file in there.iterdir()}
    holdfast.backup(there, tmp_path / "copy")
    assert {file: file.read_bytes() for file in there.iterdir()} == before
    with holdfast.open(tmp_path / "copy") as copy, holdfast.open(there) as learner:
        assert copy.state_hash() == learner.state_hash()


def test_what_exists_is_not_written_to(home: Path) -> None:
    with opened(home) as learner:
        learn(learner, 2)
        for target in (home, home.parent, home / "learner"):
            for copy in (learner.backup, lambda target: holdfast.backup(home, target)):
                with pytest.raises(InputError, match="exists already"):
                    copy(target)
        os.symlink(home.parent / "nowhere", home.parent / "link")
        with pytest.raises(InputError, match="exists already"):
            learner.backup(home.parent / "link")


def test_a_damaged_learner_is_not_copied(home: Path) -> None:
    with opened(home) as learner:
        learn(learner, 4)
    whole = bytearray(log_of(home).read_bytes())
    whole[len(whole) // 2] ^= 1
    log_of(home).write_bytes(whole)
    with pytest.raises(CheckpointError, match="is damaged at byte"):
        holdfast.backup(home, home.with_name("copy"))
    assert [each.name for each in home.parent.iterdir()] == [home.name]


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_a_copy_that_cannot_be_written_leaves_nothing(
    home: Path, failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(home) as learner:
        learn(learner, 2)
    replace, calls = files._replace, [0]

    def full(path: Path, content: bytes) -> None:
        calls[0] += 1
        if calls[0] == failing:
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(path, content)

    monkeypatch.setattr(files, "_replace", full)
    with pytest.raises(WriteError, match="copy cannot be written: No space left"):
        holdfast.backup(home, home.with_name("copy"))
    assert [each.name for each in home.parent.iterdir()] == [home.name]


def test_what_was_taken_back_is_not_in_the_copy(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is read when an entry is in it; then it cannot be synced, and is cut off again."""
    with opened(home) as learner:
        learn(learner, 3)
        size = log_of(home).stat().st_size
        learn(learner, 4)
        fsync = os.fsync

        def cut(handle: int) -> None:
            if os.path.samestat(os.fstat(handle), log_of(home).stat()):
                os.truncate(log_of(home), size)
            fsync(handle)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", cut)
            holdfast.backup(home, home.with_name("copy"))
    with opened(home.with_name("copy")) as copy:
        assert copy.step == 3
