"""What is in a learner's folder, and whether every byte of it is right; nothing is changed to find out."""

import itertools
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import holdfast
from holdfast import ER, ERACE, machine
from holdfast.durable import DurableLearner
from holdfast.durable.log import FRAME, HEAD
from holdfast.errors import CheckpointError, InputError
from tests.durable.small import log_of, opened

RNG = np.random.default_rng(1)
BATCHES = [(RNG.standard_normal((4, 3)).astype(np.float32), [f"k{i // 2}"] * 4) for i in range(6)]
RELEASE = Path(__file__).parents[1] / "releases" / "0.1.0"


@dataclass(frozen=True, kw_only=True)
class OwnMethod(ER):
    pass


def own_net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh())


def fill(learner: DurableLearner) -> None:
    for x, y in BATCHES[:4]:
        learner.observe(x, y)
    learner.ask(BATCHES[4][0])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Of a learner that was closed."""
    with opened(tmp_path / "learner") as learner:
        fill(learner)
    return tmp_path / "learner"


def contents(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def killed(folder: Path) -> None:
    """Leaves the folder as a process that was killed would: without a seal."""
    learner = holdfast.open(folder)
    fill(learner)
    assert learner._folder is not None
    learner._folder.abandon()


def spans(whole: bytes) -> list[tuple[int, int]]:
    """From where to where each entry of a log reaches, the seal last."""
    ends, place = [HEAD.size], HEAD.size
    while place < len(whole):
        place += FRAME.size + FRAME.unpack_from(whole, place)[2]
        ends.append(place)
    return list(itertools.pairwise(ends))


def test_what_is_in_it_is_shown(home: Path) -> None:
    found = holdfast.inspect(home)
    assert found.step == 4 and found.pending == 1
    assert [(each.label, each.in_memory, each.since) for each in found.classes] == [("k0", 0, 8), ("k1", 0, 8)]
    assert (found.method, found.options["head"]) == ("ERACE", "cosine")
    assert found.net is not None and found.net["name"] == "mlp"
    assert (found.log.entries, found.log.sealed, found.log.torn) == (5, True, 0)
    assert found.log.nbytes == log_of(home).stat().st_size and found.log.file == log_of(home).name
    assert (found.checkpoint.step, found.checkpoint.nbytes) == (0, (home / "learner").stat().st_size)
    assert found.checkpoint.written_by == {"holdfast": holdfast.__version__, **machine.conditions()}
    assert found.files == {file.name: file.stat().st_size for file in home.iterdir()}
    assert found.pid is None
    with opened(home) as learner:
        assert holdfast.inspect(home).pid == os.getpid()
        learner.tell(0, BATCHES[4][1])
        found = holdfast.inspect(home)
        assert (found.step, found.pending, found.checkpoint.step, found.log.sealed) == (5, 0, 4, False)
        classes = [(each.label, each.in_memory, each.since) for each in found.classes]
        assert classes == [("k0", 8, 0), ("k1", 8, 0), ("k2", 0, 4)]
        learner.checkpoint()
        found = holdfast.inspect(home)
        assert (found.memory.held, found.memory.capacity) == (len(learner.memory), 20)


def test_looking_needs_neither_the_net_nor_the_method(tmp_path: Path) -> None:
    home = tmp_path / "learner"
    with holdfast.open(home, own_net(), OwnMethod(), memory=20) as learner:
        fill(learner)
    found = holdfast.inspect(home)
    assert (found.step, found.method, found.net) == (4, "OwnMethod", None)
    assert holdfast.verify(home).ok
    assert "its encoder and method cannot be checked without yours" in holdfast.verify(home).notes[0]
    encoder = own_net()
    whole = holdfast.verify(home, deep=True, encoder=encoder, method=OwnMethod())
    assert whole.ok and not whole.notes
    for ours, fresh in zip(encoder.parameters(), own_net().parameters(), strict=True):
        assert torch.equal(ours, fresh)  # nothing was learned with it


def test_a_folder_of_the_first_release(tmp_path: Path) -> None:
    home = Path(shutil.copytree(RELEASE / "durable", tmp_path / "learner"))
    before = contents(home)
    found = holdfast.verify(home, deep=True)
    assert found.ok and "version 0.1.0" in found.notes[0]
    assert holdfast.inspect(home).step == found.step
    assert contents(home) == before
    whole = bytearray(log_of(home).read_bytes())
    whole[200] ^= 1
    log_of(home).write_bytes(whole)
    assert holdfast.verify(home).problems[0].file == log_of(home).name


@pytest.mark.slow
def test_every_byte_of_the_log_is_checked_and_the_entry_named(home: Path) -> None:
    whole = log_of(home).read_bytes()
    entries = spans(whole)
    for place in [*range(0, HEAD.size, 5), *range(HEAD.size, len(whole), 23)]:
        damaged = bytearray(whole)
        damaged[place] ^= 1
        log_of(home).write_bytes(damaged)
        found = holdfast.verify(home)
        if place >= entries[-1][0]:
            assert found.ok and "is not sealed" in found.notes[0]
            continue
        (problem,) = found.problems
        where = next((start for start, end in entries if start <= place < end), 0)
        assert (problem.file, problem.offset) == (log_of(home).name, where)
        assert "holdfast learner repair" in problem.remedy
        with pytest.raises(CheckpointError, match=f"is damaged at byte {where}"):
            opened(home)


@pytest.mark.parametrize("inserted", [b"x", bytes(100)], ids=["one", "many"])
def test_bytes_that_were_put_in_are_found_where_they_are(inserted: bytes, home: Path) -> None:
    whole = log_of(home).read_bytes()
    entries = spans(whole)[:-1]  # what follows the last is said of the seal
    for start, end in entries:
        for place in {start, start + 1, start + FRAME.size, (start + end) // 2, end - 1}:
            log_of(home).write_bytes(whole[:place] + inserted + whole[place:])
            assert [problem.offset for problem in holdfast.verify(home).problems] == [start]


def test_every_byte_of_the_checkpoint_is_checked(home: Path) -> None:
    whole = (home / "learner").read_bytes()
    for place in range(0, len(whole), len(whole) // 40):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        (home / "learner").write_bytes(damaged)
        (problem,) = holdfast.verify(home).problems
        assert problem.file == "learner" and "backup" in problem.remedy
    (home / "learner").write_bytes(whole[: len(whole) // 2])
    assert holdfast.verify(home).problems[0].file == "learner"
    (home / "learner").unlink()
    assert holdfast.verify(home).problems[0].what == "is missing"


def test_a_closed_log_that_is_shorter_now_is_noticed(home: Path) -> None:
    """Also where it is cut between two entries, so that it looks like that of a process that was killed."""
    whole = log_of(home).read_bytes()
    *entries, seal = spans(whole)
    for cut in [HEAD.size, *(end for _, end in entries[:-1]), seal[0] - 1]:
        log_of(home).write_bytes(whole[:cut])
        assert "was closed with" in holdfast.verify(home).problems[0].what
        for _ in range(2):  # the second time, too
            with pytest.raises(CheckpointError, match="was closed with"):
                opened(home)
    log_of(home).write_bytes(whole[: seal[0]])  # only the seal is gone
    with opened(home) as learner:
        assert learner.step == 4


def test_damage_in_what_says_how_the_log_was_closed_does_no_harm(home: Path) -> None:
    whole = (home / "lock").read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        (home / "lock").write_bytes(damaged)
        assert holdfast.verify(home).ok
    (home / "lock").unlink()
    assert holdfast.verify(home) == holdfast.verify(home) and holdfast.verify(home).ok


def test_what_is_fine_but_notable_is_said(home: Path) -> None:
    assert holdfast.verify(home).notes == ()
    killed(home)
    assert "not sealed" in " ".join(holdfast.verify(home).notes)
    whole = log_of(home).read_bytes()
    log_of(home).write_bytes(whole[:-10])
    found, (start, end) = holdfast.verify(home), spans(whole)[-1]
    assert found.ok and f"ends with {end - start - 10} bytes" in " ".join(found.notes)
    assert holdfast.inspect(home).log.torn == end - start - 10


def test_files_of_others_are_named_and_left_alone(home: Path) -> None:
    for name in ("notes.txt", "log.7", ".learner.0123456789abcdef"):
        (home / name).write_bytes(b"theirs")
    before = contents(home)
    notes = holdfast.verify(home, deep=True).notes
    assert [note.partition(" ")[0] for note in notes] == [".learner.0123456789abcdef", "log.7", "notes.txt"]
    assert "left alone" in notes[1] and "opening removes it" in notes[0]
    holdfast.inspect(home)
    assert contents(home) == before


def test_an_entry_that_cannot_be_repeated_is_found_by_repeating(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object, x: object, y: object, *more: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(ERACE, "loss", refuse)
    assert holdfast.verify(home).ok
    (problem,) = holdfast.verify(home, deep=True).problems
    assert problem.offset == HEAD.size and "entry 1 cannot be repeated" in problem.what
    assert f"holdfast learner repair {home} --to-step 0 keeps the checkpoint" in problem.remedy


@pytest.mark.parametrize("look", [holdfast.inspect, holdfast.verify])
def test_where_there_is_no_learner(look: Callable[[Path], object], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for nothing in (tmp_path, tmp_path / "missing", tmp_path / "file"):
        with pytest.raises(InputError, match="there is no learner in"):
            look(nothing)
