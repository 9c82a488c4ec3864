"""The durable learner, and what is done to it."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import holdfast
from holdfast import ERACE, Learner, mlp
from holdfast.durable import DurableLearner
from holdfast.errors import WriteError
from holdfast.samples import Samples
from reliability.stage import Scenario, State, Storage

NEVER = 86_400  # seconds: nothing is synced but what has to be
ROOM = 3  # changes in a log

Operation = Callable[[DurableLearner], object]


def batch(number: int) -> tuple[Samples, list[str]]:
    rng = np.random.default_rng(number)
    return rng.standard_normal((3, 3)).astype(np.float32), [f"class {number // 2}", "one of many", f"class {number}"]


def folder_of(folder: Path) -> Path:
    return folder / "learner"


def opened(folder: Path, **options: Any) -> DurableLearner:
    return holdfast.open(folder_of(folder), mlp((3,), width=4), ERACE(), memory=5, pending=3, **options)


OPERATIONS: list[Operation] = [
    lambda learner: learner.observe(*batch(0)),
    lambda learner: learner.ask(batch(1)[0]),
    lambda learner: learner.tell(0, batch(1)[1]),
    lambda learner: learner.observe(*batch(2)),  # the log is full
    lambda learner: learner.forget("class 1"),
    lambda learner: learner.ask(batch(4)[0]),
    lambda learner: learner.remember(*batch(5)),
    lambda learner: learner.tell(1, batch(4)[1]),
    lambda learner: learner.observe(*batch(3)),
    lambda learner: learner.ask(batch(2)[0]),
    lambda learner: learner.observe(*batch(2)),  # full again
    lambda learner: learner.forget_samples(batch(2)[0]),
]


def operations(effort: int) -> list[Operation]:
    return OPERATIONS[: 6 * effort]


def scenarios(effort: int) -> list[Scenario]:
    def make(folder: Path) -> Iterator[State]:
        yield from do(OPERATIONS[:2], folder)

    def use(folder: Path) -> Iterator[State]:
        yield from do(operations(effort), folder, checkpoint_every=ROOM)

    def use_without_syncing(folder: Path) -> Iterator[State]:
        yield from do(OPERATIONS[:4], folder, checkpoint_every=ROOM, sync_every=NEVER)

    return [
        Scenario("a new learner", IN_FOLDER, lambda folder: None, make),
        Scenario("a learner", IN_FOLDER, lambda folder: opened(folder).close(), use),
        Scenario(
            "a learner that syncs later", IN_FOLDER, lambda folder: opened(folder).close(), use_without_syncing, ROOM
        ),
    ]


def do(operations: list[Operation], folder: Path, **options: Any) -> Iterator[State]:
    with opened(folder, **options) as learner:
        yield learner.state_hash()
        for operation in operations:
            operation(learner)
            yield learner.state_hash()


def state(folder: Path) -> State:
    with opened(folder) as learner:
        return learner.state_hash()


def observe_once_more(folder: Path, before: State) -> bool:
    with opened(folder) as learner:
        same = Learner.load(folder_of(folder) / "learner")  # written when it was opened
        found = [before == learner.state_hash() == same.state_hash()]
        for each in (learner, same):
            each.observe(*batch(9))
    return all(found) and state(folder) == same.state_hash()


def flaw_of_doing_again(operations: list[Operation], folder: Path, right: State, closed_between: bool) -> str | None:
    """What is wrong if each operation that fails once is repeated, with the same learner or with what it left."""

    def open_it() -> DurableLearner:
        return opened(folder, checkpoint_every=ROOM)

    try:
        learner = open_it()
    except WriteError:
        learner = open_it()
    try:
        for operation in operations:
            before = learner.state_hash(), answers(learner)
            try:
                operation(learner)
            except WriteError:
                if closed_between:
                    learner.close()
                    learner = open_it()
                if (learner.state_hash(), answers(learner)) != before:
                    return "it is not as it was before the write that failed"
                operation(learner)
    finally:
        learner.close()
    if learner.state_hash() != right:
        return "it ends otherwise than one that was not disturbed"
    return None if state(folder) == right else "opened again, it is another one"


def state_when_killed(operations: list[Operation], folder: Path) -> State:
    """The state when an operation has failed, or all are done, and the process ends as kill -9 ends it."""
    try:
        learner = opened(folder, checkpoint_every=ROOM)
    except WriteError:
        learner = opened(folder, checkpoint_every=ROOM)
    with suppress(WriteError):
        for operation in operations:
            operation(learner)
    right = learner.state_hash()
    kill(learner)
    return right


def kill(learner: DurableLearner) -> None:
    """Its files are let go of as they are, as the system does it with those of a process that is gone."""
    assert learner._folder is not None
    learner._folder.abandon()
    learner._folder = None


def answers(learner: Learner) -> bytes | None:
    return learner.predict_proba(batch(0)[0]).tobytes() if learner.step else None


IN_FOLDER = Storage(state, observe_once_more)
