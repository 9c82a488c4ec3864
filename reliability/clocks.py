"""Clocks that jump by years, forwards and backwards, while a learner learns and syncs."""

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from holdfast.durable import DurableLearner
from reliability import durable_learner
from reliability.outcome import counted

YEAR = 365.25 * 86_400
CLOCKS = ("time", "monotonic", "perf_counter", "process_time")
SOON = 0.01  # seconds between syncs
PATIENCE = 20  # seconds of the real clock until what is to be synced soon counts as forgotten


@contextmanager
def jumping(rng: random.Random) -> Iterator[None]:
    """Every look at a clock shows another year."""

    def jumpy(clock: Callable[[], float]) -> Callable[[], float]:
        return lambda: clock() + rng.uniform(-30, 30) * YEAR

    def in_nanoseconds(clock: Callable[[], int]) -> Callable[[], int]:
        return lambda: clock() + int(rng.uniform(-30, 30) * YEAR * 1e9)

    with ExitStack() as patches:
        for name in CLOCKS:
            patches.enter_context(patch.object(time, name, jumpy(getattr(time, name))))
            patches.enter_context(patch.object(time, f"{name}_ns", in_nanoseconds(getattr(time, f"{name}_ns"))))
        patches.enter_context(patch.object(threading, "_time", time.monotonic))  # its own name for it
        yield


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
        with TemporaryDirectory() as name, jumping(rng):
            flaw = flaw_of_learning(Path(name), rng, sync_every=(0, SOON, durable_learner.NEVER)[number % 3])
            if flaw is None and durable_learner.state(Path(name)) != right:
                flaw = "it is another learner than without them"
            yield f"jumps with seed {number}: {flaw}" if flaw else None


def flaw_of_learning(folder: Path, rng: random.Random, sync_every: float) -> str | None:
    try:
        with durable_learner.opened(folder, checkpoint_every=durable_learner.ROOM, sync_every=sync_every) as learner:
            for operation in durable_learner.OPERATIONS:
                operation(learner)
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
