"""Watches what a call does beside its work: what it imports, runs and writes, and how much time and memory it takes."""

import os
import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

SECONDS, KIBIBYTES = 2.0, 2**16
WRITES = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "shutil.")
RUNS = ("exec", "compile", "os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.", "pickle.", "socket.")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC


class Watch:
    def __init__(
        self,
        refusal: type[Exception],
        may_write: Path | None = None,
        seconds: float = SECONDS,
        kibibytes: int = KIBIBYTES,
    ) -> None:
        self.refused = False
        self.was_slow = False  # which may be the fault of a busy machine
        self._most = seconds, kibibytes
        self._refusal = refusal
        self._may_write = may_write
        self._seen: list[str] = []

    def flaw(self, call: Callable[[], object]) -> str | None:
        """What is wrong with it: anything but that it works, or is refused with the right error."""
        _reset_peak()
        modules, began, peak = set(sys.modules), time.monotonic(), _peak()
        _watching.append(self)
        try:
            call()
        except self._refusal:
            self.refused = True
        except Exception as error:
            return f"{type(error).__name__}: {error}"[:200]
        finally:
            _watching.remove(self)
        took, grown = time.monotonic() - began, _peak() - peak
        self.was_slow = took > self._most[0]
        if self.was_slow or grown > self._most[1]:
            return f"took {took:.1f} s and {grown / 1024:.0f} MiB"
        if self._seen or set(sys.modules) != modules:
            return f"it did {', '.join(self._seen)} and imported {', '.join(set(sys.modules) - modules)}"
        return None

    def notice(self, event: str, args: tuple[Any, ...]) -> None:
        written = event.startswith(WRITES) or (event == "open" and bool((args[2] or 0) & WRITING))
        if written and self._may_write is not None:
            written = not str(args[0]).startswith(str(self._may_write))
        if written or event.startswith(RUNS):
            self._seen.append(f"{event} {args[:1]}")


_watching: list[Watch] = []


def _hook(event: str, args: tuple[Any, ...]) -> None:
    for watch in _watching:
        watch.notice(event, args)


sys.addaudithook(_hook)  # it stays for good, and does nothing while nobody watches


def _reset_peak() -> None:
    """From now on: what was needed before would hide what is needed next."""
    with suppress(OSError):  # elsewhere than on Linux it stays
        Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
