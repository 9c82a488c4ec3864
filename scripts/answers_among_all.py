"""Does a head that has a row for every class from the start cost SS-IL anytime accuracy?

    python scripts/answers_among_all.py [cifar10]

Runs SS-IL once, on the embedded images or another stream, and takes the anytime accuracy twice: with answers among the
classes seen so far, as everywhere here, and among all classes, as in the paper's released code. No loss of SS-IL ever
pushes down the rows of classes still to come.
"""

import sys
from types import SimpleNamespace

import torch
from torch import Tensor

from holdfast.datasets.get import data_root
from holdfast.learner import Learner
from holdfast.measure import metrics
from holdfast.measure.evaluate import Evaluation, Evaluator
from holdfast.runs.plan import plan
from holdfast.runs.run import Run
from holdfast.runs.spec import RunSpec
from holdfast.streams import source

NOT_A_CLASS = -1


def among_all(learner: Learner, evaluator: Evaluator, classes: int) -> Evaluation:
    """The rows of a head depend on seed and number only, so those it would have had can be added now."""
    net = learner.answering_net().frozen()
    to_come = classes - net.seen
    net.head.grow(net.seen, classes, net.head.weight.shape[1], torch.optim.SGD(net.parameters(), lr=1.0))

    def scores(x: Tensor) -> Tensor:
        logits: Tensor = net(x, unseen=True)
        return logits

    labels = [*learner.classes, *[NOT_A_CLASS] * to_come]
    asked = SimpleNamespace(step=learner.step, classes=labels, device=learner.device)
    return evaluator.evaluate(asked, scores, seen=0)  # type: ignore[arg-type]


def main() -> None:
    torch.set_num_threads(1)
    stream = sys.argv[1] if len(sys.argv) > 1 else "fashion"
    spec = RunSpec(stream=stream, method="ss-il", memory=20, lr=0.01, eval_mode="rotating:100")
    planned = plan(spec, source(stream, data_root()))
    run = Run(planned)
    evaluator, tasks = planned.evaluator(run.stream), run.stream.tasks
    found = []
    while not run.done:
        run.advance()
        if evaluator.due(run.learner.step):
            found.append(among_all(run.learner, evaluator, len(run.stream.dataset.classes)))
            if run.learner.step in run.stream.task_ends:
                print(f"{run.learner.step} of {len(run.stream)} updates", flush=True)
    of_seen = [each for _, each in run.anytime()]
    of_all = [metrics.anytime_accuracy(each, tasks) for each in found]
    for name, accuracies in (("seen classes", of_seen), ("all classes", of_all)):
        averaged = sum(accuracies) / len(accuracies)
        print(f"answers among {name}: AAA {100 * averaged:.1f} %, at the end {100 * accuracies[-1]:.1f} %")


if __name__ == "__main__":
    main()
