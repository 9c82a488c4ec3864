"""Drift of the samples in memory during the second task, measured in four ways, for comparison with the paper's T5.

    python scripts/drift_measures.py er cifar10
    python scripts/drift_measures.py er-ace cifar10

One seed, M = 20, every tenth update. Normalised features move by a distance, as the paper's text says, and by a cosine
distance (one minus the cosine), as the source of a figure it leaves out says; BatchNorm uses its running statistics,
as when the net answers, or those of the batch, as when it learns.
"""

import copy
import sys
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from holdfast.datasets.get import data_root
from holdfast.learner import Learner
from holdfast.losses import unit
from holdfast.reproduction.setting import Setting
from holdfast.runs.plan import plan
from holdfast.runs.run import Run
from holdfast.streams import source

EVERY = 10


def features(learner: Learner, x: Tensor, *, training: bool) -> Tensor:
    net = copy.deepcopy(learner.net).train(training)
    with torch.no_grad():
        return unit(net.features(x))


def update(learner: Learner, run: Run) -> None:
    x, y, task = run.stream.batch(learner.step)
    learner.observe(x, y, task=task)


def main() -> None:
    method, stream = sys.argv[1:]
    (spec,) = Setting(method=method, dataset=stream).specs(1)
    run = Run(plan(spec, source(spec.stream, data_root(None))))
    learner, moved = run.learner, []
    _, (start, end) = list(pairwise([0, *sorted(run.stream.task_ends)]))[:2]
    while learner.step < end:
        looked_at = learner.step >= start and (learner.step + 1) % EVERY == 0
        twin = copy.deepcopy(learner) if looked_at else learner
        update(learner, run)
        if looked_at:
            held = twin.memory.at(np.arange(len(twin.memory))).x
            figures = []
            for training in (False, True):
                before, after = (features(each, held, training=training) for each in (twin, learner))
                figures += [(before - after).norm(dim=1).mean(), (1 - (before * after).sum(1)).mean()]
            moved.append(torch.stack(figures))
    ways = [f"{what}, {of} statistics" for of in ("running", "batch") for what in ("distance", "cosine distance")]
    for way, mean, spread in zip(ways, torch.stack(moved).mean(0), torch.stack(moved).std(0), strict=True):
        print(f"{way:36} {mean:.4f} (standard deviation over updates {spread:.4f})")


if __name__ == "__main__":
    main()
