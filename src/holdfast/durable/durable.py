"""A learner that lives in a folder: what it has acknowledged survives its process and the power."""

import warnings
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from torch import Tensor, nn

from holdfast import machine
from holdfast.arguments import Range, real, whole
from holdfast.augment import Augment
from holdfast.durable.folder import LEARNER, Folder
from holdfast.errors import CheckpointError, InputError, LabelError, OtherBits
from holdfast.learner import Learner, operations
from holdfast.learner.labels import encode
from holdfast.learner.parts import MakeOptimizer, check_optimizer, check_parts
from holdfast.learner.state import restored
from holdfast.memory import Memory
from holdfast.memory.class_index import Journal
from holdfast.methods.base import Method
from holdfast.storage import checkpoint

DAY = 86_400


def open(
    path: str | Path,
    encoder: nn.Module | None = None,
    method: Method | None = None,
    *,
    sync_every: float = 0.0,
    checkpoint_every: int = 1000,
    memory: int | Memory | None = None,
    lr: float | None = None,
    optimizer: MakeOptimizer | None = None,
    augment: Augment | None = None,
    seed: int | None = None,
    classes: int | None = None,
    pending: int | None = None,
) -> "DurableLearner":
    """The learner that lives in the folder `path`; made if there is none, recovered if its process was killed.

    When `observe` returns, the batch survives kill -9 and power loss; with `sync_every` seconds above 0 a power loss
    may take the batches of the last so many seconds. After `checkpoint_every` changes the learner is written as a
    whole and the log of changes starts anew: recovering repeats at most so many. What is not built in (an encoder or
    method of your own) is passed each time; other settings are known to the folder, and have to fit if given.
    """
    sync_every = real("sync_every", sync_every, Range(least=0, most=DAY))
    checkpoint_every = whole("checkpoint_every", checkpoint_every, Range(least=1))
    check_parts(encoder, method, augment, optional=True)
    check_optimizer(lr, optimizer)
    given = {"memory": memory, "lr": lr, "seed": seed, "classes": classes, "pending": pending}
    settings = {name: value for name, value in given.items() if value is not None}

    def new() -> DurableLearner:
        if encoder is None or method is None:
            raise InputError(f"there is no learner in {path} yet: give it an encoder and a method")
        learner = DurableLearner(encoder, method, optimizer=optimizer, augment=augment, **settings)  # type: ignore[arg-type]
        learner.serialized()  # or an error
        return learner

    fresh = None if (Path(path) / LEARNER).exists() else new()  # before there is a folder, in case it is refused
    folder = Folder(Path(path), sync_every, checkpoint_every)
    try:
        if folder.is_new:
            learner = fresh or new()
            folder.checkpoint(learner._in_folder)
        else:
            parts: dict[str, Any] = {"encoder": encoder, "method": method, "optimizer": optimizer, "augment": augment}
            tensors, manifest, entries = folder.read()
            with checkpoint.distrust(folder.learner_file):
                learner = restored(DurableLearner, tensors, manifest, **parts)
                moved = machine.differences(machine.conditions(learner.device.type), manifest.get("conditions", {}))
            _check_fit(learner, settings)
            if entries and moved:
                note = "what is repeated from it may differ in its last bits"
                warnings.warn(f"the log in {path} was written elsewhere ({moved}): {note}", OtherBits, stacklevel=2)
            with checkpoint.distrust(f"the log in {path}"):
                for entry in entries:
                    learner.repeat(operations.from_bytes(entry))
            folder.go_on(learner._in_folder, anew=bool(entries or moved))
    except BaseException:
        folder.abandon()
        raise
    learner._folder = folder
    return learner


class DurableLearner(Learner):
    """Made by `holdfast.open`.

    A change that cannot be written does not happen; questions are answered all the same.
    """

    _folder: Folder | None = None  # none while the deeds of an earlier process are repeated

    def checkpoint(self) -> None:
        """Writes the learner as it is; the log of changes starts anew."""
        if self._folder is not None:
            with self._change_lock, self._pending_lock:
                self._folder.checkpoint(self._in_folder)

    def close(self) -> None:
        """Lets other processes have it. Questions are still answered, but no change is accepted any more.

        What was acknowledged is safe then, whatever `sync_every` is; if it may not be, there is an error.
        """
        if self._folder is not None:
            with self._change_lock, self._pending_lock:
                self._folder.leave(self._in_folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *how: object) -> None:
        self.close()

    def __copy__(self) -> Self:
        raise InputError("a folder has one learner: learner.save(file) and Learner.load(file) give another without one")

    def __deepcopy__(self, memo: object) -> Self:
        return self.__copy__()

    def __del__(self) -> None:
        """Lets others have the folder; nothing is written, because Python itself may be ending."""
        with suppress(Exception):
            if self._folder is not None:
                self._folder.abandon()

    @contextmanager
    def _change(self) -> Iterator[Journal]:
        with self._change_lock:
            if self._folder is None:
                with super()._change() as journal:
                    yield journal
                return
            if self._folder.wants_checkpoint:
                self.checkpoint()
            try:
                with self._folder.all_or_nothing(), super()._change() as journal:
                    yield journal
            except BaseException:
                self._folder.go_back(self._in_folder)
                raise

    def _take(self, question: operations.Asked) -> int:
        if self._folder is None:
            return super()._take(question)
        if self._folder.needs_checkpoint:  # a log that is only full is the next change's business: nobody waits for it
            self.checkpoint()
        try:
            with self._pending_lock, self._folder.all_or_nothing():
                return super()._take(question)
        except BaseException:
            with self._change_lock, self._pending_lock:
                self._folder.go_back(self._in_folder)
            raise

    def _check_labels(self, y: object, samples: Tensor) -> list[Hashable]:
        labels = super()._check_labels(y, samples)
        try:
            for label in labels:
                encode(label)
        except CheckpointError as error:
            raise LabelError(f"y: {error}") from None
        return labels

    def _in_folder(self, **manifest: Any) -> bytes:
        return self.serialized(conditions=machine.conditions(self.device.type), **manifest)

    def _commit(self, operation: operations.Operation | None) -> None:
        if self._folder is None:
            return
        if operation is None:  # something was erased: nothing on the disk may know of it any more
            self._folder.checkpoint(self._in_folder)
        else:
            self._folder.keep(operations.to_bytes(operation))


def _check_fit(learner: Learner, settings: dict[str, Any]) -> None:
    there = learner.settings
    if (memory := settings.get("memory")) is not None:
        settings["memory"] = (memory if isinstance(memory, Memory) else type(learner.memory)(memory)).settings
    for name, value in settings.items():
        if value != there[name]:
            raise CheckpointError(
                f"{name} does not fit the learner in the folder: {value} here and {there[name]} there"
            )
