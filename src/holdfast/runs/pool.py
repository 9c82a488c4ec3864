"""Runs in parallel: one single-threaded process a run, as many at a time as asked for."""

import contextlib
import ctypes
import multiprocessing
import signal
import time
import traceback
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from holdfast.runs.run import Progress, run
from holdfast.runs.spec import RunSpec

SECONDS_BETWEEN_REPORTS = 0.25


@dataclass(frozen=True, slots=True)
class Started:
    spec: RunSpec


@dataclass(frozen=True, slots=True)
class Advanced:
    spec: RunSpec
    progress: Progress


@dataclass(frozen=True, slots=True)
class Finished:
    spec: RunSpec
    record: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Failed:
    spec: RunSpec
    why: str


Event = Started | Advanced | Finished | Failed


def run_all(specs: Sequence[RunSpec], root: Path, jobs: int) -> Generator[Event, None, None]:
    """Runs every spec and yields what happens as it happens. Closing the iterator ends the runs under way."""
    context = _context()
    waiting = list(specs)
    active: dict[Connection, tuple[RunSpec, BaseProcess]] = {}
    try:
        while waiting or active:
            while waiting and len(active) < jobs:
                spec = waiting.pop(0)
                ours, theirs = context.Pipe(duplex=False)
                process: BaseProcess = context.Process(target=_work, args=(spec, root, theirs), daemon=True)
                process.start()
                theirs.close()
                active[ours] = spec, process
                yield Started(spec)
            for connection in wait(list(active)):
                assert isinstance(connection, Connection)
                spec, process = active[connection]
                try:
                    event: Event = connection.recv()
                except EOFError:
                    process.join()
                    event = Failed(spec, f"its process ended with exit code {process.exitcode}")
                if not isinstance(event, Advanced):
                    process.join()
                    connection.close()
                    del active[connection]
                yield event
    finally:
        for _, process in active.values():
            process.kill()
            process.join()


def _context() -> ForkServerContext | SpawnContext:
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["holdfast.runs.run"])  # torch is imported once, not once a run
    return context


def keep_freed_memory() -> None:
    """glibc returns large freed blocks to the system, and every step faults them in again: a tenth of its time."""
    trim_threshold, mmap_threshold = -1, -3
    with contextlib.suppress(OSError, AttributeError):  # other C libraries have no mallopt
        libc = ctypes.CDLL(None)
        for option in (trim_threshold, mmap_threshold):
            libc.mallopt(option, 1 << 30)


def _work(spec: RunSpec, root: Path, connection: Connection) -> None:
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    torch.set_num_threads(1)
    keep_freed_memory()
    last = 0.0

    def report(progress: Progress) -> None:
        nonlocal last
        if time.monotonic() - last > SECONDS_BETWEEN_REPORTS:
            last = time.monotonic()
            connection.send(Advanced(spec, progress))

    try:
        connection.send(Finished(spec, run(spec, root, report)))
    except Exception:
        connection.send(Failed(spec, traceback.format_exc()))
