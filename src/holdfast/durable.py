"""A learner that lives in a folder: what it has acknowledged survives its process and the power."""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from torch import Tensor, nn

from holdfast import checkpoint, deeds
from holdfast.arguments import NOT_NEGATIVE, Range, real, whole
from holdfast.augment import Augment
from holdfast.class_index import Journal
from holdfast.errors import CheckpointError, InputError, LabelError, WriteError
from holdfast.home import LEARNER, Home
from holdfast.labels import encode
from holdfast.learner import Learner
from holdfast.memory import Memory
from holdfast.methods.base import Method
from holdfast.parts import MakeOptimizer, check_optimizer, check_parts


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
    sync_every = real("sync_every", sync_every, NOT_NEGATIVE)
    checkpoint_every = whole("checkpoint_every", checkpoint_every, Range(least=1))
    check_parts(encoder, method, augment, optional=True)
    check_optimizer(lr, optimizer)
    given = {"memory": memory, "lr": lr, "seed": seed, "classes": classes, "questions": questions}
    settings = {name: value for name, value in given.items() if value is not None}

    def new() -> DurableLearner:
        if encoder is None or method is None:
            raise InputError(f"there is no learner in {path} yet: give it an encoder and a method")
        learner = DurableLearner(encoder, method, optimizer=optimizer, augment=augment, **settings)  # type: ignore[arg-type]
        learner.serialized()  # or an error
        return learner

    fresh = None if (Path(path) / LEARNER).exists() else new()  # before there is a folder, in case it is refused
    home = Home(Path(path), sync_every, checkpoint_every)
    try:
        if home.is_new:
            learner = fresh or new()
            home.start_anew(learner._with_log)
        else:
            parts: dict[str, Any] = {"encoder": encoder, "method": method, "optimizer": optimizer, "augment": augment}
            learner = DurableLearner.load(home.learner_file, **parts)
            _check_fit(learner, settings)
            entries = home.entries()
            with checkpoint.distrust(f"the log in {path}"):
                for entry in entries:
                    learner.repeat(deeds.from_bytes(entry))
            home.go_on(learner._with_log, repeated=len(entries))
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

    def _check_labels(self, y: object, samples: Tensor) -> list[Hashable]:
        labels = super()._check_labels(y, samples)
        try:
            for label in labels:
                encode(label)
        except CheckpointError as error:
            raise LabelError(f"y: {error}") from None
        return labels

    def _with_log(self, number: int) -> bytes:
        return self.serialized(log=number)

    def _commit(self, deed: deeds.Deed | None) -> None:
        if self._home is None:
            return
        if deed is None:  # something was erased: nothing on the disk may know of it any more
            self._home.start_anew(self._with_log)
        else:
            self._home.keep(deeds.to_bytes(deed))


def _check_fit(learner: Learner, settings: dict[str, Any]) -> None:
    there = learner.settings
    if (memory := settings.get("memory")) is not None:
        settings["memory"] = (memory if isinstance(memory, Memory) else type(learner.memory)(memory)).settings
    for name, value in settings.items():
        if value != there[name]:
            raise CheckpointError(
                f"{name} does not fit the learner in the folder: {value} here and {there[name]} there"
            )
