"""A signal at each moment at which Python takes notice of one."""

import contextlib
import signal
import sys
import threading
import warnings
from _thread import interrupt_main
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Self

from reliability.lines import PACKAGE

FOLLOWED = PACKAGE, contextlib.__file__, threading.__file__
OURS = str(Path(__file__).parent)

Place = tuple[CodeType, int]  # an instruction


class Interrupt(BaseException):
    pass


@contextlib.contextmanager
def unreported() -> Iterator[None]:
    """Inside, nothing is said of interrupts that fall into a finalizer, and of files left to be closed by one."""
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            yield
    finally:
        sys.unraisablehook = hook


class Sent(int):
    """A signal sent by reading an attribute, after which Python, unlike after a call, does not look for signals."""

    now = property(interrupt_main)


class EveryMoment:
    """Inside, a signal is on its way before each instruction of the package: where it is noticed, Python decides.

    The moments at which it is noticed are counted, and at those with these numbers there is an interrupt.
    """

    def __init__(self, *at: int) -> None:
        self.noticed: list[Place] = []
        self.struck: list[str] = []
        self.at = at
        self._sent = Sent(signal.SIGINT)
        self._tracer = self._trace  # kept: Python may still call it after settrace(None) in a finalizer

    def __enter__(self) -> Self:
        self._handler = signal.signal(signal.SIGINT, self._notice)
        sys.settrace(self._tracer)
        return self

    def __exit__(self, *how: object) -> None:
        sys.settrace(None)
        signal.signal(signal.SIGINT, self._handler)

    def _trace(self, frame: FrameType, event: str, _: Any) -> "Callable[..., Any] | None":
        if not frame.f_code.co_filename.startswith(FOLLOWED):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self._sent.now  # noqa: B018
        return self._tracer

    def _notice(self, _: int, frame: FrameType | None) -> None:
        if frame is None or frame.f_code.co_filename.startswith(OURS):
            return
        self.noticed.append((frame.f_code, frame.f_lasti))
        if len(self.noticed) in self.at:
            self.struck.append(f"{frame.f_code.co_filename.removeprefix(PACKAGE + '/')}:{frame.f_lineno}")
            if len(self.noticed) == max(self.at):
                sys.settrace(None)
            raise Interrupt
