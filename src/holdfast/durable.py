"""A learner that lives in a folder: what it has acknowledged survives its process and the power."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from torch import nn

from holdfast import checkpoint, deeds, machine
from holdfast.augment import Augment
from holdfast.class_index import Journal
from holdfast.errors import CheckpointError, InputError, OtherBits, WriteError
from holdfast.home import Home
from holdfast.learner import Learner, MakeOptimizer
from holdfast.memory import Memory
from holdfast.methods.base import Method


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
    questions: int | None = None,
) -> "DurableLearner":
    """The learner that lives in the folder `path`; made if there is none, recovered if its process was killed.

    When `observe` returns, the batch survives kill -9 and power loss; with `sync_every` seconds above 0 a power loss
    may take the batches of the last so many seconds. After `checkpoint_every` changes the learner is written as a
    whole and the log of changes starts anew: recovering repeats at most so many. What is not built in (an encoder or
    method of your own) is passed each time; other settings are known to the folder, and have to fit if given.
    """
    if sync_every < 0 or checkpoint_every < 1:
        raise InputError("sync_every must be 0 or more, checkpoint_every 1 or more")
    given = {"memory": memory, "lr": lr, "seed": seed, "classes": classes, "questions": questions}
    settings = {name: value for name, value in given.items() if value is not None}
    home = Home(Path(path), sync_every, checkpoint_every)
    try:
        if home.is_new:
            if encoder is None or method is None:
                raise InputError(f"there is no learner in {path} yet: give it an encoder and a method")
            learner = DurableLearner(encoder, method, optimizer=optimizer, augment=augment, **settings)  # type: ignore[arg-type]
            home.start_anew(learner._with_log)
        else:
            parts: dict[str, Any] = {"encoder": encoder, "method": method, "optimizer": optimizer, "augment": augment}
            learner = DurableLearner.load(home.learner_file, **parts)
            _check_fit(learner, settings)
            entries = home.entries()
            moved = machine.differences(machine.conditions(learner.device.type), home.conditions)
            if entries and moved:
                note = "what is repeated from it may differ in its last bits"
                warnings.warn(f"the log in {path} was written elsewhere ({moved}): {note}", OtherBits, stacklevel=2)
            with checkpoint.distrust(f"the log in {path}"):
                for entry in entries:
                    learner.repeat(deeds.from_bytes(entry))
            home.go_on(learner._with_log, anew=bool(entries or moved))
    except BaseException:
        home.leave()
        raise
    learner._home = home
    return learner


class DurableLearner(Learner):
    """Made by `holdfast.open`.

    A change that cannot be written does not happen; questions are answered all the same.
    """

    _home: Home | None = None  # none while the deeds of an earlier process are repeated

    def checkpoint(self) -> None:
        """Writes the learner as it is; the log of changes starts anew."""
        if self._home is not None:
            with self._turn, self._desk:
                self._home.start_anew(self._with_log)

    def close(self) -> None:
        """Lets other processes have it. Questions are still answered, but no change is accepted any more.

        What was acknowledged is safe then, whatever `sync_every` is; if it may not be, there is an error.
        """
        if self._home is not None:
            with self._turn, self._desk:
                try:
                    self._home.mend(self._with_log)
                finally:
                    self._home.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *how: object) -> None:
        self.close()

    def __del__(self) -> None:
        with suppress(WriteError):
            self.close()

    @contextmanager
    def _change(self) -> Iterator[Journal]:
        with self._turn:
            if self._home is None:
                with super()._change() as journal:
                    yield journal
                return
            if self._home.log_is_full:
                self.checkpoint()
            with self._home.all_or_nothing(), super()._change() as journal:
                yield journal

    def _take(self, question: deeds.Asked) -> int:
        if self._home is None:
            return super()._take(question)
        if self._home.log_is_full:
            self.checkpoint()
        with self._desk, self._home.all_or_nothing():
            return super()._take(question)

    def _with_log(self, number: int) -> bytes:
        return self.serialized(log=number, conditions=machine.conditions(self.device.type))

    def _commit(self, deed: deeds.Deed | None) -> None:
        if self._home is None:
            return
        if deed is None:  # something was erased: nothing on the disk may know of it any more
            self._home.start_anew(self._with_log)
        else:
            self._home.keep(deeds.to_bytes(deed))


def _check_fit(learner: Learner, settings: dict[str, Any]) -> None:
    there = learner.settings
    if isinstance(settings.get("memory"), int):
        settings["memory"] = type(learner.memory)(settings["memory"])
    if isinstance(memory := settings.get("memory"), Memory):
        settings["memory"] = memory.settings
    for name, value in settings.items():
        if value != there[name]:
            raise CheckpointError(
                f"{name} does not fit the learner in the folder: {value} here and {there[name]} there"
            )
