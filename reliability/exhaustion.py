"""No memory left at one place of a change: at a line of the package, or at an operation of torch."""

import dis
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from reliability import durable_learner
from reliability.disk import FaultyDisk
from reliability.interrupts import OPERATIONS, begun
from reliability.lines import EveryLine, place_of, text_of
from reliability.outcome import counted
from reliability.stage import contents, put_back

MAKES = ("CALL", "BUILD_", "BINARY_", "FORMAT_", "LIST_", "MAP_", "SET_", "DICT_", "MAKE_", "COMPARE_", "IMPORT_")
SECONDS = 5  # after which another thread is taken to wait for ever


class OutOfMemory(AbstractContextManager["OutOfMemory"]):
    """Counts the places inside at which something is made, and lets there be no memory at the one with this number."""

    def __init__(self, at: int | None = None) -> None:
        self.places = 0
        self.where = ""
        self._at = at

    def count(self, where: str) -> None:
        self.places += 1
        if self.places == self._at:
            self.where = where
            raise MemoryError("as if there were no memory left")


class AtLines(OutOfMemory):
    """Lines of the package that make something.

    Not where a `with` or `try` begins or ends: an error there would come from what is called, which has lines itself.
    """

    def __enter__(self) -> "AtLines":
        self._lines = EveryLine(self._look).__enter__()
        return self

    def __exit__(self, *how: object) -> None:
        self._lines.__exit__(*how)

    def _look(self, frame: FrameType) -> None:
        makes = frame.f_lineno in lines_that_make(frame.f_code) and not text_of(frame).startswith(("with ", "try:"))
        if makes and not is_cleaning_up(frame):
            self.count(place_of(frame))


class EveryOperation(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Inside, `act` is called before each operation, with its name."""

    def __init__(self, act: Callable[[str], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._act = act

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._act(str(function))
        return function(*args, **(kwargs or {}))


class AtOperations(OutOfMemory):
    """Operations of torch, those of the gradient included."""

    def __enter__(self) -> "AtOperations":
        self._operations = EveryOperation(self.count)
        self._operations.__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *how: object) -> None:
        self._operations.__exit__(*how)  # type: ignore[no-untyped-call]


def is_cleaning_up(frame: FrameType) -> bool:
    """Whether Python has called it at the end of a `with` or of an object: nobody could clean up after that."""
    above: FrameType | None = frame
    while above is not None and above.f_code.co_name != "__del__":
        above = above.f_back
    return above is not None or frame.f_code.co_name == "__exit__"


@cache
def lines_that_make(code: CodeType) -> frozenset[int]:
    line, found = 0, set()
    for instruction in dis.get_instructions(code):
        line = instruction.starts_line or line
        if instruction.opname.startswith(MAKES):
            found.add(line)
    return frozenset(found)


@counted
def out_of_memory_anywhere(effort: int) -> Iterator[str | None]:
    """The change has not happened, the next one does, other threads get answers, and so it is when opened again."""
    with TemporaryDirectory() as name, FaultyDisk(Path(name)):  # without a fault: it spares the real disk
        folder = Path(name)
        with durable_learner.opened(folder) as learner:
            for begin in durable_learner.OPERATIONS[:4]:
                begin(learner)
            learner.ask(durable_learner.batch(7)[0])
        whole = contents(folder)
        for what, operation in OPERATIONS.items():
            for kind in (AtLines, AtOperations):
                put_back(folder, whole)
                with begun(folder) as learner, kind() as undisturbed:
                    operation(learner)
                for at in range(1, undisturbed.places + 1, max(1, 101 // effort**2)):
                    put_back(folder, whole)
                    exhausted = kind(at)
                    flaw = flaw_of_going_on(folder, operation, exhausted)
                    yield f"{what}, no memory at {exhausted.where}: {flaw}" if flaw else None


def flaw_of_going_on(folder: Path, operation: durable_learner.Operation, exhausted: OutOfMemory) -> str | None:
    with begun(folder) as learner:
        before = learner.state_hash()
        try:
            with exhausted:
                operation(learner)
        except MemoryError:
            if learner.state_hash() != before:
                return "it is not as it was before"
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        try:
            durable_learner.answers(learner)
            in_another_thread(partial(durable_learner.answers, learner))
            in_another_thread(partial(learner.observe, *durable_learner.batch(9)))
        except Exception as error:
            return f"afterwards {type(error).__name__}: {error}"
        end = learner.state_hash(), durable_learner.answers(learner)
    try:
        with durable_learner.opened(folder) as again:
            same = (again.state_hash(), durable_learner.answers(again)) == end
    except Exception as error:
        return f"opened again, {type(error).__name__}: {error}"
    return None if same else "opened again, it is another one"


def in_another_thread(call: Callable[[], object]) -> None:
    """A thread of its own: it may have to wait for ever."""
    done: Future[object] = Future()

    def run() -> None:
        try:
            done.set_result(call())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    done.result(SECONDS)
