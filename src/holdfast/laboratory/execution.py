"""Carrying out many runs: what is missing, with progress and loggers."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rich.console import Console

from holdfast.arguments import AT_LEAST_ONE, NOT_NEGATIVE, POSITIVE, real, switch, whole
from holdfast.datasets.get import data_root
from holdfast.errors import InputError, UnknownName
from holdfast.laboratory.preparation import compute_features
from holdfast.loggers import Loggers
from holdfast.machine import cores
from holdfast.measure import precision
from holdfast.report.live import Live
from holdfast.runs.backends.inside import Inside
from holdfast.runs.backends.local import Local
from holdfast.runs.plan import Nets
from holdfast.runs.spec import RunSpec
from holdfast.runs.store import Store
from holdfast.runs.sweep import Backend, Sweep
from holdfast.runs.worker import Event
from holdfast.storage import files
from holdfast.streams import Source

BACKENDS = ("local", "ray")


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How runs are done, which changes nothing in what they find. The options of the command line have these names."""

    out: Path | str = "holdfast-runs"  # where records go; runs that are there already are not repeated
    jobs: int | None = None  # runs at a time; None: one a core
    fresh: bool = False  # repeat runs even if their records are there
    retry_failed: bool = False
    snapshot_every: float = 60  # seconds
    keep_learners: bool = False
    json: Path | None = None  # also write all records there
    log: Sequence[str] = ()  # tensorboard, mlflow, wandb
    backend: str = "local"  # or ray
    address: str | None = None  # of the Ray cluster
    cpus_per_run: float | None = None
    gpus_per_run: float | None = None
    data: Path | str | None = None  # where datasets lie
    precision: str | None = None  # of evaluation

    def __post_init__(self) -> None:
        put = partial(object.__setattr__, self)
        for name in ("out", "json", "data"):
            put(name, _as_path(name, getattr(self, name)))
        put("log", [self.log] if isinstance(self.log, str) else self.log)
        if not isinstance(self.log, list | tuple) or not all(isinstance(name, str) for name in self.log):
            raise InputError(f"log must be a list of names such as 'tensorboard', not {self.log!r}")
        for name in ("fresh", "retry_failed", "keep_learners"):
            switch(name, getattr(self, name))
        if self.backend not in BACKENDS:
            raise UnknownName("backend", str(self.backend), BACKENDS)
        if self.jobs is not None:
            whole("--jobs", self.jobs, AT_LEAST_ONE)
        real("--snapshot-every", self.snapshot_every, POSITIVE)
        for option, share in (("--cpus-per-run", self.cpus_per_run), ("--gpus-per-run", self.gpus_per_run)):
            if share is not None:
                real(option, share, NOT_NEGATIVE)
        out = Path(self.out)
        if out.exists() and not out.is_dir():
            raise InputError(f"--out {out}: give a folder; that is a file")
        if self.json not in (None, files.STDOUT) and (self.json.is_dir() or not self.json.parent.is_dir()):
            raise InputError(f"--json {self.json}: give a file in a folder that exists")
        if self.json is not None and not files.is_stdout(self.json):
            files.check_output(self.json)

    @property
    def root(self) -> Path:
        return data_root(None if self.data is None else str(self.data))

    @property
    def store(self) -> Store:
        return Store(Path(self.out) / "runs.sqlite")


@dataclass(frozen=True)
class Objects:
    """What specs name that this program has, and not everybody could read or make."""

    sources: Mapping[str, Source] = field(default_factory=dict)
    nets: Nets = field(default_factory=dict)
    stay: bool = False  # other processes cannot have them

    def with_those_of(self, other: "Objects") -> "Objects":
        sources, nets = {**self.sources, **other.sources}, {**self.nets, **other.nets}
        return Objects(sources, nets, self.stay or other.stay)

    @property
    def only_inside(self) -> bool:
        return self.stay or bool(self.nets)


NOTHING = Objects()


def do_missing(specs: Sequence[RunSpec], how: Execution, console: Console, given: Objects = NOTHING) -> Sweep:
    """Runs what is not in the store yet."""
    store = how.store
    plans = Sweep(
        specs,
        store,
        how.root,
        snapshot_every=how.snapshot_every,
        keep_learners=how.keep_learners,
        precision=precision.asked(how.precision),
        sources=given.sources,
        nets=given.nets,
    )
    loggers = Loggers(how.log, Path(how.out), plans.ids)
    backend = _backend(how, plans, given)
    for stream, source in plans.sources.items():
        for note in source.dataset.notes:
            console.print(f"{stream}: {note}", highlight=False, soft_wrap=True)
    for line in plans.warnings:
        console.print(line, highlight=False, soft_wrap=True)
    store.open()
    repeat = list(plans.ids) if how.fresh else plans.failed() if how.retry_failed else []
    _say_what_is_there(console, plans, repeat)
    compute_features(plans.to_do(repeat), plans.sources, console)
    with loggers, Live(console, plans.to_do(repeat)) as live:

        def show(event: Event) -> None:
            live.show(event)
            loggers.show(event)

        plans.run(backend, show, repeat)
    if how.json:
        files.output(how.json, json.dumps(plans.records(), separators=(",", ":")).encode())
    return plans


def _as_path(name: str, given: object) -> Path | None:
    if given is None or isinstance(given, str | os.PathLike):
        return None if given is None else Path(given)
    raise InputError(f"{name} must be a path, not {given!r}")


def _backend(how: Execution, plans: Sweep, given: Objects) -> Backend:
    if given.only_inside:
        if how.backend != "local" or (how.jobs or 1) > 1:
            raise InputError(
                "classes and functions of this program run in it, one at a time; name one as file.py:Class"
            )
        return Inside(plans.sources, given.nets)
    if how.backend == "local":
        if how.address or how.cpus_per_run or how.gpus_per_run:
            raise InputError("--address, --cpus-per-run and --gpus-per-run are for --backend ray")
        return Local(how.root, how.jobs or cores(), given.sources)
    from holdfast.runs.backends.ray import Cluster

    return Cluster(
        plans.sources,
        plans.ids,
        how.address,
        jobs=how.jobs,
        cpus=how.cpus_per_run or 1,
        gpus=how.gpus_per_run or 0,
    )


def _say_what_is_there(console: Console, plans: Sweep, repeat: Sequence[RunSpec]) -> None:
    if done := len(set(plans.done()).difference(repeat)):
        notes = "".join(f", {note}" for note in plans.differences())
        console.print(
            f"{done} of {len(plans.ids)} runs are in {plans.store.file} already{notes} (--fresh repeats them)"
        )
    if failed := len(set(plans.failed()).difference(repeat)):
        console.print(f"{failed} of {len(plans.ids)} runs failed before (--retry-failed repeats them)")
