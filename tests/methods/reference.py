"""The formulas of the methods as loops over samples and classes in float64, and small nets to try them on.

Scalars stay tensors, so that the gradient of a formula comes from the formula, too.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from holdfast import Batch, Learner, Method, mlp
from holdfast.batch import Task
from holdfast.nets import HEADS, Net

Row = list[float]


def net_of(seen: int, head: str = "linear", seed: int = 0) -> Net:
    net = Net(mlp((4,), seed, width=6), HEADS[head](seed)).double()
    net.head.grow(seen, seen, 6, torch.optim.SGD(net.parameters(), lr=0.1))
    return net


def learner_of(method: Method, *, memory: int = 10, lr: float = 0.1, width: int = 6) -> Learner:
    """A learner that computes in float64."""
    learner = Learner(mlp((4,), width=width), method, memory=memory, lr=lr)
    learner.net.double()
    return learner


def samples(n: int, seed: int) -> Tensor:
    return torch.tensor(np.random.default_rng(seed).standard_normal((n, 4)))


def batch_of(y: Sequence[int], seed: int, task: Task | None = None) -> Batch:
    return Batch(samples(len(y), seed), torch.tensor(y), task=task)


def logits_of(net: Net, x: Tensor) -> list[list[Tensor]]:
    """w_c · f(x) + b_c, sample by sample and class by class."""
    weight, bias = net.head.weight, net.head.bias
    assert isinstance(bias, Tensor)
    return [[(weight[c] * f).sum() + bias[c] for c in range(net.seen)] for f in net.features(x)]


def mean(values: Iterable[Tensor]) -> Tensor:
    every = list(values)
    return sum(every, torch.zeros((), dtype=torch.float64)) / len(every)


def cross_entropy(net: Net, batch: Batch, among: Iterable[int] | None = None) -> Tensor:
    """-mean of log( exp(l_y) / Σ_{c in among} exp(l_c) )"""
    rivals = set(range(net.seen) if among is None else among)
    rows = zip(logits_of(net, batch.x), batch.y.tolist(), strict=True)
    return mean(-(row[y].exp() / mean(row[c].exp() for c in rivals) / len(rivals)).log() for row, y in rows)


def gradient(loss: Tensor, net: Net) -> Tensor:
    """All parameters together, flat."""
    parts = torch.autograd.grad(loss, list(net.parameters()), materialize_grads=True)
    return torch.cat([part.flatten() for part in parts])


def gradient_left(net: Net) -> Tensor:
    """What a method's `learn` left in the parameters, flat."""
    return torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in net.parameters()])


def weights(net: Net) -> Tensor:
    return torch.cat([p.detach().flatten() for p in net.parameters()]).clone()


def grown(net: Net, seen: int) -> Net:
    """A copy as it will be when its head has grown. Rows depend on the seed and their number only."""
    copy = net.frozen().requires_grad_(True)
    features = net.head.weight.shape[1] or 6
    copy.head.grow(seen, seen, features, torch.optim.SGD(copy.parameters(), lr=0.1))
    return copy


def unit(vector: Row) -> Row:
    norm = math.hypot(*vector)
    return [v / norm for v in vector]


def nearest(net: Net, held: Batch, pending: Tensor, normalise: bool = True) -> list[int]:
    """The classes whose mean of (normalised) features, normalised again, is nearest to those of each question."""

    def point(x: Tensor) -> Row:
        f: Row = net.features(x[None])[0].tolist()
        return unit(f) if normalise else f

    members: dict[int, list[Row]] = {}
    for x, y in zip(held.x, held.y.tolist(), strict=True):
        members.setdefault(y, []).append(point(x))
    means = {c: [math.fsum(column) / len(rows) for column in zip(*rows, strict=True)] for c, rows in members.items()}
    answers = []
    for question in pending:
        here = point(question)
        distances = {c: math.dist(here, unit(row) if normalise else row) for c, row in means.items()}
        answers.append(min(distances, key=distances.__getitem__))
    return answers


def everything(learner: Learner) -> Batch:
    """All that the memory holds, in float64."""
    if not len(learner.memory):
        return Batch(torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64))
    held = learner.memory.at(np.arange(len(learner.memory)))
    return Batch(held.x.double(), held.y, held.extra)


def below(batch: Batch, start: int) -> Batch | None:
    """The samples of classes before `start`."""
    return Batch(batch.x[batch.y < start], batch.y[batch.y < start]) if (batch.y < start).any() else None
