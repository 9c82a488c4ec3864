"""A log tells damage from the end that a crash leaves, whatever the entries hold."""

import itertools
import random
import threading
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from holdfast.durable import log
from holdfast.durable.log import FRAME, HEAD, MARK, Identity, Log
from holdfast.errors import CheckpointError, WriteError

ENTRIES = [bytes([number]) * (50 + number % 2) for number in range(6)]
OWNER = b"a" * 16


@pytest.fixture
def identity() -> Identity:
    return Identity.new(OWNER)


def filled(path: Path, identity: Identity, entries: list[bytes], *, closed: bool) -> bytes:
    written = Log(path, identity, 0.0)
    for entry in entries:
        written.append(entry)
    if closed:
        written.close()
    return path.read_bytes()


def read(path: Path, identity: Identity) -> list[bytes]:
    return log.examined(path.read_bytes(), identity).sound(path)


def frames(whole: bytes) -> list[bytes]:
    """Each entry with its frame, the seal last."""
    found, place = [], HEAD.size
    while place < len(whole):
        length = FRAME.unpack_from(whole, place)[2]
        found.append(whole[place : place + FRAME.size + length])
        place += len(found[-1])
    return found


@pytest.mark.parametrize("closed", [True, False])
def test_what_was_appended_is_read(tmp_path: Path, identity: Identity, closed: bool) -> None:
    filled(tmp_path / "log", identity, ENTRIES, closed=closed)
    assert read(tmp_path / "log", identity) == ENTRIES
    assert log.identity_of(tmp_path / "log") == identity


@pytest.mark.parametrize("closed", [True, False])
def test_entries_in_another_order_missing_or_doubled_are_noticed(
    tmp_path: Path, identity: Identity, closed: bool
) -> None:
    whole = filled(tmp_path / "log", identity, ENTRIES, closed=closed)
    parts = frames(whole)
    seal = parts[len(ENTRIES) :]
    entries = parts[: len(ENTRIES)]
    forged = [
        *([*entries[:i], entries[j], *entries[i + 1 : j], entries[i], *entries[j + 1 :]]
          for i, j in itertools.combinations(range(len(entries)), 2)),
        *(entries[:i] + entries[i + 1 :] for i in range(len(entries) - 1)),
        *(entries[: i + 1] + entries[i:] for i in range(len(entries))),
    ]  # fmt: skip
    for order in forged:
        (tmp_path / "log").write_bytes(whole[: HEAD.size] + b"".join([*order, *seal]))
        with pytest.raises(CheckpointError, match="is damaged at byte"):
            read(tmp_path / "log", identity)


def test_a_foreign_log_or_an_entry_of_one_is_noticed(tmp_path: Path, identity: Identity) -> None:
    ours = filled(tmp_path / "ours", identity, ENTRIES, closed=True)
    for other in (Identity.new(OWNER), Identity.new(b"b" * 16), Identity(b"b" * 16, identity.salt)):
        theirs = filled(tmp_path / "theirs", other, ENTRIES, closed=True)
        with pytest.raises(CheckpointError, match="is not the log that belongs to this learner"):
            read(tmp_path / "theirs", identity)
        if other.salt != identity.salt:
            for place in range(len(ENTRIES)):
                mixed = frames(ours)
                mixed[place] = frames(theirs)[place]
                (tmp_path / "mixed").write_bytes(identity.head + b"".join(mixed))
                with pytest.raises(CheckpointError, match="is damaged at byte"):
                    read(tmp_path / "mixed", identity)


@pytest.mark.slow
def test_a_flip_in_the_last_entry_of_a_closed_log_is_no_torn_end(tmp_path: Path, identity: Identity) -> None:
    file = tmp_path / "log"
    whole = filled(file, identity, ENTRIES, closed=True)
    seal = frames(whole)[-1]
    for place in range(HEAD.size, len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        file.write_bytes(damaged)
        if place >= len(whole) - len(seal):
            assert read(file, identity) == ENTRIES
        else:
            with pytest.raises(CheckpointError, match="is damaged at byte"):
                read(file, identity)


def test_what_a_crash_leaves_at_the_end_is_left_out(tmp_path: Path, identity: Identity) -> None:
    file = tmp_path / "log"
    whole, rng = filled(file, identity, ENTRIES, closed=False), random.Random(0)
    ends = list(itertools.accumulate(map(len, frames(whole)), initial=HEAD.size))
    for cut in range(ends[-2], len(whole)):
        for garbage in (b"", bytes(20), rng.randbytes(20)):
            file.write_bytes(whole[:cut] + garbage)
            assert read(file, identity) == ENTRIES[:-1]


@pytest.mark.parametrize("content", [MARK * 60_000, (MARK + bytes(48)) * 5000])
def test_a_torn_end_is_found_by_looking_at_each_byte_a_few_times(
    content: bytes, tmp_path: Path, identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever bytes the samples hold: here they look like the beginning of an entry all along."""
    file, hashed = tmp_path / "log", [0]
    whole = filled(file, identity, [b"first", content], closed=False)
    file.write_bytes(whole[:-1])

    def counting(data: bytes, **options: Any) -> object:
        hashed[0] += len(data)
        return blake2b(data, **options)

    monkeypatch.setattr(log, "blake2b", counting)
    assert read(file, identity) == [b"first"]
    assert hashed[0] < 20 * len(whole)


def test_a_log_whose_syncing_thread_dies_takes_no_more(
    tmp_path: Path, identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    died = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda _: died.set())
    written = Log(tmp_path / "log", identity, 0.01)

    def out_of_memory() -> None:
        raise MemoryError

    monkeypatch.setattr(written._file, "_sync", out_of_memory)
    written.append(b"one")
    assert died.wait(10)
    with pytest.raises(WriteError, match="MemoryError"):
        written.append(b"two")
    written.close()
