"""The backend inside this process: one run at a time, with objects that only this process has."""

from collections.abc import Iterator, Mapping

import torch

from holdfast.runs.plan import Nets
from holdfast.runs.worker import Event, Failed, Finished, Job, perform
from holdfast.streams import Source


class Inside:
    """An interrupt ends the run under way; it goes on from its latest snapshot next time."""

    def __init__(self, sources: Mapping[str, Source], nets: Nets) -> None:
        self._sources, self._nets = sources, nets
        self._running: Iterator[Event] | None = None
        self._threads = torch.get_num_threads()

    @property
    def room(self) -> int:
        return 1 if self._running is None else 0

    def start(self, job: Job) -> None:
        self._running = perform(job, lambda: self._sources[job.spec.stream], nets=self._nets)

    def events(self) -> list[Event]:
        assert self._running is not None
        event = next(self._running)
        if isinstance(event, Finished | Failed):
            self._running = None
        return [event]

    def stop(self) -> list[Event]:
        torch.set_num_threads(self._threads)  # a run has one
        return []
