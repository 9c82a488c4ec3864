"""Signals while something is done to a learner: at every place where Python takes notice of one, and at random."""

import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import torch

from holdfast.durable import DurableLearner
from reliability import durable_learner
from reliability.disk import FaultyDisk
from reliability.outcome import counted
from reliability.signals import EveryMoment, Interrupt, Place, unreported
from reliability.stage import State, contents, put_back

LONG = 60.0  # seconds in which a thread comes through any lock that is not lost
SOON = 60  # moments in which a second signal may follow the first

Result = TypeVar("Result")

OPERATIONS: Mapping[str, durable_learner.Operation] = {
    "observe": lambda learner: learner.observe(*durable_learner.batch(11)),
    "ask": lambda learner: learner.ask(durable_learner.batch(11)[0]),
    "tell": lambda learner: learner.tell(1, durable_learner.batch(7)[1]),
    "forget": lambda learner: learner.forget("class 1"),
    "forget_samples": lambda learner: learner.forget_samples(durable_learner.batch(2)[0]),
    "remember": lambda learner: learner.remember(*durable_learner.batch(12)),
    "predict": lambda learner: learner.predict(durable_learner.batch(11)[0]),
    "checkpoint": lambda learner: learner.checkpoint(),
}


@counted
def interrupted_anywhere(effort: int) -> Iterator[str | None]:
    """The state is that before or after; the same learner goes on, and so does what it leaves behind."""
    with stage() as folder:
        whole = contents(folder)
        for what, operation in OPERATIONS.items():
            right = {}
            for done in ([], [operation]):
                put_back(folder, whole)
                learner = begun(folder)
                with EveryMoment() as undisturbed:
                    for each in done:
                        each(learner)
                before = seen(learner)
                learner.observe(*durable_learner.batch(9))
                right[before] = seen(learner)
                learner.close()
            for moments in chosen(undisturbed.noticed, effort):
                put_back(folder, whole)
                interrupted = EveryMoment(*moments)
                try:
                    flaw = next(flaws(folder, operation, interrupted, right), None)
                except Exception as error:
                    flaw = f"{type(error).__name__}: {error}"
                yield f"{what}, interrupted at {' and '.join(interrupted.struck)}: {flaw}" if flaw else None


@counted
def opened_and_closed(effort: int) -> Iterator[str | None]:
    """Interrupted meanwhile: the folder is free afterwards, and what is in it is what was there."""

    def open_and_close() -> None:
        learners.append(durable_learner.opened(folder))
        learners[-1].close()

    learners: list[DurableLearner] = []
    with stage() as folder:
        durable_learner.kill(begun(folder))
        whole, right = contents(folder), durable_learner.state(folder)
        with EveryMoment() as undisturbed:
            open_and_close()
        for moments in chosen(undisturbed.noticed, effort):
            put_back(folder, whole)
            learners.clear()
            with EveryMoment(*moments) as interrupted:
                error = error_of(open_and_close)
            for learner in learners:
                learner.close()
            if len(interrupted.struck) == 2:
                del error  # which has what the second one kept from being let go of
            found = in_another_thread(lambda: durable_learner.state(folder))
            yield None if found == right else f"interrupted at {' and '.join(interrupted.struck)}: {found}"


@contextmanager
def stage() -> Iterator[Path]:
    """A folder with a learner that has done a few things."""
    with TemporaryDirectory() as name, FaultyDisk(Path(name)), unreported():  # it spares the real disk
        with durable_learner.opened(Path(name)) as learner:
            for begin in durable_learner.OPERATIONS[:4]:
                begin(learner)
            learner.ask(durable_learner.batch(7)[0])
        yield Path(name)


def begun(folder: Path, sync_every: float = 0) -> DurableLearner:
    learner = durable_learner.opened(folder, checkpoint_every=durable_learner.ROOM, sync_every=sync_every)
    learner.observe(*durable_learner.batch(8))
    return learner


def seen(learner: DurableLearner) -> State:
    return learner.state_hash(), durable_learner.answers(learner)


def chosen(noticed: list[Place], effort: int) -> Iterator[list[int]]:
    """One moment at which the signal was noticed at a place, for some places or, at effort 10, for all.

    Every other one is followed by a second signal.
    """
    rng = random.Random(effort)
    moments: dict[Place, list[int]] = {}
    for number, place in enumerate(noticed, start=1):
        moments.setdefault(place, []).append(number)
    for number, of_place in enumerate(list(moments.values())[:: max(1, 31 - 3 * effort)]):
        first = rng.choice(of_place)
        yield [first, first + rng.randint(1, SOON)] if number % 2 else [first]


def flaws(
    folder: Path, operation: durable_learner.Operation, interrupted: EveryMoment, right: Mapping[State, State]
) -> Iterator[str]:
    """What is wrong afterwards: with the learner, with going on, with what is on the disk. The first one counts."""
    learner = begun(folder, sync_every=interrupted.at[0] % 2 * durable_learner.NEVER)
    with interrupted:
        error = error_of(lambda: operation(learner))  # kept, with its frames, as an interactive Python keeps it
    if not torch.is_grad_enabled() or torch.is_inference_mode_enabled():
        yield "torch is left in another mode"
    if any(version.readers for version in learner.versions._all):
        yield "a copy of the net seems to be read for ever"
    found = in_another_thread(lambda: (durable_learner.answers(learner), seen(learner)))
    if isinstance(found, str):
        yield found
        return
    answer, now = found
    if now not in right:
        yield "another state than may be there"
    if answer != now[1]:
        yield "it answered otherwise until somebody else came"
    learner.observe(*durable_learner.batch(9))
    if seen(learner) != right[now]:
        yield "it goes on otherwise"
    durable_learner.kill(learner) if error is None or len(interrupted.struck) == 2 else learner.close()
    with durable_learner.opened(folder) as again:
        if seen(again) != right[now]:
            yield "opened again, it is another one"


def error_of(operation: Callable[[], object]) -> Interrupt | None:
    try:
        operation()
    except Interrupt as error:
        return error
    return None


def in_another_thread(work: Callable[[], Result]) -> Result | str:
    """What it gives, or what went wrong."""
    found: list[Result | str] = []

    def run() -> None:
        try:
            found.append(work())
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(LONG)
    return found[0] if found else "a lock is lost"
