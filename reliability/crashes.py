"""Checkpoints, the store of runs and the durable learner on a disk that crashes, forgets, is full or fails."""

import errno
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.errors import HoldfastError
from reliability import durable_learner
from reliability.disk import Fault, FaultyDisk, crash
from reliability.outcome import counted
from reliability.scenarios import scenarios
from reliability.stage import Scenario, Stage, put_back

OPERATIONS_OF_OPENING = 30


@counted
def crash_at_every_operation(effort: int) -> Iterator[str | None]:
    """After a crash before or in the middle of any operation: the state before or after, and writing goes on."""
    for stage in stages(effort):
        for fault in stage.crashes:
            play = stage.play(fault)
            yield line(stage, f"crash at operation {fault.at}", stage.flaw(play))


@counted
def power_loss(effort: int) -> Iterator[str | None]:
    """Whatever is lost of what was not synced, nothing acknowledged is; not if it happens again on opening, either."""
    for stage in stages(effort):
        for at, seed in product(range(1, stage.operations + 2), range(effort)):
            rng = random.Random(f"{stage.scenario.what} {at} {seed}")
            play = stage.play(crash(at))
            play.disk.lose_power(rng)
            again = crash(rng.randint(1, OPERATIONS_OF_OPENING))
            with FaultyDisk(stage.folder, again) as disk, suppress(Exception):
                stage.scenario.storage.state(stage.folder)
            disk.lose_power(rng)
            yield line(stage, f"power loss at operation {at}, seed {seed}", stage.flaw(play, stage.scenario.may_lose))


@counted
def disk_full_or_failing(effort: int) -> Iterator[str | None]:
    """When one operation fails, a typed error names the file, the last good state is there, and writing goes on.

    Where no error tells of it, everything is safe all the same.
    """
    for stage in stages(effort):
        yield from failures(stage, partial(kinds_of_failure, effort))


def failures(stage: Stage, kinds: Callable[[int], tuple[int, ...]]) -> Iterator[str | None]:
    """Each operation fails once, in each of the ways that are given for its number."""
    for at in range(1, stage.operations + 1):
        for kind in kinds(at):
            part = 0 if kind == errno.EINTR else 0.5  # a call that has done a part of its work says so instead
            play = stage.play(Fault(at, kind, part))
            error = play.error
            if error is None:
                play.disk.lose_power(random.Random(at), kept=0)
            flaw = stage.flaw(play)
            if error and not (isinstance(error, HoldfastError) and str(stage.folder) in str(error)):
                flaw = f"{type(error).__name__}: {error}"
            yield line(stage, f"{errno.errorcode[kind]} at operation {at}", flaw)


@counted
def same_learner_after_a_failure(effort: int) -> Iterator[str | None]:
    """When a write fails, the learner answers as before; done again, it ends as one that was not disturbed."""
    operations = durable_learner.operations(effort)
    with TemporaryDirectory() as name:
        folder = Path(name)
        with FaultyDisk(folder) as undisturbed:
            *_, right = durable_learner.do(operations, folder, checkpoint_every=durable_learner.ROOM)
        for at in range(1, undisturbed.operations + 1):
            for kind, closed_between in product(kinds_of_failure(effort, at), (False, True)):
                put_back(folder, {})
                with FaultyDisk(folder, Fault(at, kind, part=0.5)):
                    flaw = durable_learner.flaw_of_doing_again(operations, folder, right, closed_between)
                yield f"{errno.errorcode[kind]} at operation {at}: {flaw}" if flaw else None


@counted
def killed_after_a_failure(effort: int) -> Iterator[str | None]:
    """What was refused never comes back, and what was acknowledged is there, if the process ends right after it."""
    operations = durable_learner.operations(effort)
    with TemporaryDirectory() as name:
        folder = Path(name)
        with FaultyDisk(folder) as undisturbed:
            for _ in durable_learner.do(operations, folder, checkpoint_every=durable_learner.ROOM):
                pass
        for at in range(1, undisturbed.operations + 1):
            for kind in kinds_of_failure(effort, at):
                put_back(folder, {})
                with FaultyDisk(folder, Fault(at, kind, part=1.0 if at % 2 else 0.5)):
                    right = durable_learner.state_when_killed(operations, folder)
                found = durable_learner.state(folder)
                yield None if found == right else f"{errno.errorcode[kind]} at operation {at}: it is another learner"


def kinds_of_failure(effort: int, at: int) -> tuple[int, ...]:
    kinds = errno.ENOSPC, errno.EIO
    return kinds if effort > 1 else kinds[at % 2 :][:1]


def stages(effort: int) -> Iterator[Stage]:
    yield from staged([*scenarios(effort), *durable_learner.scenarios(effort)])


def staged(scenarios: list[Scenario]) -> Iterator[Stage]:
    for scenario in scenarios:
        with TemporaryDirectory() as folder:
            yield Stage(scenario, Path(folder))


def line(stage: Stage, what_happened: str, flaw: str | None) -> str | None:
    return f"{stage.scenario.what}, {what_happened}: {flaw}" if flaw else None
