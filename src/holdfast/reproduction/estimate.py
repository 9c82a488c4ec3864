"""How long the runs that are missing would take, from a few updates, looks and answers of each kind on this machine."""

import time
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cache, lru_cache, partial
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
import torch

from holdfast import datasets, methods
from holdfast.errors import HoldfastError
from holdfast.machine import cores
from holdfast.methods.gdumb import GDumb
from holdfast.report.live import clock
from holdfast.runs.identity import work
from holdfast.runs.plan import Plan, plan
from holdfast.runs.run import Run
from holdfast.runs.spec import CHOICES, RunSpec, from_record
from holdfast.runs.store import Record
from holdfast.runs.sweep import Sweep
from holdfast.streams import source
from holdfast.streams.named import parse

UPDATES_TO_TIME = 4
OTHERS = [
    name for name, each in CHOICES.items() if each.affects and name not in ("stream", "method", "memory", "augment")
]
FREE = ("temperature", "alpha", "beta")  # options that cost nothing


def estimate(sweep: Sweep, jobs: int | None) -> str:
    torch.set_num_threads(1)  # as the processes that do runs have it
    known: dict[Hashable, float] = {}
    each = []
    for spec in sweep.missing():
        if work(spec) not in known:
            known[work(spec)] = seconds(plan(spec, sweep.sources[spec.stream]))
        each.append(known[work(spec)])
    jobs = jobs or cores()
    whole = max(sum(each) / jobs, *each, 0.0)
    return (
        f"{len(each)} of {len(sweep.ids)} runs are missing: "
        f"about {clock(whole)} ({'h:mm:ss' if whole >= 3600 else 'm:ss'}) with {jobs} at a time"
    )


class Estimates:
    """Seconds of single runs: by the runs in a store that compute the same in an update, or else by a few updates.

    What a record says of its time is without probes, so runs with probes are tried.
    """

    def __init__(self, rows: Iterable[Record], root: Path) -> None:
        self._per_update: dict[Hashable, list[float]] = {}
        self._source = lru_cache(maxsize=2)(partial(source, root=root))  # a dataset is large
        for row in rows:
            if methods.file_of(row["method"]):
                continue  # a file of the user's is not executed for this
            with suppress(HoldfastError):  # a record of what this version does not know
                spec = from_record(row)
                if not spec.probe:
                    self._per_update.setdefault(_update_of(spec), []).append(row["seconds"] / row["updates"])

    def plan(self, spec: RunSpec) -> Plan:
        return plan(spec, self._source(spec.stream))

    def seconds(self, spec: RunSpec) -> float:
        planned, update = self.plan(spec), _update_of(spec)
        updates = len(planned.stream())
        if update not in self._per_update:
            torch.set_num_threads(1)
            self._per_update[update] = [seconds(planned) / updates]
        return median(self._per_update[update]) * updates


def _update_of(spec: RunSpec) -> Hashable:
    """What decides how long an update takes. Where answers come from the memory, its size does, too."""
    stream, method = parse(spec.stream), methods.make(spec.method, spec.options)
    answers_from_memory = method.answers_from_memory or method.trains_to_answer
    shape, classes = _datasets().get(stream.kind, (spec.stream, 0))
    return (
        (shape, stream.options.get("rehearsal"), stream.options.get("batch")),
        (spec.method, frozenset((key, value) for key, value in spec.options.items() if key not in FREE)),
        tuple(getattr(spec, name) for name in OTHERS),
        spec.memory * classes if answers_from_memory else None,
    )


@cache
def _datasets() -> dict[str, tuple[Hashable, int]]:
    """The shape of samples, and the number of classes."""
    return {row.name: (row.sample_shape, row.classes) for row in datasets.listing(Path())}


def seconds(planned: Plan) -> float:
    """Of one run. A net that is trained to answer is trained for one round, which counts as many times as there are."""
    method, rounds = planned.method, 1
    if isinstance(method, GDumb):
        once, rounds = replace(method, rounds=1), method.rounds
        planned = replace(planned, method=once, start=once if planned.start is method else planned.start)
    run = Run(planned)
    first, *later = pairwise([0, *sorted(run.stream.task_ends)])
    total = first[1] * _seconds_of_an_update(run, *first)
    _fill_memory(run, updates=first[1])
    total += _seconds_of_answers(run, rounds) + _seconds_of_probes(planned)
    if later:
        timed = [_seconds_of_an_update(run, *task) for task in (later[0], later[-1])]
        total += (len(run.stream) - first[1]) * sum(timed) / len(timed)
    return total


def _seconds_of_an_update(run: Run, start: int, end: int) -> float:
    """Of a task. Methods that are told the task replay nothing in the first, and a stream may let replay grow."""
    updates = min(UPDATES_TO_TIME, end - start)
    untimed = updates if end - start >= 2 * updates else 0
    for number in range(start, start + untimed):
        _update(run, number)
    timed = range(start + untimed, start + untimed + updates)
    return sum(_timed(partial(_update, run, number)) for number in timed) / updates


def _update(run: Run, number: int) -> None:
    learner = run.learner
    x, y, task = run.stream.batch(number)
    run.plan.enter(task, learner, run.stream)
    learner.observe(x, y, task=task)


def _fill_memory(run: Run, updates: int) -> None:
    """With samples of the first task, so many updates long: the memory is full after a small part of the stream."""
    learner, rows = run.learner, run.stream.order[: run.stream.starts[updates]]
    held = np.resize(rows, learner.memory.capacity)
    if len(held) and not learner.memory.extras:  # which nobody could make up
        learner.remember(run.stream.dataset.train_x[held], run.stream.dataset.train_y[held])


def _seconds_of_answers(run: Run, rounds: int) -> float:
    """Getting ready to answer, which may mean class means or a net trained on the memory, and the test samples."""
    learner, evaluator = run.learner, run.evaluator
    asked = sum(map(evaluator.due, range(1, len(run.stream) + 1))) if learner.method.anytime else 1
    getting_ready = _timed(partial(evaluator.scores, learner))
    return asked * rounds * getting_ready + evaluator.seconds(learner)


def _seconds_of_probes(planned: Plan) -> float:
    """Of a learner that has its memory full, and its whole stream before it."""
    if not planned.spec.probe:
        return 0.0
    run = Run(planned)
    if len(run.stream) > 1:
        _update(run, 0)
    _fill_memory(run, updates=min(run.stream.task_ends))
    looks = sum(run.looks_at(step) for step in range(1, len(run.stream) + 1))
    return looks * (_timed(run.look_ahead) + _timed(partial(run.look_back, due=True)))


def _timed(do: Callable[[], object]) -> float:
    start = time.perf_counter()
    do()
    return time.perf_counter() - start
