"""An exception at any line of the package, as a signal may bring one, while something is done to a learner."""

import linecache
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import holdfast
from holdfast.durable import DurableLearner
from reliability import homes
from reliability.disk import FaultyDisk
from reliability.outcome import counted
from reliability.stage import State, contents, put_back

PACKAGE = str(Path(holdfast.__file__).parent)


class Interrupt(BaseException):
    pass


class Interrupted:
    """Counts the lines of the package that are run inside, and interrupts before the one with this number.

    Not where a `with` or `try` begins or ends: Python takes notice of signals before and after that, but not there.
    """

    def __init__(self, at: int | None = None) -> None:
        self.lines = 0
        self.where = ""
        self._at = at

    def __enter__(self) -> "Interrupted":
        sys.settrace(self._trace)
        return self

    def __exit__(self, *how: object) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line" and not _line_of(frame).startswith(("with ", "try:")):
            self.lines += 1
            if self.lines == self._at:
                self.where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                sys.settrace(None)
                raise Interrupt
        return self._trace


def _line_of(frame: FrameType) -> str:
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()


DEEDS: Mapping[str, homes.Deed] = {
    "observe": lambda learner: learner.observe(*homes.batch(11)),
    "ask": lambda learner: learner.ask(homes.batch(11)[0]),
    "tell": lambda learner: learner.tell(1, homes.batch(7)[1]),
    "forget": lambda learner: learner.forget("class 1"),
    "forget_samples": lambda learner: learner.forget_samples(homes.batch(2)[0]),
    "remember": lambda learner: learner.remember(*homes.batch(12)),
}


@counted
def interrupted_anywhere(effort: int) -> Iterator[str | None]:
    """The state is that before or after; the same learner goes on, and so does what it leaves behind."""
    with TemporaryDirectory() as name, FaultyDisk(Path(name)):  # without a fault: it spares the real disk
        folder = Path(name)
        with homes.opened(folder) as learner:
            for begin in homes.DEEDS[:4]:
                begin(learner)
            learner.ask(homes.batch(7)[0])
        whole = contents(folder)
        for what, deed in DEEDS.items():
            put_back(folder, whole)
            with begun(folder) as learner, Interrupted() as undisturbed:
                states = [learner.state_hash()]
                deed(learner)
                states.append(learner.state_hash())
            for at in range(1, undisturbed.lines + 1, max(4, 40 // effort)):
                put_back(folder, whole)
                interrupted = Interrupted(at)
                with begun(folder) as learner:
                    flaw = flaw_of_going_on(learner, deed, interrupted, states)
                    end = learner.state_hash(), homes.answers(learner)
                with homes.opened(folder) as again:
                    if flaw is None and (again.state_hash(), homes.answers(again)) != end:
                        flaw = "opened again, it is another one"
                yield f"{what}, interrupted at {interrupted.where}: {flaw}" if flaw else None


def begun(folder: Path) -> DurableLearner:
    learner = homes.opened(folder, checkpoint_every=homes.ROOM)
    learner.observe(*homes.batch(8))
    return learner


def flaw_of_going_on(
    learner: DurableLearner, deed: homes.Deed, interrupted: Interrupted, states: list[State]
) -> str | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # a file just opened may be left to the garbage collector
        try:
            with interrupted:
                deed(learner)
        except Interrupt:
            if learner.state_hash() not in states:
                return "another state than may be there"
    learner.observe(*homes.batch(9))
    return None
