"""Changes that happen completely or not at all, wherever an exception or a signal cuts them off.

Nothing is held back to achieve this. A change writes down how to take back what it does before it does it, and one
assignment, `done = True`, makes it happen: in memory, in the log and for those who ask. One that was cut off before
that is taken back at once, and if that is cut off too, by whoever comes next. Locks are entered by `with` and in C,
where Python looks for signals only before and after; a context manager written in Python could be cut off between.
"""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from holdfast.errors import InputError
from holdfast.memory.class_index import Journal
from holdfast.modes import inference

Result = TypeVar("Result")


class Change:
    """Open until it is done or taken back."""

    def __init__(self) -> None:
        self.journal = Journal()  # of what is done in turn
        self.closing = Journal()  # of what is done in the log's turn
        self.running, self.is_closing = threading.Lock(), threading.Lock()  # held meanwhile
        self.stores = False  # whether it has begun to change the memory
        self.gathers = False  # whether other changes may become parts of it now
        self.done = self.taken_back = False

    def drop_undo(self) -> None:
        """Lets go of what could be taken back, and with it of the learner, whose folder others may want."""
        self.journal.clear()
        self.closing.clear()

    @property
    def is_open(self) -> bool:
        return not self.done and not self.taken_back


class Changes:
    """One at a time has its turn. The open questions and the log have a turn of their own, maybe another change's."""

    def __init__(self) -> None:
        self.turn, self.log_turn = threading.RLock(), threading.RLock()  # taken in this order
        self._now: Change | None = None
        self._closing: Change | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> "Changes":
        return Changes()

    def make(
        self,
        begin: Callable[[Change], object],
        work: Callable[[Journal], Result],
        close: Callable[[Journal], object],
    ) -> Result:
        """What all three do, the last one in the log's turn, happens or, with an exception, does not."""
        with self.turn:
            self.mend()
            if (whole := self._now) is not None and whole.is_open:
                return _as_part(whole, work, close)
            change = self._now = Change()
            try:
                with change.running:
                    begin(change)
                    result = work(change.journal)
                    self._close(change, close)
            except BaseException:
                self.mend()
                raise
            self._now = None
            try:  # noqa: SIM105  # it has happened: nothing may say that it has not, for want of memory for `suppress`
                change.drop_undo()
            except MemoryError:
                pass
            return result

    def make_together(self, begin: Callable[[Change], object], work: Callable[[Journal], Result]) -> Result:
        """All changes that are made inside happen or, with an exception, none."""

        def gather(journal: Journal) -> None:
            whole = self._now
            assert whole is not None
            whole.gathers = True
            results.append(work(journal))
            if not whole.gathers:
                raise InputError("one of the changes that are made together has failed")

        results: list[Result] = []
        self.make(begin, nothing, gather)
        return results[0]

    def make_in_log(self, work: Callable[[Journal], Result]) -> Result:
        """A change of nothing but the open questions and the log: it waits for no turn."""
        try:
            return self._close(Change(), work)
        except BaseException:
            with self.log_turn:
                self.settle()
            raise

    def at_rest(self, work: Callable[[], Result]) -> Result:
        """While `work` is done, no other thread changes anything."""
        with self.turn:
            self.mend()
            with self.log_turn:
                self.settle()
                return work()

    def mend(self) -> None:
        """First thing in turn: takes back a change that was cut off."""
        change = self._now
        if change is None or not change.is_open or _is_under_way(change, change.running):
            return
        with self.log_turn:
            self.settle()
        with inference(False):
            change.journal.undo()
        change.taken_back = True
        self._now = None

    def settle(self) -> None:
        """First thing in the log's turn: takes back what was cut off there."""
        change = self._closing
        if change is None or not change.is_open or _is_under_way(change, change.is_closing):
            return
        change.closing.undo()
        self._closing = None

    def _close(self, change: Change, work: Callable[[Journal], Result]) -> Result:
        with self.log_turn:
            self.settle()
            with change.is_closing:
                self._closing = change
                result = work(change.closing)
                change.done = True
            self._closing = None
            return result


def nothing(_: Journal) -> None:
    """In the log's turn, if a change has only to be written down there."""


def _is_under_way(change: Change, held: threading.Lock) -> bool:
    """In this very thread, which has the lock that is needed to come here."""
    if not held.locked():
        return False
    if not change.gathers:
        raise InputError(
            "the learner is in the middle of a change in this very thread: a signal handler or a method cannot change, "
            "save or close it there, but raise an exception, such as SystemExit, which takes the change back"
        )
    return True


def _as_part(whole: Change, work: Callable[[Journal], Result], close: Callable[[Journal], object]) -> Result:
    whole.gathers = False
    result = work(whole.journal)
    close(whole.closing)
    whole.gathers = True
    return result
