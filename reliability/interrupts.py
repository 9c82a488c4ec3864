"""An exception at any line of the package, as a signal may bring one, while something is done to a learner."""

import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

from holdfast.durable import DurableLearner
from reliability import durable_learner
from reliability.disk import FaultyDisk
from reliability.lines import EveryLine, place_of, text_of
from reliability.outcome import counted
from reliability.stage import State, contents, put_back


class Interrupt(BaseException):
    pass


class Interrupted(EveryLine):
    """Counts the lines of the package that are run inside, and interrupts before the one with this number.

    Not where a `with` or `try` begins or ends: Python takes notice of signals before and after that, but not there.
    """

    def __init__(self, at: int | None = None) -> None:
        super().__init__(self._count)
        self.lines = 0
        self.where = ""
        self._at = at

    def _count(self, frame: FrameType) -> None:
        if text_of(frame).startswith(("with ", "try:")):
            return
        self.lines += 1
        if self.lines == self._at:
            self.where = place_of(frame)
            sys.settrace(None)
            raise Interrupt


OPERATIONS: Mapping[str, durable_learner.Operation] = {
    "observe": lambda learner: learner.observe(*durable_learner.batch(11)),
    "ask": lambda learner: learner.ask(durable_learner.batch(11)[0]),
    "tell": lambda learner: learner.tell(1, durable_learner.batch(7)[1]),
    "forget": lambda learner: learner.forget("class 1"),
    "forget_samples": lambda learner: learner.forget_samples(durable_learner.batch(2)[0]),
    "remember": lambda learner: learner.remember(*durable_learner.batch(12)),
}


@counted
def interrupted_anywhere(effort: int) -> Iterator[str | None]:
    """The state is that before or after; the same learner goes on, and so does what it leaves behind."""
    with TemporaryDirectory() as name, FaultyDisk(Path(name)):  # without a fault: it spares the real disk
        folder = Path(name)
        with durable_learner.opened(folder) as learner:
            for begin in durable_learner.OPERATIONS[:4]:
                begin(learner)
            learner.ask(durable_learner.batch(7)[0])
        whole = contents(folder)
        for what, operation in OPERATIONS.items():
            put_back(folder, whole)
            with begun(folder) as learner, Interrupted() as undisturbed:
                states = [learner.state_hash()]
                operation(learner)
                states.append(learner.state_hash())
            for at in range(1, undisturbed.lines + 1, max(4, 40 // effort)):
                put_back(folder, whole)
                interrupted = Interrupted(at)
                with begun(folder) as learner:
                    flaw = flaw_of_going_on(learner, operation, interrupted, states)
                    end = learner.state_hash(), durable_learner.answers(learner)
                with durable_learner.opened(folder) as again:
                    if flaw is None and (again.state_hash(), durable_learner.answers(again)) != end:
                        flaw = "opened again, it is another one"
                yield f"{what}, interrupted at {interrupted.where}: {flaw}" if flaw else None


def begun(folder: Path) -> DurableLearner:
    learner = durable_learner.opened(folder, checkpoint_every=durable_learner.ROOM)
    learner.observe(*durable_learner.batch(8))
    return learner


def flaw_of_going_on(
    learner: DurableLearner, operation: durable_learner.Operation, interrupted: Interrupted, states: list[State]
) -> str | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # a file just opened may be left to the garbage collector
        try:
            with interrupted:
                operation(learner)
        except Interrupt:
            if learner.state_hash() not in states:
                return "another state than may be there"
    learner.observe(*durable_learner.batch(9))
    return None
