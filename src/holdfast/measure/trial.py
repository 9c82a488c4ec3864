"""Trying something in a child process, where a crash or a hang costs nothing."""

import faulthandler
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from holdfast.errors import HoldfastError

MOST_BYTES = 65_536  # of an outcome: as much as a pipe holds, so that the child never waits for us

Work = Callable[[], Any]


class TrialFailed(HoldfastError):
    """It was killed, took too long, raised an exception or answered nonsense."""


def possible() -> bool:
    """A forked child has the net and the samples at hand as they are. On macOS, system libraries do not survive it."""
    return hasattr(os, "fork") and sys.platform != "darwin"


def in_child(work: Work, seconds: float) -> Any:
    """What `work` returns, which has to be JSON, or a TrialFailed that says what became of it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _live_and_die(work, writing)
    os.close(writing)
    try:
        said = _hear(reading, time.monotonic() + seconds)
    finally:
        os.close(reading)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if said is None:
        raise TrialFailed(f"no answer in {seconds:g} s")
    try:
        outcome = json.loads(said)
        if "error" in outcome:
            raise TrialFailed(str(outcome["error"]))
        return outcome["result"]
    except (ValueError, KeyError, TypeError):
        died = signal.strsignal(-status) if status < 0 else f"exit code {status}"
        raise TrialFailed(f"it ended with {died}") from None


def _live_and_die(work: Work, writing: int) -> None:
    """Nothing of the parent's is run at the end, and nothing is said on its terminal."""
    try:
        _keep_quiet()
        try:
            outcome = {"result": work()}
        except Exception as error:
            outcome = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        os.write(writing, json.dumps(outcome).encode()[:MOST_BYTES])
    finally:
        os._exit(0)


def _keep_quiet() -> None:
    import resource

    faulthandler.disable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def _hear(reading: int, until: float) -> bytes | None:
    """All that is said until the other end is closed; None if that takes too long."""
    said = b""
    while True:
        ready, _, _ = select.select([reading], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            return None
        part = os.read(reading, MOST_BYTES)
        if not part:
            return said
        said += part
