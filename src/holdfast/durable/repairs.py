"""A durable learner that is damaged, or has learned what it should not have, made to go on from an earlier moment."""

import os
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import accumulate, chain, count, takewhile
from pathlib import Path

from holdfast.arguments import whole
from holdfast.durable import log
from holdfast.durable.history import named
from holdfast.durable.inspection import past
from holdfast.durable.snapshot import BEFORE_REPAIR, KEPT, LEARNER, Place, Snapshot, read, refuse_saved, take
from holdfast.durable.verification import verify
from holdfast.errors import CheckpointError, HoldfastError, InputError
from holdfast.learner import operations
from holdfast.storage import checkpoint, files
from holdfast.storage.locks import FolderLock


@dataclass(frozen=True, slots=True)
class Repair:
    """What `holdfast.repair` would do, or has done."""

    folder: Path
    damage: str | None  # what is wrong; None: nothing
    step: int  # where the learner goes on
    kept: int  # entries of the log
    lost: int  # entries that are known to have followed; there may have been more
    last_step: int  # of what is lost, as far as is known
    files: Path | None = None  # where the files are as they were before; None: nothing was changed

    @property
    def needed(self) -> bool:
        return self.damage is not None or self.lost > 0


def repair(folder: str | Path, *, to_step: int | None = None, yes: bool | Callable[[Repair], bool] = False) -> Repair:
    """Makes the damaged learner in a folder open again, with the longest intact part of its log.

    The damaged files are kept, in a folder beside them.

    Args:
        folder: of the learner.
        to_step: go back to just before the step after this one, even without any damage; at most to the last
            checkpoint.
        yes: nothing is changed unless it is True, or a function that returns True when told what would be lost.

    Returns:
        What was kept and what was lost, or would be.

    Raises:
        InUse: if another process has the folder.
        CheckpointError: if the checkpoint itself is damaged; only a kept one, or a backup, helps then.
        InputError: if the learner cannot go back to `to_step`.
    """
    path = Path(folder).absolute()
    refuse_saved(Path(folder))
    if not path.is_dir():
        raise InputError(f"there is no folder {folder}")
    lock = FolderLock(path, f"the learner in {folder}")
    try:
        found = _taken(path)
        plan, entries = _planned(found, to_step)
        if not plan.needed or not (yes(plan) if callable(yes) else yes):
            return plan
        before = _keep_as_it_is(found)
        lock.sign_off(write(found, entries))
        if found.log_file.is_file():  # with a beginning that does not say whose it is
            files.remove(found.log_file)
        return replace(plan, files=before)
    finally:
        lock.release()


def roll_back(folder: str | Path, step: int | str) -> None:
    """Takes a durable learner back to a kept checkpoint.

    Everything learned since is undone. To keep that, too, write a checkpoint before you close it. The current
    checkpoint and log may be damaged or missing; if they are not, numbers of questions asked since are not used again.

    Args:
        folder: the folder of the learner.
        step: the step of a kept checkpoint or, if several are of this step, the name of one; `kept` lists them.

    Raises:
        InputError: if no such checkpoint is kept, or several are.
        InUse: if another process has the folder.
        CheckpointError: if that checkpoint is damaged.
        WriteError: if it cannot be written; the learner is then as before.

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
    path = Path(folder).absolute()
    name = named(path, step).name
    lock = FolderLock(path, f"the learner in {folder}")
    try:
        lock.sign_off(write(_with_numbers_of(path, read(path, path / KEPT / name)), []))
    finally:
        lock.release()


def _with_numbers_of(folder: Path, found: Snapshot) -> Snapshot:
    """A question asked later must not get the number of one that is undone, whose labels may still come."""
    try:
        asked = past(take(folder)).pending.asked
    except HoldfastError:
        return found
    with checkpoint.distrust(f"the checkpoint kept in {folder}"):
        questions = found.manifest["questions"]
        questions = {**questions, "asked": max(asked, questions["asked"])}
    return replace(found, manifest={**found.manifest, "questions": questions})


def _taken(folder: Path) -> Snapshot:
    for problem in verify(folder).problems:
        if problem.file == LEARNER:
            raise CheckpointError(f"{folder / LEARNER} {problem.what}; this cannot be repaired: {problem.remedy}")
    return take(folder)


def _planned(found: Snapshot, to_step: int | None) -> tuple[Repair, list[bytes]]:
    """What is to be done, and the entries that stay."""
    reading, name = found.reading, found.place.name
    with checkpoint.distrust(found.folder / LEARNER):
        first = whole("step", found.manifest["step"])
    good = list(takewhile(lambda operation: operation is not None, map(_deed, reading.entries)))
    steps = list(accumulate(map(_steps, good), initial=first))  # after each number of entries
    damage = None if reading.flaw is None else f"{name} {reading.flaw}"
    if len(good) < len(reading.entries):
        damage = f"{name} {log.Flaw(reading.places[len(good)], 'the entry there cannot be read')}"
    if to_step is not None and whole("to_step", to_step) not in steps:
        raise InputError(f"to_step must be from {first}, its checkpoint's, to {steps[-1]}, not {to_step}")
    kept = len(good) if to_step is None else bisect_right(steps, to_step) - 1
    rest = reading.entries[kept:] + reading.following
    last = steps[kept] + sum(map(_steps, map(_deed, rest)))
    return Repair(found.folder, damage, steps[kept], kept, len(rest), last), reading.entries[:kept]


def _steps(operation: operations.Operation | None) -> int:
    """How many it takes; what cannot be read may have been one."""
    return operation is None or isinstance(operation, operations.Observed | operations.Told)


def _deed(entry: bytes) -> operations.Operation | None:
    """None if it cannot be read."""
    try:
        with checkpoint.distrust("the entry"):
            return operations.from_bytes(entry)
    except HoldfastError:
        return None


def _keep_as_it_is(found: Snapshot) -> Path:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S")
    names = chain([now], (f"{now}-{number}" for number in count(2)))
    before = next(path for name in names if not (path := found.folder / f"{BEFORE_REPAIR}{name}").exists())
    there = [found.folder / name for name in (LEARNER, found.place.name)]
    lock = found.folder / FolderLock.NAME
    there += [lock] if FolderLock.is_signature(lock) else []
    files.write_folder(before, {file.name: file.read_bytes() for file in there if file.is_file()})
    return before


def write(found: Snapshot, entries: list[bytes]) -> str:
    """A new log with these entries, then the checkpoint that names it; other logs of the learner go last."""
    place = Place.free(found.folder, found.place.identity.learner if found.place.identity else os.urandom(16))
    assert place.identity is not None
    content = log.closed(place.identity, entries)
    files.write(found.folder / place.name, content)
    files.write(found.folder / LEARNER, found.serialized(log=place.as_json()))
    for file in list(found.folder.iterdir()):
        if file.name != place.name and found.place.is_of_this_learner(file):
            files.remove(file)
    return log.closing_line(place.identity.salt, len(content) - log.FRAME.size)
