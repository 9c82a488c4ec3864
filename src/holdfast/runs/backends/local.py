"""The local backend: one single-threaded process a run at a time, as many as asked for."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.runs.worker import Died, Event, Failed, Finished, Job, perform
from holdfast.streams import Source, source

SECONDS_TO_SAVE = 4
SECONDS_TO_END = 4
SAFE_PATH = "PYTHONSAFEPATH"  # of Python: the folder it is started in holds no modules
NOT_KNOWN = 255  # an exit code that only the fork server knew, which is gone
MOST_FALSE_STARTS = 5  # processes in a row that end by themselves before they say anything: no run can be done here


@dataclass(eq=False, slots=True)
class Worker:
    process: BaseProcess
    connection: Connection
    job: Job | None = None
    has_spoken: bool = False


class Local:
    """`sources` are those that no process could read by their names."""

    def __init__(self, root: Path, processes: int, sources: Mapping[str, Source] = MappingProxyType({})) -> None:
        self._root, self._sources = root, dict(sources)
        self._processes = processes
        self._context = _context()
        self._workers: list[Worker] = []
        self._false_starts = 0

    @property
    def room(self) -> int:
        """How many more runs can be started."""
        return self._processes - len(self._busy())

    def start(self, job: Job) -> None:
        idle = [worker for worker in self._workers if worker.job is None]
        worker = idle[0] if idle else self._hire()
        worker.job = job
        with suppress(ConnectionError):  # it died while idle; events() will tell
            worker.connection.send(job)

    def events(self, seconds: float | None = None) -> list[Event]:
        """What has happened; waits until something has, or for so many seconds."""
        ready = wait([worker.connection for worker in self._busy()], seconds)
        return [self._next(worker) for worker in self._busy() if worker.connection in ready]

    def stop(self) -> list[Event]:
        """Ends all processes. Each run under way may finish its step and save itself: these are its last events."""
        for worker in self._busy():
            worker.process.terminate()
        last: list[Event] = []
        until = time.monotonic() + SECONDS_TO_SAVE
        try:
            while self._busy() and (events := self.events(max(0.0, until - time.monotonic()))):
                last += events
        finally:
            for worker in self._workers[:]:
                self._dismiss(worker)
        return [event for event in last if not isinstance(event, Died)]

    def _busy(self) -> list[Worker]:
        return [worker for worker in self._workers if worker.job is not None]

    def _hire(self) -> Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(self._root, self._sources, theirs), daemon=True)
        try:
            with _without_main(), _without_this_folder():
                process.start()
        except (EOFError, OSError) as error:  # the fork server has died
            _end_fork_server()
            self._count_false_start(f"no process for a run can be started: {str(error) or type(error).__name__}")
            return self._hire()
        except BaseException:
            _end_fork_server()  # it may be importing torch still, with our stdout open, long after we have ended
            raise
        theirs.close()
        self._workers.append(Worker(process, ours))
        return self._workers[-1]

    def _count_false_start(self, why: str) -> None:
        self._false_starts += 1
        if self._false_starts == MOST_FALSE_STARTS:
            raise HoldfastError(why)

    def _dismiss(self, worker: Worker) -> None:
        self._workers.remove(worker)
        worker.process.kill()
        worker.process.join()
        worker.connection.close()

    def _next(self, worker: Worker) -> Event:
        assert worker.job is not None
        try:
            event: Event = worker.connection.recv()
            worker.has_spoken = True
            self._false_starts = 0
        except Exception:  # its end, or half a message, whatever that looks like
            event = self._died(worker, worker.job)
        except BaseException:
            self._dismiss(worker)  # from the middle of a message there is no way on
            raise
        if isinstance(event, Finished | Failed | Died):
            worker.job = None
        return event

    def _died(self, worker: Worker, job: Job) -> Died:
        worker.process.join(SECONDS_TO_END)
        self._dismiss(worker)
        code = worker.process.exitcode or 0
        if not worker.has_spoken and 0 <= code < NOT_KNOWN:  # below 0 it was killed by a signal
            self._count_false_start("processes for runs end before they begin; what they say about it is above")
        return Died(job.spec, f"its process ended with exit code {code}")


@contextmanager
def _without_main() -> Iterator[None]:
    """A process for runs needs nothing of the script that starts it, which would be executed there once more."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextmanager
def _without_this_folder() -> Iterator[None]:
    """The fork server, which is started once, would import a file of the user's that is named as a module of Python's.

    Processes for runs have the path of this one nevertheless.
    """
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        os.environ.pop(SAFE_PATH)
        if before is not None:
            os.environ[SAFE_PATH] = before


def _end_fork_server() -> None:
    server: Any = getattr(forkserver, "_forkserver", None)
    if server is not None and server._forkserver_pid is not None:
        with suppress(ProcessLookupError):
            os.kill(server._forkserver_pid, signal.SIGKILL)
        server._stop()


def _context() -> ForkServerContext | SpawnContext:
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    # Torch, and what its optimizers import when the first is made, are imported once, not once a process.
    context.set_forkserver_preload(["holdfast.runs.worker", "torch._dynamo"])
    return context


def _serve(root: Path, sources: Mapping[str, Source], connection: Connection) -> None:
    stopping = threading.Event()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    signal.signal(signal.SIGTERM, lambda number, frame: stopping.set())
    read = lru_cache(maxsize=2)(partial(source, root=root))

    def load(stream: str) -> Source:
        return sources[stream] if stream in sources else read(stream)

    try:
        while not stopping.is_set():
            job: Job = connection.recv()
            for event in perform(job, partial(load, job.spec.stream), stopping.is_set):
                connection.send(event)
    except (EOFError, ConnectionError):
        pass  # the parent is gone; what it was told last is where the run goes on
