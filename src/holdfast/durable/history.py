"""The last checkpoints of a durable learner, kept so that it can go back to one of them."""

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.durable.repairs import write
from holdfast.durable.snapshot import KEPT, take
from holdfast.errors import InputError, WriteError
from holdfast.storage import checkpoint, files
from holdfast.storage.locks import FolderLock


@dataclass(frozen=True, slots=True)
class Kept:
    """A checkpoint of so many steps, and when it was written, in seconds since 1970."""

    step: int
    time: float
    nbytes: int


def kept(folder: str | Path) -> list[Kept]:
    """The checkpoints that the learner in `folder` can go back to, the latest first; `holdfast.open(keep=...)`."""
    found = []
    for file in _files(Path(folder)):
        with suppress(FileNotFoundError):  # removed meanwhile
            found.append(Kept(int(file.name), file.stat().st_mtime, file.stat().st_size))
    return sorted(found, key=lambda each: -each.time)


def roll_back(folder: str | Path, step: int) -> None:
    """The learner in `folder`, which must not be in use, becomes what it was at a step that is kept.

    All that was learned since is undone. Close it with a checkpoint before, and what is undone is kept, too.
    """
    path = Path(folder)
    if step not in [each.step for each in kept(path)]:
        there = ", ".join(str(each.step) for each in kept(path)) or "none"
        raise InputError(f"step {step} is not kept; kept are: {there}")
    lock = FolderLock(path, f"the learner in {folder}")
    try:
        tensors, manifest = checkpoint.read(path / KEPT / str(step))
        lock.sign_off(write(replace(take(path), tensors=tensors, manifest=manifest), []))
    finally:
        lock.release()


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
