"""What one can look at while a run is under way. A probe works on copies or asks without learning: the run's bits
do not depend on it."""

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from holdfast.batch import Batch
from holdfast.learner import Learner
from holdfast.losses import unit
from holdfast.nets import Net
from holdfast.streams import Stream

CHUNK = 64
TESTED_PER_CLASS = 100
DRAWN_PER_CLASS = 40
DRAWN_AT = (1, 100, 400)


class Probe:
    """`before` looks at the step that is to come, `after` at the learner as it is then. None: nothing to note."""

    def before(self, learner: Learner, stream: Stream) -> Any:
        return None

    def after(self, learner: Learner, stream: Stream, *, due: bool) -> Any:
        """`due`: an evaluation falls on this step."""
        return None


class Drift(Probe):
    """How far the next update moves the normalised features of the samples in memory: the mean of each class."""

    def before(self, learner: Learner, stream: Stream) -> Any:
        if not len(learner.memory):
            return None
        held = learner.memory.at(np.arange(len(learner.memory)))
        twin = _after_next_step(learner, stream)
        moved = (_features(learner.net, held.x) - _features(twin.net, held.x)).norm(dim=1)
        return _mean_by_class(moved, held.y)


class Gradient(Probe):
    """The norm of the next step's gradient with respect to each sample's features: the mean of each class."""

    def before(self, learner: Learner, stream: Stream) -> Any:
        twin = copy.deepcopy(learner)
        batches: list[Batch] = []
        forwarded: list[tuple[Tensor, Tensor]] = []

        def note(encoder: nn.Module, given: tuple[Tensor], features: Tensor) -> None:
            if features.requires_grad:
                features.retain_grad()
                forwarded.append((given[0], features))

        twin.training.register_view_hook(batches.append)
        twin.net.encoder.register_forward_hook(note)
        _observe_next(twin, stream)
        norms = [
            (out.grad.norm(dim=1), batch.y)
            for x, out in forwarded
            for batch in batches
            if batch.x is x and out.grad is not None
        ]
        return _mean_by_class(*map(torch.cat, zip(*norms, strict=True))) if norms else None


class PrototypeGradient(Probe):
    """The norm of the next step's gradient with respect to each row of the head, the prototype of its class."""

    def before(self, learner: Learner, stream: Stream) -> Any:
        twin, norms = copy.deepcopy(learner), dict[str, float]()

        def note(*_: Any) -> None:
            gradient = twin.net.head.weight.grad
            if gradient is not None:
                norms.update((str(c), float(norm)) for c, norm in enumerate(gradient[: twin.net.seen].norm(dim=1)))

        twin.optimizer.register_step_pre_hook(note)
        _observe_next(twin, stream)
        return norms or None


class Alignment(Probe):
    """At the end of a task, for each sample in memory its best cosine similarity to a test sample of its class: the
    mean of each class."""

    def after(self, learner: Learner, stream: Stream, *, due: bool) -> Any:
        if learner.step not in stream.task_ends or not len(learner.memory):
            return None
        held = learner.memory.at(np.arange(len(learner.memory)))
        best = torch.empty(len(held.y))
        for index, label in enumerate(learner.classes):
            test = torch.from_numpy(stream.dataset.test_x[stream.dataset.test_y == label])
            mine = held.y == index
            if mine.any():
                best[mine] = (_features(learner.net, held.x[mine]) @ _features(learner.net, test).T).amax(1)
        return _mean_by_class(best, held.y)


class Projection(Probe):
    """In the second task, at its first, 100th, 400th and last update: features of test samples and the head's rows."""

    def after(self, learner: Learner, stream: Stream, *, due: bool) -> Any:
        ends = sorted(stream.task_ends)
        if len(ends) < 2 or learner.step not in (*(ends[0] + at for at in DRAWN_AT), ends[1]) or learner.step > ends[1]:
            return None
        rows = [
            np.flatnonzero(stream.dataset.test_y == label)[:DRAWN_PER_CLASS]
            for task in stream.tasks[:2]
            for label in task
        ]
        x = torch.from_numpy(stream.dataset.test_x[np.concatenate(rows)])
        known = {label: index for index, label in enumerate(learner.classes)}
        prototypes = unit(learner.net.head.weight.detach())
        return {
            "iteration": learner.step - ends[0],
            "label": stream.dataset.test_y[np.concatenate(rows)].tolist(),
            "features": _rounded(_features(learner.net, x)),
            "prototypes": {
                str(c): _rounded(prototypes[known[c]]) for task in stream.tasks[:2] for c in task if c in known
            },
        }


class CurrentTask(Probe):
    """The accuracy on the present task, on the first test samples of its classes."""

    def after(self, learner: Learner, stream: Stream, *, due: bool) -> Any:
        if not due or not learner.method.anytime or len(stream.task_ends) == 1:
            return None
        truth = stream.dataset.test_y
        classes = stream.tasks[int(stream.batch_task[learner.step - 1])]
        rows = np.concatenate([np.flatnonzero(truth == label)[:TESTED_PER_CLASS] for label in classes])
        answers = [label for part in _chunks(rows) for label in learner.predict(stream.dataset.test_x[part])]
        return float((np.array(answers) == truth[rows]).mean())


PROBES: dict[str, Probe] = {
    "drift": Drift(),
    "gradient": Gradient(),
    "prototype-gradient": PrototypeGradient(),
    "alignment": Alignment(),
    "projection": Projection(),
    "current-task": CurrentTask(),
}


def _after_next_step(learner: Learner, stream: Stream) -> Learner:
    twin = copy.deepcopy(learner)
    _observe_next(twin, stream)
    return twin


def _observe_next(learner: Learner, stream: Stream) -> None:
    x, y, task = stream.batch(learner.step)
    learner.observe(x, y, task=task)


@torch.no_grad()
def _features(net: Net, x: Tensor) -> Tensor:
    device = net.head.weight.device
    return torch.cat([unit(net.features(x[i : i + CHUNK].to(device))) for i in range(0, len(x), CHUNK)]).cpu()


def _mean_by_class(values: Tensor, classes: Tensor) -> dict[str, float]:
    """Classes by the order of their first appearance."""
    return {str(int(c)): float(values[classes == c].mean()) for c in torch.unique(classes)}


def _chunks(rows: "np.ndarray[Any, Any]") -> Iterator[Any]:
    return (rows[start : start + CHUNK] for start in range(0, len(rows), CHUNK))


def _rounded(values: Tensor) -> Any:
    return np.round(values.cpu().numpy().astype(np.float64), 4).tolist()
