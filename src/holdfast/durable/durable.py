"""A learner that lives in a folder: what it has acknowledged survives its process and the power."""

import copy
import warnings
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from holdfast import machine
from holdfast.arguments import Range, real, whole
from holdfast.augment import Augment
from holdfast.batch import Batch
from holdfast.durable import backups, history
from holdfast.durable.adoption import conditions, with_conditions
from holdfast.durable.folder import Folder, LogHasEnded
from holdfast.durable.log import LARGEST_ENTRY
from holdfast.durable.snapshot import LEARNER, Snapshot, refuse_saved, take
from holdfast.errors import CheckpointError, InputError, LabelError, OtherBits, WriteError
from holdfast.learner import Learner, operations
from holdfast.learner.adjustments import ADJUSTABLE
from holdfast.learner.labels import encode
from holdfast.learner.parts import (
    DEFAULT_METHOD,
    MakeOptimizer,
    as_method,
    check_clip,
    check_optimizer,
    check_parts,
    memory_of,
)
from holdfast.learner.progress import check_window, new_tally
from holdfast.learner.state import at_checkpoint, restored
from holdfast.learner.transaction import Result, nothing
from holdfast.memory import Memory
from holdfast.memory.class_index import Journal
from holdfast.methods.base import Method
from holdfast.nets.structure import changed, structure
from holdfast.seeds import torch_seeded
from holdfast.storage import checkpoint

CHECKPOINT_EVERY = 1000
DAY = 86_400


def open(
    path: str | Path,
    encoder: nn.Module | None = None,
    method: Method | str | None = None,
    *,
    read_only: bool = False,
    sync_every: float = 0.0,
    checkpoint_every: int = CHECKPOINT_EVERY,
    keep: int = 0,
    memory: int | str | Memory | None = None,
    lr: float | None = None,
    optimizer: MakeOptimizer | None = None,
    augment: Augment | None = None,
    seed: int | None = None,
    classes: int | None = None,
    pending: int | None = None,
    average: float | None = None,
    clip_samples: float | None = None,
    progress: int | None = None,
    updates: int | None = None,
    standardise: bool | None = None,
) -> "DurableLearner":
    """Opens the learner in a folder.

    It is created if there is none, and recovered if its process was killed. When `observe` returns, the batch
    survives kill -9 and power loss.

    Args:
        path: the folder. One process at a time can have it.
        encoder: the encoder; needed for a new learner, and each time if it is not built in.
        method: the method, `Holdfast()` by default; each time if it is not built in.
        read_only: nothing is written or locked. The learner answers from its last acknowledged state, on a full
            or read-only disk, from a backup, or beside the process that has it, and refuses every change.
        sync_every: with seconds above 0, a power loss may cost the batches of that many last seconds.
        checkpoint_every: after so many changes the learner is written as a whole and the log of changes starts anew,
            so that recovering repeats at most so many.
        keep: how many of the last checkpoints stay, for `holdfast.roll_back` to go back to. Whenever something is
            forgotten, those from before are erased.
        memory: as for `Learner`; passed each time if it has a codec of your own.
        lr: as for `Learner`.
        optimizer: as for `Learner`; passed each time.
        augment: as for `Learner`; passed each time.
        seed: as for `Learner`.
        classes: as for `Learner`.
        pending: as for `Learner`.
        average: as for `Learner`.
        clip_samples: as for `Learner`; if given, it holds from now on.
        progress: as for `Learner`; if given, it holds from now on.
        updates: as for `Learner`.
        standardise: as for `Learner`.

    Returns:
        The learner, which is also a context manager that closes it. Settings that are given have to fit those in the
        folder.

    Raises:
        InUse: if another process has the folder.
        CheckpointError: if the folder is damaged, or what was passed does not fit; `holdfast.repair` may help.
        InputError: if an argument is wrong or the folder holds something else.

    Examples:
        >>> import numpy as np, holdfast
        >>> with holdfast.open("birds", holdfast.mlp((2,)), holdfast.ERACE(), memory=100) as learner:
        ...     learner.observe(np.array([[0.0, 1.0], [1.0, 0.0]]), ["wren", "kite"])
        >>> holdfast.open("birds").classes
        ['wren', 'kite']
    """
    if read_only and (sync_every or keep or checkpoint_every != CHECKPOINT_EVERY or progress is not None):
        raise InputError(
            "sync_every, checkpoint_every, keep and progress are for learners that may change, not for read_only"
        )
    sync_every = real("sync_every", sync_every, Range(least=0, most=DAY))
    checkpoint_every = whole("checkpoint_every", checkpoint_every, Range(least=1))
    keep = whole("keep", keep)
    refuse_saved(Path(path))
    if isinstance(encoder, Learner):
        raise InputError("encoder must be an nn.Module; a learner is given a folder by holdfast.adopt(learner, folder)")
    method = as_method(method)
    check_parts(encoder, method, augment, optional=True)
    check_optimizer(lr, optimizer)
    clip_samples = check_clip(clip_samples)
    progress = None if progress is None else check_window(progress)
    given = {"memory": memory, "lr": lr, "seed": seed, "classes": classes, "pending": pending}
    given |= {"average": average, "updates": updates, "standardise": standardise}
    settings: dict[str, Any] = {name: value for name, value in given.items() if value is not None}

    parts: dict[str, Any] = {"encoder": encoder, "method": method, "optimizer": optimizer, "augment": augment}
    parts["codec"] = memory.codec if isinstance(memory, Memory) else None
    if read_only:
        return _to_read(Path(path), parts, settings, clip_samples)

    def new() -> DurableLearner:
        if encoder is None:
            raise InputError(f"there is no learner in {path} yet: give it an encoder")
        others: dict[str, Any] = {"optimizer": optimizer, "clip_samples": clip_samples}
        others["augment"] = "usual" if augment is None else augment
        others["progress"] = progress or 0
        learner = DurableLearner(encoder, method or DEFAULT_METHOD, **others, **settings)
        learner.serialized()  # or an error
        return learner

    if keep:
        history.check_place(Path(path))
    fresh = None if (Path(path) / LEARNER).exists() else new()  # before there is a folder, in case it is refused
    folder = Folder(Path(path), sync_every, checkpoint_every)
    try:
        if folder.is_new:
            learner = fresh or new()
            learner._keep = keep
            learner._write(folder)
        else:
            learner = _recovered(folder, parts, settings, clip_samples, progress)
            learner._keep = keep
    except BaseException:
        folder.abandon()
        raise
    learner._folder = folder
    return learner


class DurableLearner(Learner):
    """Made by `holdfast.open`.

    A change that cannot be written does not happen; questions are answered all the same.
    """

    _folder: Folder | None = None  # none while the operations of an earlier process are repeated
    _written_at = 0  # the step of the last whole copy
    _read_from: Path | None = None  # the folder, if it was opened to be read only
    _keep = 0  # how many whole copies stay

    def checkpoint(self, *, spare: int | str | None = None) -> None:
        """Writes the whole learner; the log of changes starts anew.

        Args:
            spare: the step or name of a kept checkpoint that stays even if it would be the next to be removed.

        Raises:
            WriteError: if it cannot be written; the earlier one is still there.
        """
        if self._folder is not None:
            self.at_rest(partial(self._write, self._folder, spare))

    def close(self) -> None:
        """Frees the folder for other processes. Questions are still answered, but no more changes are accepted.

        Raises:
            WriteError: if what was acknowledged may not be safe. Without it, it is, whatever `sync_every` is.
        """
        if self._folder is not None:
            self.at_rest(partial(self._folder.leave, self._in_folder))

    def backup(self, target: str | Path) -> None:
        """Writes the learner as it is into a new folder, whole or not at all.

        The copy is a learner of its own. It can be made even where the folder of this one cannot be written any more.

        Args:
            target: the new folder.

        Raises:
            InputError: if `target` exists.
            WriteError: if it cannot be written.
        """
        self.at_rest(partial(backups.write, Path(target), partial(with_conditions, self)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *how: object) -> None:
        self.close()

    def __copy__(self) -> Self:
        raise InputError("a folder has one learner: learner.save(file) and Learner.load(file) give another without one")

    def __deepcopy__(self, memo: object) -> Self:
        return self.__copy__()

    def __reduce_ex__(self, protocol: object) -> Any:
        return self.__copy__()

    def __del__(self) -> None:
        """Lets others have the folder; nothing is written, because Python itself may be ending."""
        try:
            if self._folder is not None:
                self._folder.abandon()
        except Exception:  # where Python ends, `suppress` may be gone
            pass

    def _change(
        self,
        operation: operations.Operation | None,
        work: Callable[[Journal], Result],
        close: Callable[[Journal], object] = nothing,
    ) -> Result:
        self._refuse_if_read_only()
        if self._folder is None:
            return super()._change(operation, work, close)
        with self._changes.turn:
            self._changes.mend()
            if self._folder.wants_checkpoint:
                self.checkpoint()
            try:
                return super()._change(operation, work, close)
            except BaseException:
                self._go_back()
                raise

    def _take(self, question: operations.Asked) -> int:
        self._refuse_if_read_only()
        if self._folder is None:
            return super()._take(question)
        if _is_large(question):
            return self._take_with_all(question)
        while True:
            if self._folder.needs_checkpoint:  # one of many entries is the next change's business: nobody waits
                self.checkpoint()
            try:
                return super()._take(question)
            except LogHasEnded:  # meanwhile, full or with a change that failed
                continue
            except BaseException:
                self._go_back()
                raise

    def _refuse_if_read_only(self) -> None:
        if self._read_from is not None:
            raise WriteError(
                f"the learner in {self._read_from} was opened with read_only: it answers, but learns nothing"
            )

    def _take_with_all(self, question: operations.Asked) -> int:
        """A question too large for the log: the learner is written as a whole."""
        numbers: list[int] = []
        self._change(question, nothing, lambda journal: numbers.append(self.pending.add(question.x, journal)))
        return numbers[0]

    def _go_back(self) -> None:
        assert self._folder is not None
        if self._folder.is_ahead:
            self.at_rest(partial(self._folder.go_back, self._in_folder))

    def _check_labels(self, y: object, samples: Tensor) -> list[Hashable]:
        labels = super()._check_labels(y, samples)
        try:
            for label in labels:
                encode(label)
        except CheckpointError as error:
            raise LabelError(f"y: {error}") from None
        return labels

    def _admit(self, samples: Tensor, labels: Sequence[Hashable], journal: Journal) -> Batch:
        is_first = self.sample_template is None
        batch = super()._admit(samples, labels, journal)
        if is_first and self._folder is not None:
            self._refuse_if_it_changes(batch.x)
        return batch

    def _refuse_if_it_changes(self, samples: Tensor) -> None:
        """An encoder that is set otherwise after a batch would not fit when the folder is opened again."""
        encoder = copy.deepcopy(self.net.encoder).train()
        before = structure(encoder.module)
        with torch_seeded(self.seed, "query", self.step, self.device), torch.no_grad():
            encoder(samples)
        if names := changed(before, structure(encoder.module)):
            raise InputError(
                f"the encoder changes {names[0]} while it learns: such a value needs a buffer, to be there again when "
                "the folder is opened"
            )

    def _way_back(self) -> str:
        if self._folder is None or self.step == self._written_at:
            return super()._way_back()
        steps = f"a step from {self._written_at} to {self.step - 1}"
        return f"close it, and holdfast.repair(folder, to_step=...) goes back to {steps}"

    def _in_folder(self, **manifest: Any) -> bytes:
        self._written_at = self.step
        return with_conditions(self, **manifest)

    def _write(self, folder: Folder, spare: int | str | None = None) -> None:
        folder.checkpoint(self._in_folder)
        self._keep_copy(folder, spare)

    def _keep_copy(self, folder: Folder, spare: int | str | None = None) -> None:
        if self._keep:
            history.keep(folder.path, self.step, folder.learner_file.read_bytes(), self._keep, spare)

    def _commit(self, operation: operations.Operation | None, journal: Journal) -> None:
        if self._folder is None:
            return
        whole = operation is None or (isinstance(operation, operations.Asked) and _is_large(operation))
        entry = b"" if whole or operation is None else operations.to_bytes(operation)
        in_log = self._folder.takes_entries and 0 < len(entry) <= LARGEST_ENTRY
        if in_log or (isinstance(operation, operations.Asked) and not whole):
            self._folder.keep(entry, journal)
        else:  # too large for the log; or nothing on the disk may know any more of what was erased
            journal.on_undo(self._folder.disown)
            if operation is None:
                history.set_aside(self._folder.path, journal)
            self._folder.checkpoint(self._in_folder)
            if operation is None:
                history.clear(self._folder.path)
            self._keep_copy(self._folder)


def _is_large(question: operations.Asked) -> bool:
    """For the log."""
    return question.x.nbytes > LARGEST_ENTRY // 2


def _recovered(
    folder: Folder,
    parts: dict[str, Any],
    settings: dict[str, Any],
    clip_samples: float | None,
    progress: int | None,
) -> DurableLearner:
    found = folder.read()
    learner, moved = _repeated(found, parts, settings)
    changed = clip_samples is not None and clip_samples != learner.clip_samples
    if changed:
        learner.clip_samples = clip_samples
    if progress is not None and progress != learner.settings["progress"]:
        learner.tally = new_tally(progress, learner, learner.tally)
        changed = True
    try:
        history.clear(folder.path)
        folder.go_on(learner._in_folder, anew=bool(found.reading.entries or moved or changed))
    except WriteError as error:
        raise WriteError(f"{error}; holdfast.open(folder, read_only=True) answers without writing") from error
    return learner


def _to_read(
    folder: Path, parts: dict[str, Any], settings: dict[str, Any], clip_samples: float | None
) -> DurableLearner:
    learner, _ = _repeated(take(folder), parts, settings)
    if clip_samples is not None:
        learner.clip_samples = clip_samples
    learner._read_from = folder
    return learner


def _repeated(found: Snapshot, parts: dict[str, Any], settings: dict[str, Any]) -> tuple[DurableLearner, str]:
    """The learner of a checkpoint and its log, and what is different where they were written."""
    entries = found.reading.sound(found.log_file)
    with checkpoint.distrust(found.folder / LEARNER):
        method = at_checkpoint(parts["method"], found.manifest)
        learner = restored(DurableLearner, found.tensors, found.manifest, **parts | {"method": method})
        moved = machine.differences(conditions(learner), found.manifest.get("conditions", {}))
    if entries and moved:
        note = "what is repeated from it may differ in its last bits"
        warnings.warn(f"the log in {found.folder} was written elsewhere ({moved}): {note}", OtherBits, stacklevel=4)
    with checkpoint.distrust(f"the log in {found.folder}"):
        learner._written_at = learner.step
        for entry in entries:
            learner.repeat(operations.from_bytes(entry))
    given = {} if parts["method"] is None else {"method": parts["method"]}
    _check_fit(learner, given | settings)
    return learner, moved


def _check_fit(learner: Learner, settings: dict[str, Any]) -> None:
    there = {"method": learner.method, **learner.settings}
    if (memory := settings.get("memory")) is not None:
        features = learner.frozen_encoder is not None
        settings["memory"] = memory_of(memory, learner.method, features=features).settings
    for name, value in settings.items():
        if value != there[name]:
            until = f", which holds until learner.change({name}=...)" if name in ADJUSTABLE else ""
            raise CheckpointError(
                f"{name} does not fit the learner in the folder: {value} here and {there[name]} there{until}"
            )
