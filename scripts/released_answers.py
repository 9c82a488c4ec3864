"""Anytime accuracy of SS-IL or iCaRL, with our way to answer and with that of the paper's released code.

    python scripts/released_answers.py ss-il [cifar10]
    python scripts/released_answers.py icarl [cifar10]

Makes one run, on the embedded images or another stream, and asks it twice at every evaluation. In the released code
(github.com/pclucas14/AML) SS-IL answers among all classes, also those still to come, whose rows of the head no loss of
SS-IL pushes down; iCaRL compares raw features with the means of raw features, not unit vectors.
"""

import sys
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor

from holdfast.datasets.get import data_root
from holdfast.learner import Learner
from holdfast.measure import metrics
from holdfast.methods import Scores
from holdfast.runs.plan import plan
from holdfast.runs.run import Run
from holdfast.runs.spec import RunSpec
from holdfast.streams import source

NOT_A_CLASS = -1
AT_ONCE = 500


def among_all(learner: Learner, classes: int) -> Scores:
    """The rows of a head depend on seed and number only, so those it would have had can be added now."""
    net = learner.answering_net().frozen()
    net.head.grow(net.seen, classes, net.head.weight.shape[1], torch.optim.SGD(net.parameters(), lr=1.0))
    return lambda x: net(x, unseen=True)


def nearest_raw_mean(learner: Learner, classes: int) -> Scores:
    net, held = learner.answering_net(), learner.memory.at(np.arange(len(learner.memory)))
    parts = [net.features(held.x[start : start + AT_ONCE]) for start in range(0, len(held.y), AT_ONCE)]
    features = torch.cat(parts)
    means = torch.full((classes, features.shape[1]), torch.inf)
    for label in set(held.y.tolist()):
        means[label] = features[held.y == label].mean(0)

    def scores(x: Tensor) -> Tensor:
        return -torch.cdist(net.features(x), means, compute_mode="donot_use_mm_for_euclid_dist")

    return scores


RELEASED: dict[str, Callable[[Learner, int], Scores]] = {"ss-il": among_all, "icarl": nearest_raw_mean}


def main() -> None:
    torch.set_num_threads(1)
    method, stream = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "fashion"
    spec = RunSpec(stream=stream, method=method, memory=20, lr=0.01, eval_mode="rotating:100")
    planned = plan(spec, source(stream, data_root()))
    run = Run(planned)
    learner, evaluator = run.learner, planned.evaluator(run.stream)
    classes = len(run.stream.dataset.classes)
    found = []
    while not run.done:
        run.advance()
        if not evaluator.due(learner.step):
            continue
        labels = [*learner.classes, *[NOT_A_CLASS] * (classes - len(learner.classes))]
        asked = SimpleNamespace(step=learner.step, classes=labels, device=learner.device)
        with torch.no_grad():
            found.append(evaluator.evaluate(asked, RELEASED[method](learner, classes), seen=0))  # type: ignore[arg-type]
        if learner.step in run.stream.task_ends:
            print(f"{learner.step} of {len(run.stream)} updates", flush=True)
    ours = [each for _, each in run.anytime()]
    theirs = [metrics.anytime_accuracy(each, run.stream.tasks) for each in found]
    for name, accuracies in (("our", ours), ("the released code's", theirs)):
        averaged = sum(accuracies) / len(accuracies)
        print(f"{method}, {name} answers: AAA {100 * averaged:.1f} %, at the end {100 * accuracies[-1]:.1f} %")


if __name__ == "__main__":
    main()
