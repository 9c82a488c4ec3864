"""Clocks that jump by years, forwards and backwards, while a learner learns and syncs."""

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self
from unittest.mock import patch

import holdfast
from holdfast.durable import DurableLearner
from reliability import durable_learner
from reliability.outcome import counted

YEAR = 365.25 * 86_400
CLOCKS = ("time", "monotonic", "perf_counter", "process_time")
SOON = 0.01  # seconds between syncs
PATIENCE = 20  # seconds of the real clock until what is to be synced soon counts as forgotten


class Clocks(ExitStack):
    """Inside, all clocks that Python code can look at show another year after each jump."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._rng = rng
        self._seconds = 0.0

    def jump(self) -> None:
        self._seconds = self._rng.uniform(-30, 30) * YEAR

    def __enter__(self) -> Self:
        for name in CLOCKS:
            self.enter_context(patch.object(time, name, self._later(getattr(time, name))))
            self.enter_context(patch.object(time, f"{name}_ns", self._later_by_nanoseconds(f"{name}_ns")))
        self.enter_context(patch.object(threading, "_time", time.monotonic))  # its own name for it
        return self

    def _later(self, clock: Callable[[], float]) -> Callable[[], float]:
        return lambda: clock() + self._seconds

    def _later_by_nanoseconds(self, name: str) -> Callable[[], int]:
        clock = getattr(time, name)
        return lambda: int(clock() + self._seconds * 1e9)


def redated(folder: Path, rng: random.Random) -> None:
    """As if its files had been written in other years."""
    for file in folder.iterdir():
        moment = rng.uniform(-30, 60) * YEAR
        os.utime(file, (moment, moment))


@counted
def clocks_jump(effort: int) -> Iterator[str | None]:
    """It learns as ever, what is to be safe soon is, and a learner that is opened again is the same."""
    with TemporaryDirectory() as name:
        *_, right = durable_learner.do(durable_learner.OPERATIONS, Path(name), checkpoint_every=durable_learner.ROOM)
    for number in range(3 * effort):
        rng = random.Random(number)
        with TemporaryDirectory() as name, Clocks(rng) as clocks:
            flaw = flaw_of_learning(Path(name), clocks, rng, sync_every=(SOON, 0, durable_learner.NEVER)[number % 3])
            if flaw is None and durable_learner.state(Path(name)) != right:
                flaw = "it is another learner than without them"
            yield f"jumps with seed {number}: {flaw}" if flaw else None


def flaw_of_learning(folder: Path, clocks: Clocks, rng: random.Random, sync_every: float) -> str | None:
    try:
        with durable_learner.opened(folder, checkpoint_every=durable_learner.ROOM, sync_every=sync_every) as learner:
            for operation in durable_learner.OPERATIONS:
                operation(learner)
                clocks.jump()
                if sync_every == SOON and not is_synced(learner):
                    return "what was to be synced soon was not"
                redated(durable_learner.folder_of(folder), rng)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def is_synced(learner: DurableLearner) -> bool:
    """Whether all of its log is, in good time."""
    assert learner._folder is not None and learner._folder._log is not None
    log = learner._folder._log._file
    waiting = threading.Event()
    for _ in range(int(PATIENCE / SOON)):
        if log.synced == log.size:
            return True
        waiting.wait(SOON)  # by the clock of the system, which nobody has patched
    return False


@counted
def clocks_jump_between_checkpoints(effort: int) -> Iterator[str | None]:
    """Those that are kept are the last ones, although each was written years before or after the others."""
    for number in range(effort):
        rng = random.Random(number)
        with TemporaryDirectory() as name:
            yield flaw_of_keeping(Path(name), rng, most=1 + number % 3)


def flaw_of_keeping(folder: Path, rng: random.Random, most: int) -> str | None:
    place = durable_learner.folder_of(folder)
    with durable_learner.opened(folder, keep=most) as learner:
        for number in range(6):
            learner.observe(*durable_learner.batch(number))
            learner.checkpoint()
            there, last = [each.step for each in holdfast.kept(place)], range(learner.step, -1, -1)[:most]
            if there != list(last):
                return f"after step {learner.step}, {there} are kept"
            jump = rng.uniform(-30, 30) * YEAR
            for each in holdfast.kept(place):
                os.utime(place / "kept" / str(each.step), (each.time + jump, each.time + jump))
    return None
