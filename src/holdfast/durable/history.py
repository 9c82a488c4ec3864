"""The last checkpoints of a durable learner, kept so that it can go back to one of them."""

import os
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, count
from pathlib import Path

from torch import Tensor

from holdfast.arguments import whole
from holdfast.durable.snapshot import KEPT
from holdfast.errors import CheckpointError, InputError, WriteError
from holdfast.memory.class_index import Journal
from holdfast.storage import checkpoint, files

NAME = re.compile(r"(0|[1-9]\d{0,17})(\.[1-9]\d{0,8})?", re.ASCII)  # the step, and which one of several that have it
LEFT_BEHIND = re.compile(r"\.\d+(\.\d+)?\.[0-9a-f]{16}", re.ASCII)  # by a writer that was killed
TICK = 1_000_000  # nanoseconds, that file systems tell apart


@dataclass(frozen=True, slots=True)
class Kept:
    """A checkpoint that is kept.

    Attributes:
        name: its step, as text; of a second and third state with as many steps "20.2" and "20.3".
        step: how many steps it has.
        time: when it was written, in seconds since 1970, for `datetime.fromtimestamp(time)`.
        nbytes: its size.
    """

    name: str
    step: int
    time: float
    nbytes: int


def kept(folder: str | Path) -> list[Kept]:
    """Lists the checkpoints that a durable learner can go back to; `holdfast.open(keep=...)` says how many stay.

    Args:
        folder: the folder of the learner, which may be in use.

    Returns:
        One entry with `name`, `step`, `time` and `nbytes` for each, the latest first.
    """
    found = []
    for file in _files(Path(folder)):
        with suppress(FileNotFoundError):  # removed meanwhile
            found.append(Kept(file.name, _step(file), file.stat().st_mtime, file.stat().st_size))
    return sorted(found, key=lambda each: -each.time)


def named(folder: Path, step: int | str) -> Kept:
    """The kept checkpoint of a step, if there is one only, or of a name."""
    there = kept(folder)
    asked = step if isinstance(step, str) else whole("step", step)
    found = [each for each in there if asked in (each.name, each.step)]
    if not found:
        listed = ", ".join(each.name for each in there) or "none"
        raise InputError(f"step {step} is not kept; kept are: {listed}")
    if len(found) > 1:
        listed = ", ".join(repr(each.name) for each in found)
        raise InputError(f"several checkpoints of step {step} are kept; give the name of one: {listed}")
    return found[0]


def keep(folder: Path, step: int, content: bytes, most: int, spare: int | str | None = None) -> None:
    """Best effort: what has just been written is safe without it. `spare`: the name of one that stays, however old.

    It takes the place of none but itself: after going back, another state may have as many steps.
    """
    with suppress(WriteError, OSError):
        clear(folder)
        there = _files(folder)
        latest = max((each.stat().st_mtime_ns for each in there), default=0)
        file = _place(folder / KEPT, step, content)
        if file not in there and os.path.lexists(file):  # somebody else's
            return
        files.make_folder(file.parent)
        files.write(file, content)
        if file.stat().st_mtime_ns <= latest:  # the clock was set back
            os.utime(file, ns=(latest + TICK, latest + TICK))
        for each in kept(folder)[most:]:
            if each.name == str(spare):
                continue
            files.remove(folder / KEPT / each.name)


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


def _step(file: Path) -> int:
    return int(file.name.partition(".")[0])


def _place(there: Path, step: int, content: bytes) -> Path:
    """Where a state is kept already, or a name that no other has."""
    same = [file for file in _files(there.parent) if _step(file) == step]
    if same:
        state = _state(*checkpoint.unpack(content))
        for file in same:
            with suppress(CheckpointError):  # a damaged one stays as it is
                if _state(*checkpoint.read(file)) == state:
                    return file
    names = chain([str(step)], (f"{step}.{number}" for number in count(2)))
    return next(there / name for name in names if there / name not in same)


def _state(tensors: Mapping[str, Tensor], manifest: checkpoint.Manifest) -> str:
    """The same for the same learner, whichever log goes with it."""
    return checkpoint.digest(tensors, checkpoint.as_text({**manifest, "log": None}))


def _put_back(aside: Path, file: Path) -> None:
    if aside.exists():
        with suppress(WriteError):  # of a disk that fails
            files.rename(aside, file)


def _all(folder: Path) -> list[Path]:
    there = folder / KEPT
    return list(there.iterdir()) if there.is_dir() else []
