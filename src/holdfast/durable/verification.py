"""Whether every byte of a durable learner is right, and if not, which is the first that is wrong."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn
from torch.optim import SGD

from holdfast import machine
from holdfast.augment import BUILT_IN, Augment
from holdfast.durable import history, log
from holdfast.durable.history import kept
from holdfast.durable.inspection import Past
from holdfast.durable.snapshot import (
    BEFORE_REPAIR,
    KEPT,
    LEARNER,
    LEFT_BEHIND,
    LOG,
    Place,
    Snapshot,
    is_left_behind,
    read,
    take,
)
from holdfast.errors import CheckpointError, HoldfastError, InputError
from holdfast.learner import Learner, operations
from holdfast.learner.parts import MakeOptimizer, check_parts
from holdfast.learner.soundness import check_values
from holdfast.learner.state import at_checkpoint, restored
from holdfast.memory.codecs import Codec, find
from holdfast.methods import METHODS, Method
from holdfast.storage import checkpoint
from holdfast.storage.locks import FolderLock, user


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, where, and what can be done."""

    file: str
    offset: int | None  # of the first byte that is not right, or of the entry it is in; None: of the whole file
    what: str
    remedy: str

    def __str__(self) -> str:
        where = "" if self.offset is None else f" at byte {self.offset}"
        return f"{self.file}{where}: {self.what}"


@dataclass(frozen=True, slots=True)
class Verification:
    """What `holdfast.verify` finds."""

    folder: Path
    step: int | None  # where the learner would go on; None if it cannot
    entries: int  # of the log, that are right
    problems: tuple[Problem, ...]  # the first of them comes first
    notes: tuple[str, ...]  # what is fine and yet worth knowing

    @property
    def ok(self) -> bool:
        return not self.problems


def verify(
    folder: str | Path,
    *,
    deep: bool = False,
    encoder: nn.Module | None = None,
    method: Method | None = None,
    optimizer: MakeOptimizer | None = None,
    augment: Augment | None = None,
    codec: Codec | None = None,
) -> Verification:
    """Checks every byte of the learner in a folder, without a lock and without changing anything.

    It checks the checkpoint's checksum and consistency, the beginning of the log, the chain of its entries and each of
    them, and the checksums of the kept checkpoints.

    Args:
        folder: of the learner.
        deep: also repeat the log, which takes as long as `holdfast.open`.
        encoder: the encoder, if it is not built in; without it less can be checked, and a note says so.
        method: the method, if it is not built in.
        optimizer: makes the optimizer, if it is not the built-in SGD.
        augment: the augmentation, if there is one.
        codec: the codec of the memory, if it is not built in.

    Returns:
        Whether all is right (`ok`), what is wrong and where (`problems`), and what is worth knowing (`notes`).

    Raises:
        InputError: if an argument is wrong.

    Examples:
        >>> import numpy as np, holdfast
        >>> with holdfast.open("weather", holdfast.mlp((2,)), holdfast.ERACE(), memory=100) as learner:
        ...     learner.observe(np.array([[0.0, 1.0], [1.0, 0.0]]), ["up", "right"])
        >>> found = holdfast.verify("weather")
        >>> found.ok, found.step, found.problems, found.notes
        (True, 1, (), ())
    """
    folder = Path(folder)
    check_parts(encoder, method, augment, optional=True)
    parts: dict[str, Any] = {"method": method, "optimizer": optimizer, "augment": augment, "codec": codec}
    parts["encoder"] = copy.deepcopy(encoder)  # it takes the weights of the checkpoint
    try:
        return _Check(take(folder), parts, deep).result()
    except CheckpointError as error:
        what = str(error).removeprefix(f"{folder / LEARNER} ")
    except InputError:
        if not any(log.identity_of(file) for file in folder.glob("log.*")):
            raise
        what = "is missing"
    damaged = list(_damaged_among_kept(folder))
    problem = Problem(LEARNER, None, what, _without_checkpoint(folder, damaged))
    return Verification(folder, None, 0, (problem, *damaged), tuple(strangers(folder)))


class _Check:
    def __init__(self, found: Snapshot, parts: dict[str, Any], deep: bool) -> None:
        self._found = found
        self._past: Past | None = None
        self._learner: Learner | None = None
        self._parts, self._deep = parts, deep
        self._right = 0  # entries
        self._notes: list[str] = []

    def result(self) -> Verification:
        damaged = list(_damaged_among_kept(self._found.folder))
        problem = self._of_checkpoint(damaged) or self._of_log()
        step = None if self._past is None else self._past.step
        if problem is None:
            self._notes += notes_on_log(self._found)
        notes = [*self._notes, *strangers(self._found.folder, self._found.place)]
        problems = [problem, *damaged] if problem else damaged
        return Verification(self._found.folder, step, self._right, tuple(problems), tuple(notes))

    def _of_checkpoint(self, damaged: list[Problem]) -> Problem | None:
        values = self._found.manifest
        try:
            with checkpoint.distrust("its content"):
                check_values(values)
                past = Past(self._found)
                if lacking := list(_lacking(values, self._parts)):
                    own = " and ".join(lacking)
                    self._notes.append(
                        f"its {own} cannot be checked without yours, nor its log repeated: holdfast.verify takes it"
                    )
                else:
                    parts = self._parts | {"method": at_checkpoint(self._parts["method"], values)}
                    self._learner = restored(Learner, self._found.tensors, values, **parts)
                    if blank := self._learner.memory.undecodable:
                        self._notes.append(f"{blank} samples in its memory cannot be decoded and count as blank")
        except HoldfastError as error:
            return Problem(LEARNER, None, str(error), _without_checkpoint(self._found.folder, damaged))
        self._past = past
        return None

    def _of_log(self) -> Problem | None:
        """Of the first entry that is not right, if there is one, or of what follows the last that is whole."""
        reading, past = self._found.reading, self._past
        assert past is not None
        for entry, place in zip(reading.entries, reading.places, strict=True):
            option = ""
            try:
                with checkpoint.distrust("the entry"):
                    operation = operations.from_bytes(entry)
                    if self._deep and self._learner is not None:
                        option = f" --to-step {past.step}"  # the entry itself is whole
                        self._learner.repeat(operation)
                    past.add(operation)
            except HoldfastError as error:
                return self._problem_with_log(place, f"entry {self._right + 1} cannot be repeated: {error}", option)
            self._right += 1
        flaw = reading.flaw
        return None if flaw is None else self._problem_with_log(flaw.offset, flaw.what)

    def _problem_with_log(self, offset: int | None, what: str, option: str = "") -> Problem:
        assert self._past is not None
        kept = f"the {self._right} entries before it" if self._right else "the checkpoint"
        command = f"holdfast learner repair {self._found.folder}{option}"
        remedy = f"{command} keeps {kept}, up to step {self._past.step}; a backup may have more"
        return Problem(self._found.place.name, offset, what, remedy)


def _damaged_among_kept(folder: Path) -> Iterator[Problem]:
    for each in kept(folder):
        file = folder / KEPT / each.name
        try:
            read(folder, file)
        except CheckpointError as error:
            if file.exists():  # it may be gone meanwhile
                what = str(error).removeprefix(f"{file} ")
                remedy = "the learner does not need it, but cannot go back to it: remove it"
                yield Problem(f"{KEPT}/{file.name}", None, what, remedy)


def _without_checkpoint(folder: Path, damaged: list[Problem]) -> str:
    """What can be done."""
    useless = {problem.file for problem in damaged}
    names = [each.name for each in kept(folder) if f"{KEPT}/{each.name}" not in useless]
    if names:
        name = names[0] if names[0].isdecimal() else repr(names[0])
        return f"holdfast.roll_back({str(folder)!r}, {name}) goes back to step {names[0]}, which is kept"
    return "a log alone is not enough to go on: bring the folder back from a backup"


def _lacking(values: checkpoint.Manifest, parts: dict[str, Any]) -> Iterator[str]:
    """What was not built in and is not given."""
    if parts["encoder"] is None and values["settings"]["net"] is None:
        yield "encoder"
    if parts["method"] is None and values["method"]["name"] not in {kind.__name__ for kind in METHODS.values()}:
        yield "method"
    if parts["optimizer"] is None and values["optimizer"]["kind"] != SGD.__name__:
        yield "optimizer"
    if parts["augment"] is None and values["settings"]["augment"] not in (None, *BUILT_IN):
        yield "augmentation"
    if parts["codec"] is None and values["memory"].get("codec") is not None:
        try:
            find(values["memory"]["codec"])
        except InputError:
            yield "codec"


def notes_on_log(found: Snapshot) -> Iterator[str]:
    """What is fine about a log and yet worth knowing."""
    reading, name = found.reading, found.place.name
    if (signed := user(found.folder)) is not None:
        pid, host = signed
        yield f"in use by process {pid}" + (f" on {host}" if host else "")
        return
    if found.place.identity is None:
        yield f"{name} was written by version 0.1.0: the next opening writes the learner anew"
    elif not reading.sealed:
        yield f"{name} is not sealed: the process that wrote it did not close the learner"
    if torn := len(found.log_bytes) - reading.end:
        yield f"{name} ends with {torn} bytes of an entry that was never acknowledged; they are left out"
    moved = machine.differences(machine.conditions(), found.manifest.get("conditions", {}))
    if reading.entries and moved:
        yield f"{name} was written elsewhere ({moved}): what is repeated may differ in its last bits"


def strangers(folder: Path, place: Place | None = None) -> Iterator[str]:
    """Files that are not the learner's, or not any more."""
    ours = {LEARNER} if place is None else {LEARNER, place.name}
    in_use = user(folder) is not None
    for file in sorted(folder.iterdir()):
        name = file.name if file.name.isprintable() else repr(file.name)  # anybody may have named it
        if file.name in ours or (file.name == KEPT and file.is_dir()) or FolderLock.is_signature(file):
            continue
        if in_use and (LOG.fullmatch(file.name) or LEFT_BEHIND.fullmatch(file.name)):
            continue  # these come and go
        if file.is_dir() and file.name.startswith(BEFORE_REPAIR):
            yield f"{name} holds the files from before a repair; remove it when you do not need them any more"
        elif is_left_behind(file):
            yield f"{name} is unfinished, of a writer that was killed; opening removes it"
        elif place is not None and place.is_of_this_learner(file):
            yield f"{name} is a log that the learner does not need any more; opening removes it"
        else:
            known = "is not the learner's" if place is not None else "cannot be told to be the learner's or not"
            yield f"{name} {known}; it is left alone"
    for name in history.strangers(folder):
        shown = name if name.isprintable() else repr(name)
        yield f"{KEPT}/{shown} is not a checkpoint that was kept; it is left alone"
