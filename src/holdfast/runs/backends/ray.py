"""The Ray backend: runs on the nodes of a cluster, which may die and be replaced while they work."""

import importlib.util
import logging
import shutil
import socket
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.errors import InputError
from holdfast.methods import file_of
from holdfast.runs.spec import RunSpec
from holdfast.runs.worker import Died, Event, Failed, Finished, Job, perform
from holdfast.streams import Source

RAY_PORT = 6379
SECONDS_TO_ANSWER = 5
SECONDS_BETWEEN_REPORTS = 1  # each costs the command some milliseconds, and there may be hundreds of runs
QUEUED = 1  # jobs waiting at the cluster for each that runs: no node waits for the next one


class Cluster:
    """`address` as Ray knows it: auto, or HOST:PORT; None starts a cluster of its own on this machine."""

    def __init__(
        self,
        sources: Mapping[str, Source],
        specs: Iterable[RunSpec],
        address: str | None = None,
        *,
        jobs: int | None = None,
        cpus: float = 1,
        gpus: float = 0,
    ) -> None:
        if importlib.util.find_spec("ray") is None:
            raise InputError("--backend ray needs Ray: pip install 'holdfast[ray]'")
        import ray

        self._ray: Any = ray
        self._wanted = {name: amount for name, amount in (("CPU", cpus), ("GPU", gpus)) if amount}
        self._jobs = jobs
        self._connect(address, specs)
        self._sources = {stream: ray.put(source) for stream, source in sources.items()}
        self._work = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=0, num_returns="streaming")(_work)
        self._device = "cuda" if gpus else "cpu"
        self._running: dict[Any, Job] = {}

    @property
    def room(self) -> int:
        have = self._ray.cluster_resources()
        places = min(int(have.get(name, 0) / amount) for name, amount in self._wanted.items())
        return (self._jobs or (1 + QUEUED) * max(1, places)) - len(self._running)

    def start(self, job: Job) -> None:
        there = replace(job, device=self._device, report_every=SECONDS_BETWEEN_REPORTS)
        self._running[self._work.remote(there, self._sources[job.spec.stream])] = job

    def events(self) -> list[Event]:
        ready, _ = self._ray.wait(list(self._running), num_returns=1)
        return [self._next(stream) for stream in ready]

    def stop(self) -> list[Event]:
        """Runs under way go on from their latest snapshots next time."""
        for stream in self._running:
            self._ray.cancel(stream, force=True)
        self._running.clear()
        self._ray.shutdown()
        return []

    def _next(self, stream: Any) -> Event:
        job = self._running[stream]
        try:
            event: Event = self._ray.get(next(stream))
        except StopIteration:
            event = Died(job.spec, "its worker ended without a word")
        except self._ray.exceptions.RayError as error:
            event = Died(job.spec, f"{type(error).__name__}: {error}".splitlines()[0])
        if isinstance(event, Finished | Failed | Died):
            del self._running[stream]
        return event

    def _connect(self, address: str | None, specs: Iterable[RunSpec]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
            options |= {"include_dashboard": False} if address is None else {"address": _reachable(address)}
            if _copy_methods(specs, Path(folder)):
                options["runtime_env"] = {"working_dir": folder}
            try:
                self._ray.init(**options)
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise InputError(f"--address {address}: no Ray cluster answers there: {error}") from error


def _reachable(address: str) -> str:
    """Ray itself would try for minutes."""
    if address == "auto":
        return address
    host, _, port = address.removeprefix("ray://").partition(":")
    try:
        socket.create_connection((host, int(port or RAY_PORT)), SECONDS_TO_ANSWER).close()
    except (OSError, ValueError) as error:
        raise InputError(f"--address {address}: no Ray cluster answers there ({error})") from None
    return address if port else f"{address}:{RAY_PORT}"


def _copy_methods(specs: Iterable[RunSpec], folder: Path) -> bool:
    """Files of the user's methods, which the nodes do not have. Those with absolute paths have to be there."""
    own = {file_of(spec.method) for spec in specs}
    copied = [file for file in own if file is not None and not file.is_absolute()]
    for file in copied:
        (folder / file.parent).mkdir(parents=True, exist_ok=True)
        shutil.copy(file, folder / file)
    return bool(copied)


def _work(job: Job, source: Source) -> Iterator[Event]:
    import torch._dynamo  # noqa: F401 (what the first optimizer imports; not part of a run's time)

    yield from perform(job, lambda: source)
