"""The last checkpoints of a durable learner, kept so that it can go back to one of them."""

import os
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from holdfast.durable.snapshot import KEPT
from holdfast.errors import InputError, WriteError
from holdfast.memory.class_index import Journal
from holdfast.storage import checkpoint, files

NAME = re.compile(r"0|[1-9]\d{0,17}", re.ASCII)  # of the file of a step
LEFT_BEHIND = re.compile(r"\.\d+\.[0-9a-f]{16}", re.ASCII)  # by a writer that was killed
TICK = 1_000_000  # nanoseconds, that file systems tell apart


@dataclass(frozen=True, slots=True)
class Kept:
    """A checkpoint that is kept.

    Attributes:
        step: how many steps it has.
        time: when it was written, in seconds since 1970, for `datetime.fromtimestamp(time)`.
        nbytes: its size.
    """

    step: int
    time: float
    nbytes: int


def kept(folder: str | Path) -> list[Kept]:
    """Lists the checkpoints that a durable learner can go back to; `holdfast.open(keep=...)` says how many stay.

    Args:
        folder: the folder of the learner, which may be in use.

    Returns:
        One entry with `step`, `time` and `nbytes` for each, the latest first.
    """
    found = []
    for file in _files(Path(folder)):
        with suppress(FileNotFoundError):  # removed meanwhile
            found.append(Kept(int(file.name), file.stat().st_mtime, file.stat().st_size))
    return sorted(found, key=lambda each: -each.time)


def keep(folder: Path, step: int, content: bytes, most: int, spare: int | None = None) -> None:
    """Best effort: what has just been written is safe without it. `spare`: a step that stays, however old it is."""
    file = folder / KEPT / str(step)
    with suppress(WriteError, OSError):
        clear(folder)
        there = _files(folder)
        if file not in there and os.path.lexists(file):  # somebody else's
            return
        latest = max((each.stat().st_mtime_ns for each in there), default=0)
        files.make_folder(file.parent)
        files.write(file, content)
        if file.stat().st_mtime_ns <= latest:  # the clock was set back
            os.utime(file, ns=(latest + TICK, latest + TICK))
        for each in kept(folder)[most:]:
            if each.step == spare:
                continue
            files.remove(folder / KEPT / str(each.step))


def set_aside(folder: Path, journal: Journal) -> None:
    """None is kept any more, unless that is taken back; `clear` then removes them."""
    clear(folder)
    for file in _files(folder):
        aside = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
        journal.on_undo(partial(_put_back, aside, file))
        files.rename(file, aside)


def clear(folder: Path) -> None:
    """Removes what was set aside, and what a killed writer has left."""
    for file in _all(folder):
        if LEFT_BEHIND.fullmatch(file.name) and file.is_file():
            files.remove(file)


def check_place(folder: Path) -> None:
    """Refuses something of somebody else's where kept checkpoints would go."""
    there = folder / KEPT
    if os.path.lexists(there) and not there.is_dir():
        raise InputError(f"{there} is no folder, but keep=... keeps checkpoints in one of this name: move it away")


def strangers(folder: Path) -> list[str]:
    """The names of what lies among the kept checkpoints and is none."""
    ours = _files(folder)
    return sorted(file.name for file in _all(folder) if file not in ours and not LEFT_BEHIND.fullmatch(file.name))


def _files(folder: Path) -> list[Path]:
    """Only what a learner has written: others may have files of such names."""
    return [file for file in _all(folder) if NAME.fullmatch(file.name) and checkpoint.begins_as_one(file)]


def _put_back(aside: Path, file: Path) -> None:
    if aside.exists():
        with suppress(WriteError):  # of a disk that fails
            files.rename(aside, file)


def _all(folder: Path) -> list[Path]:
    there = folder / KEPT
    return list(there.iterdir()) if there.is_dir() else []
