"""One run, from top to bottom."""

import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

import holdfast
from holdfast import methods
from holdfast.augment import crop_and_flip
from holdfast.datasets import fingerprint
from holdfast.errors import InputError, UnknownName
from holdfast.learner import Learner
from holdfast.measure import metrics
from holdfast.measure.evaluate import Evaluation, Evaluator, Schedule
from holdfast.measure.ledger import Ledger
from holdfast.nets import NETS, default_net
from holdfast.runs.spec import RunSpec, code_hash
from holdfast.streams import Stream, named

Report = Callable[["Progress"], None]


@dataclass(frozen=True, slots=True)
class Progress:
    step: int
    steps: int
    aa: float | None
    seconds: float


def prepare(spec: RunSpec, root: Path) -> tuple[Learner, Stream, Evaluator]:
    """Everything a run needs, with every mistake in the spec found before anything starts."""
    method = methods.make(spec.method, spec.options)
    stream = named(spec.stream, root, spec.seed, method.iid_batches, method.epochs)
    if method.needs_task_ids and len(stream.tasks) == 1:
        raise InputError(f"{spec.method} is told the task, but {spec.stream} has no tasks; give it a stream that has")
    shape = stream.dataset.sample_shape
    net = spec.net or default_net(shape)
    if net not in NETS:
        raise UnknownName("net", net, NETS)
    if spec.augment and len(shape) != 3:
        raise InputError(f"--augment crops and flips images; the samples of {spec.stream} have shape {shape}")
    classes = len(stream.dataset.classes)
    learner = Learner(
        NETS[net](shape, seed=spec.seed),
        method,
        memory=spec.memory * classes,
        lr=spec.lr,
        augment=crop_and_flip if spec.augment else None,
        seed=spec.seed,
        classes=classes,
    )
    return learner, stream, Evaluator(stream, Schedule.parse(spec.eval_every, spec.eval_mode), spec.seed)


def run(spec: RunSpec, root: Path, report: Report = lambda progress: None) -> dict[str, Any]:
    """Runs `spec` and returns its record."""
    learner, stream, evaluator = prepare(spec, root)
    ledger = Ledger()
    evaluations: list[Evaluation] = []
    seen = 0
    train_seconds = 0.0
    started = time.perf_counter()
    for i in range(len(stream)):
        x, y, task = stream.batch(i)
        before = time.perf_counter()
        with ledger.watch("training"):
            learner.observe(x, y, task=task)
        train_seconds += time.perf_counter() - before
        seen += len(y)
        if evaluator.due(learner.step):
            with ledger.watch("query"):
                scores = evaluator.scores(learner) if evaluator.answers_now(learner) else None
            with ledger.watch("evaluation"):
                evaluations.append(evaluator.evaluate(learner, scores, seen))
            ledger.weigh(learner)
        aa = metrics.anytime_accuracy(evaluations[-1], stream.tasks) if evaluations else None
        report(Progress(learner.step, len(stream), aa, time.perf_counter() - started))

    task_ends = sorted(stream.task_ends)
    anytime = learner.method.anytime
    aaa = metrics.averaged_anytime_accuracy(evaluations, stream.tasks, spec.eval_every)
    forgetting = metrics.forgetting(evaluations, stream.tasks, task_ends)
    return {
        **spec.as_json(),
        "title": spec.title,
        "acc": metrics.anytime_accuracy(evaluations[-1], stream.tasks),
        "aaa": aaa if anytime else 0.0,
        "forgetting": forgetting if anytime else None,
        "train_macs": ledger.train_macs,
        "eval_macs": ledger.macs["evaluation"],
        "macs": dict(ledger.macs),
        "memory_bytes": ledger.mean_bytes,
        "seconds": time.perf_counter() - started,
        "train_seconds": train_seconds,
        "updates": learner.step,
        "fast_path_agreement": evaluator.agreement(learner),
        "state_hash": learner.state_hash(),
        "tasks": stream.tasks,
        "task_ends": task_ends,
        "evaluations": [{**asdict(e), "aa": metrics.anytime_accuracy(e, stream.tasks)} for e in evaluations],
        "data": fingerprint(stream.dataset),
        "code": code_hash(spec.method),
        "environment": environment(),
    }


def environment() -> dict[str, Any]:
    return {
        "holdfast": holdfast.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
    }
