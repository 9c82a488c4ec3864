"""The last checkpoints of a durable learner, kept so that it can go back to one of them."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from holdfast.durable.snapshot import KEPT
from holdfast.errors import WriteError
from holdfast.storage import files


@dataclass(frozen=True, slots=True)
class Kept:
    """A checkpoint that is kept.

    Attributes:
        step: how many steps it has.
        time: when it was written, in seconds since 1970.
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
    with suppress(WriteError):
        files.make_folder(folder / KEPT)
        files.write(folder / KEPT / str(step), content)
        for each in kept(folder)[most:]:
            if each.step == spare:
                continue
            files.remove(folder / KEPT / str(each.step))


def erase(folder: Path) -> None:
    """What is forgotten is held nowhere."""
    for file in _files(folder):
        files.remove(file)


def _files(folder: Path) -> list[Path]:
    there = folder / KEPT
    return [file for file in there.iterdir() if file.name.isdecimal() and file.is_file()] if there.is_dir() else []
