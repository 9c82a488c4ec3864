"""How long the runs that are missing would take, from a few updates, looks and answers of each kind on this machine."""

import time
from collections.abc import Callable
from functools import partial

import torch

from holdfast.report.live import clock
from holdfast.runs.command import cores
from holdfast.runs.plan import Plan, plan
from holdfast.runs.run import Run
from holdfast.runs.sweep import Sweep

UPDATES_TO_TIME = 4


def estimate(sweep: Sweep, jobs: int | None) -> str:
    torch.set_num_threads(1)  # as the processes that do runs have it
    kinds: dict[object, float] = {}
    total = 0.0
    for spec in sweep.missing():
        kind = (spec.stream, spec.title, spec.memory, spec.augment, spec.net, spec.probe, spec.start)
        if kind not in kinds:
            kinds[kind] = seconds(plan(spec, sweep.sources[spec.stream]))
        total += kinds[kind]
    jobs = jobs or cores()
    return (
        f"{len(sweep.missing())} of {len(sweep.ids)} runs are missing: "
        f"about {clock(total / jobs)} (h:mm:ss) with {jobs} at a time; nets trained to answer come on top"
    )


def seconds(planned: Plan) -> float:
    run = Run(planned)
    for _ in range(UPDATES_TO_TIME):
        run.advance()
    update = sum(_timed(run.advance) for _ in range(UPDATES_TO_TIME)) / UPDATES_TO_TIME
    answers = planned.evaluator(run.stream).seconds(run.learner)
    return update * len(run.stream) + answers + _seconds_of_probes(run)


def _seconds_of_probes(run: Run) -> float:
    """Probes look at the whole memory, and it is full after a small part of the stream."""
    if not run.plan.spec.probe:
        return 0.0
    learner, held = run.learner, run.stream.order[: run.learner.memory.capacity]
    if len(held) and not learner.method.keeps:
        learner.remember(run.stream.dataset.train_x[held], run.stream.dataset.train_y[held])
    looks = sum(run.looks_at(step) for step in range(1, len(run.stream) + 1))
    return looks * (_timed(run.look_ahead) + _timed(partial(run.look_back, due=True)))


def _timed(do: Callable[[], object]) -> float:
    start = time.perf_counter()
    do()
    return time.perf_counter() - start
