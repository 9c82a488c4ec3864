"""Calls of the system that do a part of their work, are interrupted, or find the disk read-only."""

import errno
import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast import Learner
from holdfast.errors import WriteError
from reliability import durable_learner, scenarios, spaces
from reliability.crashes import failures, staged
from reliability.disk import Fault, FaultyDisk
from reliability.outcome import counted
from reliability.stage import Scenario, State, contents, put_back

SECONDS_BETWEEN_SIGNALS = 0.0005


def files_and_learners(effort: int) -> list[Scenario]:
    """What is written by us and not by SQLite."""
    return [*scenarios.scenarios(effort)[:1], *durable_learner.scenarios(effort)]


@counted
def written_in_parts(effort: int) -> Iterator[str | None]:
    """However little a file takes at once: no error, and the same bytes' worth."""
    for scenario in files_and_learners(effort):
        for seed in range(3 * effort):
            with TemporaryDirectory() as name:
                flaw = flaw_of_short_writes(scenario, Path(name), seed)
                yield f"{scenario.what}, written in parts, seed {seed}: {flaw}" if flaw else None


def flaw_of_short_writes(scenario: Scenario, folder: Path, seed: int) -> str | None:
    with FaultyDisk(folder):
        scenario.prepare(folder)
        beginning = contents(folder)
        for told in scenario.steps(folder):
            right = told
        right = right or scenario.storage.state(folder)
    put_back(folder, beginning)
    try:
        with FaultyDisk(folder, short=random.Random(seed)):
            for _ in scenario.steps(folder):
                pass
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return scenario.storage.flaw(folder, [right])


@counted
def calls_interrupted(effort: int) -> Iterator[str | None]:
    """A call that gives up when a signal comes: a typed error, or nothing is seen of it, and nothing is lost."""
    for stage in staged(files_and_learners(effort)):
        yield from failures(stage, lambda at: (errno.EINTR,) if effort > 1 or at % 2 else ())


@counted
def signals_all_the_time(effort: int) -> Iterator[str | None]:
    """Handlers that do nothing, many times a step, on a real disk: nothing is seen of them."""
    right = None
    for _ in range(2 * effort):
        for signals in (False, True):
            with TemporaryDirectory() as name, signalled() if signals else FaultyDisk(Path(name)):
                *_, end = durable_learner.do(
                    durable_learner.OPERATIONS, Path(name), checkpoint_every=durable_learner.ROOM, sync_every=0.001
                )
                right = right or end
                yield None if durable_learner.state(Path(name)) == end == right else "signals changed what was learned"


@contextmanager
def signalled() -> Iterator[None]:
    """SIGALRM again and again, to a handler that only returns."""
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, SECONDS_BETWEEN_SIGNALS, SECONDS_BETWEEN_SIGNALS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@counted
def disk_becomes_read_only(effort: int) -> Iterator[str | None]:
    """From any operation on until it is mended: changes are refused, questions answered; then it goes on."""
    operations = durable_learner.operations(effort)
    with TemporaryDirectory() as name:
        folder = Path(name)
        with FaultyDisk(folder) as undisturbed:
            *_, right = durable_learner.do(operations, folder, checkpoint_every=durable_learner.ROOM)
        for at in range(1, undisturbed.operations + 1, 1 if effort > 1 else 4):
            put_back(folder, {})
            with FaultyDisk(folder, Fault(at, errno.EROFS, lasts=True)) as disk:
                flaw = flaw_while_read_only(operations, folder, disk, right)
            yield f"read-only from operation {at}: {flaw}" if flaw else None


def flaw_while_read_only(
    operations: list[durable_learner.Operation], folder: Path, disk: FaultyDisk, right: State
) -> str | None:
    try:
        learner = durable_learner.opened(folder, checkpoint_every=durable_learner.ROOM)
    except WriteError:
        disk.mend()
        learner = durable_learner.opened(folder, checkpoint_every=durable_learner.ROOM)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    for operation in operations:
        before = learner.state_hash(), durable_learner.answers(learner)
        for tries in range(3):
            try:
                operation(learner)
                break
            except WriteError as error:
                if os.strerror(errno.EROFS) not in str(error):
                    return f"the reason is not said: {error}"
                if (learner.state_hash(), durable_learner.answers(learner)) != before:
                    return "it is not as it was before the change that was refused"
            if tries == 1:
                disk.mend()
        else:
            return "it does not go on when the disk is mended"
    disk.mend()
    learner.close()
    return None if durable_learner.state(folder) == right else "it ends otherwise than one that was not disturbed"


@counted
def mounted_read_only(effort: int) -> Iterator[str | None]:
    """A real disk: opening is refused and changes nothing, reading works, and it goes on when it can be written to."""
    yield from spaces.apart(on_a_real_disk, 2 * effort)


def on_a_real_disk(times: int) -> Iterator[str | None]:
    with TemporaryDirectory() as name:
        folder = Path(name)
        spaces.mount(None, folder, kind="tmpfs")
        try:
            *_, right = durable_learner.do(durable_learner.OPERATIONS[:3], folder)
            for number in range(times):
                spaces.mount(None, folder, spaces.REMOUNT | spaces.READ_ONLY, kind="tmpfs")
                yield flaw_on_a_read_only_disk(folder)
                spaces.mount(None, folder, spaces.REMOUNT, kind="tmpfs")
                yield (
                    None
                    if durable_learner.state(folder) == right
                    else f"read-only {number + 1} times, it is another learner"
                )
                with durable_learner.opened(folder) as learner:
                    learner.observe(*durable_learner.batch(number))
                    right = learner.state_hash()
        finally:
            spaces.unmount(folder)


def flaw_on_a_read_only_disk(folder: Path) -> str | None:
    before = contents(folder)
    try:
        durable_learner.opened(folder).close()
        return "opened on a disk that is read-only"
    except WriteError as error:
        if os.strerror(errno.EROFS) not in str(error):
            return f"the reason is not said: {error}"
    Learner.load(durable_learner.folder_of(folder) / "learner").state_hash()
    return None if contents(folder) == before else "refused, but something was changed"
