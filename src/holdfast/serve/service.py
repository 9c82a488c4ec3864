"""A durable learner that many ask and one thread changes."""

import asyncio
import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from holdfast.durable import DurableLearner
from holdfast.durable.history import Kept, kept, named
from holdfast.durable.repairs import roll_back
from holdfast.errors import HoldfastError, InputError, LabelError, WriteError
from holdfast.nets import recipe
from holdfast.serve.limits import Limits
from holdfast.serve.pixels import Pixels
from holdfast.serve.refusals import Refused

Result = TypeVar("Result")
Job = tuple[Callable[[], Any], Future[Any]]

LOG = logging.getLogger("holdfast.serve")
STOPPING = "the service is stopping"


class Service:
    """Questions are answered from versions and do not wait; changes are made one after the other by one thread.

    More processes would not help: a learner has one writer, and answers run beside it in threads.
    """

    def __init__(self, folder: Path, opened: Callable[[], DurableLearner], limits: Limits, name: str) -> None:
        self.folder, self.limits, self.name = folder, limits, name
        self.pixels = Pixels(limits)
        self._opened = opened
        self.learner = opened()
        self._has_folder = True  # not after a roll back whose learner could not be opened: it only answers then
        self.closing = threading.Event()
        self._ended = False  # nothing is taken from the queue any more
        self._flaw: WriteError | None = None  # of closing
        self._jobs: queue.Queue[Job | None] = queue.Queue(limits.queue)
        self._writer = threading.Thread(target=self._write, name="writer", daemon=True)
        self._writer.start()

    @property
    def waiting(self) -> int:
        """Changes in the queue."""
        return self._jobs.qsize()

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one sample; empty where anything may come."""
        learner = self.learner
        if (encoder := learner.frozen_encoder) is not None:
            return () if encoder.size is None else (3, *encoder.size)
        if (template := learner.sample_template) is not None:
            return tuple(template.shape[1:])
        made = recipe(learner.net.encoder.module)
        return () if made is None else tuple(made["shape"])

    @property
    def takes_floats(self) -> bool:
        """Rather than bytes, as of pictures."""
        template = None if self.learner.frozen_encoder is not None else self.learner.sample_template
        return len(self.shape) != 3 if template is None else template.is_floating_point()

    def kept(self) -> list[Kept]:
        """The checkpoints that can be gone back to, the latest first."""
        return kept(self.folder)

    async def change(self, work: Callable[[DurableLearner], Result]) -> Result:
        """What `work` returns, when its change is safe on the disk. Whoever asked may go: it is made all the same."""
        return await self._submit(lambda: work(self.learner))

    async def learn(
        self, key: str | None, labels: list[Any], work: Callable[[DurableLearner], None]
    ) -> tuple[int, bool]:
        """After how many steps the batch has been learned, and whether that was done before, under the same key."""

        def learn(learner: DurableLearner) -> tuple[int, bool]:
            before = None if key is None else learner.keys.step(key)
            fresh = set(labels) - set(learner.classes)
            if before is None and len(learner.classes) + len(fresh) > self.limits.classes:
                raise LabelError(f"there is room for {self.limits.classes} classes, and no more: --max-classes")
            work(learner)
            return (learner.step, False) if before is None else (before, True)

        return await self.change(learn)

    async def roll_back(self, step: int | str) -> int:
        """What is undone is kept, too."""

        def back() -> int:
            try:
                name = named(self.folder, step).name
            except InputError as error:
                raise Refused(404, str(error)) from None
            self.learner.checkpoint(spare=name)
            self._has_folder = False
            self.learner.close()
            try:
                roll_back(self.folder, name)
            finally:
                self._open_again()
            return self.learner.step

        return await self._submit(back)

    def close(self, seconds: float = 1.5) -> bool:
        """Refuses the changes that still wait, ends the one at work, then lets others have the folder.

        False if that one takes longer: it may be there afterwards, or not, as if the process had been killed.
        """
        if not self._ended:
            self._ended = True
            self.closing.set()
            with suppress(queue.Empty):
                while (job := self._jobs.get_nowait()) is not None:
                    _settle(job[1], error=Refused(503, STOPPING, Retry_After="5"))
            self._jobs.put(None)
            self._writer.join(seconds)
        if self._writer.is_alive():
            return False
        try:
            self.learner.close()
        except WriteError as error:
            self._flaw = error
        if self._flaw is not None:
            raise self._flaw
        return True

    async def _submit(self, work: Callable[[], Result]) -> Result:
        if self.closing.is_set():
            raise Refused(503, STOPPING, Retry_After="5")
        done: Future[Result] = Future()
        try:
            self._jobs.put_nowait((work, done))
        except queue.Full:
            raise Refused(429, f"{self.limits.queue} changes are waiting already", Retry_After="1") from None
        made = asyncio.wrap_future(done)
        made.add_done_callback(lambda future: future.cancelled() or future.exception())  # nobody may be left to see it
        return await asyncio.shield(made)

    def _write(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, done = job
            try:
                if not self._has_folder:
                    self._open_again()
                result = work()
            except BaseException as error:
                _settle(done, error=error)
            else:
                _settle(done, result)
            del job, work, done  # nothing of it is held until the next one comes

    def _open_again(self) -> None:
        try:
            self.learner = self._opened()
        except HoldfastError as error:
            LOG.exception("the learner cannot be opened again")
            raise Refused(
                503, "the learner cannot be opened again now; it answers as before", Retry_After="5"
            ) from error
        self._has_folder = True


def _settle(done: Future[Any], result: object = None, error: BaseException | None = None) -> None:
    """Unless nobody waits any more."""
    if not done.set_running_or_notify_cancel():
        return
    if error is None:
        done.set_result(result)
    else:
        done.set_exception(error)
