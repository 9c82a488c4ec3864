"""A run as a worker does it, wherever the worker is: a job goes in, events come out."""

import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch

from holdfast.allocator import keep_freed_memory
from holdfast.errors import HoldfastError
from holdfast.runs.plan import Nets, plan
from holdfast.runs.run import Progress, Run
from holdfast.runs.spec import RunSpec
from holdfast.streams import Source

SHARE_FOR_SNAPSHOTS = 0.005  # of a run's time: large memories are saved less often


@dataclass(frozen=True, slots=True)
class Job:
    spec: RunSpec
    snapshot: bytes | None = None  # where to go on from
    snapshot_every: float = 60  # seconds
    report_every: float = 0.25  # seconds
    keep_learner: bool = False
    device: str = "cpu"
    precision: str | None = None  # None: as the environment says


@dataclass(frozen=True, slots=True)
class Started:
    spec: RunSpec


@dataclass(frozen=True, slots=True)
class Noted:
    """Something about the run that the user should know."""

    spec: RunSpec
    text: str


@dataclass(frozen=True, slots=True)
class Advanced:
    spec: RunSpec
    progress: Progress
    anytime: list[tuple[int, float]]  # step and anytime accuracy of the evaluations since the last such event


@dataclass(frozen=True, slots=True)
class Saved:
    spec: RunSpec
    snapshot: bytes


@dataclass(frozen=True, slots=True)
class Finished:
    spec: RunSpec
    record: dict[str, Any]
    artifacts: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failed:
    spec: RunSpec
    why: str


@dataclass(frozen=True, slots=True)
class Died:
    """The worker is gone, the run itself did nothing wrong that is known of."""

    spec: RunSpec
    why: str


Event = Started | Noted | Advanced | Saved | Finished | Failed | Died


def perform(
    job: Job,
    load: Callable[[], Source],
    stopping: Callable[[], bool] = lambda: False,
    nets: Nets = MappingProxyType({}),
) -> Iterator[Event]:
    """Everything from where the job stands to its end, or to its last snapshot when it is told to stop."""
    torch.set_num_threads(1)
    keep_freed_memory()
    yield Started(job.spec)
    try:
        run = Run(plan(job.spec, load(), nets), job.device, job.precision)
        if job.snapshot is not None and run.take_up(job.snapshot) and run.moved:
            yield Noted(job.spec, f"was begun elsewhere ({run.moved}): its last bits will be those of neither place")
        yield from _go_on(run, job, stopping)
    except HoldfastError as error:
        yield Failed(job.spec, str(error) or repr(error))
    except Exception:
        yield Failed(job.spec, traceback.format_exc())


def _go_on(run: Run, job: Job, stopping: Callable[[], bool]) -> Iterator[Event]:
    reported = saved = time.monotonic()
    evaluated, wait = run.learner.step, job.snapshot_every
    while not run.done:
        run.advance()
        now = time.monotonic()
        if stopping() or now - saved > wait:
            yield Saved(job.spec, run.snapshot())
            saved = time.monotonic()
            wait = max(job.snapshot_every, (saved - now) / SHARE_FOR_SNAPSHOTS)
        if stopping():
            return
        if now - reported > job.report_every:
            reported = now
            yield Advanced(job.spec, run.progress, run.anytime(evaluated))
            evaluated = run.learner.step
    record = run.record()
    yield Finished(job.spec, record, run.artifacts(keep_learner=job.keep_learner))
