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


def roll_back(folder: str | Path, step: int) -> None:
    """Takes a durable learner back to a checkpoint that is kept.

    All that was learned since is undone. Close it with a checkpoint before, and what is undone is kept, too.

    Args:
        folder: the folder of the learner.
        step: one of the steps that `kept` lists.

    Raises:
        InputError: if this step is not kept.
        InUse: if another process has the folder.
        CheckpointError: if what is kept is damaged.
        WriteError: if it cannot be written; the learner is as before then.

    Examples:
        >>> import numpy as np, holdfast
        >>> with holdfast.open("birds", holdfast.mlp((2,)), holdfast.ERACE(), memory=100, keep=3) as learner:
        ...     for step in range(2):
        ...         learner.observe(np.array([[0.0, 1.0], [1.0, 0.0]]), ["wren", "kite"])
        ...         learner.checkpoint()
        >>> holdfast.roll_back("birds", 1)
        >>> holdfast.open("birds").step
        1
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
