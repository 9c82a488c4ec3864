"""Something done at every line of the package that a thread runs."""

import linecache
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Self

import holdfast

PACKAGE = str(Path(holdfast.__file__).parent)


class EveryLine:
    """Inside, `act` is called before each line, with its frame."""

    def __init__(self, act: Callable[[FrameType], None]) -> None:
        self._act = act

    def __enter__(self) -> Self:
        sys.settrace(self._trace)
        return self

    def __exit__(self, *how: object) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            self._act(frame)
        return self._trace


def text_of(frame: FrameType) -> str:
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()


def place_of(frame: FrameType) -> str:
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
