"""`holdfast cost`: what a run would compute, without computing it."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import torch
from rich.progress import Progress, TextColumn
from torch import Tensor, nn

from holdfast.commands.options import add_choices, given
from holdfast.datasets.get import data_root
from holdfast.learner import Learner
from holdfast.measure.ledger import Ledger
from holdfast.nets import Encoder
from holdfast.report.tables import costs
from holdfast.report.terminal import terminal
from holdfast.reproduction.estimate import seconds as estimated_seconds
from holdfast.runs.grid import grid
from holdfast.runs.plan import plan
from holdfast.runs.spec import CHOICES, RunSpec
from holdfast.streams import source


class WithoutArithmetic(Encoder):
    """Gives features of the right shape but computes none. A ledger books what the real encoder would compute."""

    def __init__(self, stands_for: Encoder, sample_template: Tensor) -> None:
        super().__init__(nn.Identity())
        self.stands_for = stands_for
        with torch.no_grad():
            self._features = stands_for.eval()(sample_template).shape[1]

    def forward(self, x: Tensor) -> Tensor:
        learned = next(self.stands_for.parameters(), torch.zeros(1))
        return learned.flatten()[:1].expand(len(x), self._features) * 0


def estimate(spec: RunSpec, root: Path, advance: Callable[[], None] = lambda: None) -> Ledger:
    """The ledger of a run: the method and its memory see the whole stream, only the encoder rests."""
    planned = plan(spec, source(spec.stream, root))
    learner, stream = planned.learner(), planned.stream()
    evaluator = planned.evaluator(stream)
    shape = stream.dataset.sample_shape
    for net in learner.nets:
        net.encoder = WithoutArithmetic(net.encoder, torch.zeros(1, *shape))
    ledger = Ledger()
    query_costs: dict[tuple[int, int], int] = {}
    for i in range(len(stream)):
        x, y, task = stream.batch(i)
        planned.enter(task, learner, stream)
        with ledger.watch("training"):
            learner.observe(x, y, task=task)
        if evaluator.due(learner.step):
            ledger.weigh(learner)
            if evaluator.answers_now(learner):
                _book_query(learner, ledger, query_costs)
        advance()
    return ledger


def _book_query(learner: Learner, ledger: Ledger, known: dict[tuple[int, int], int]) -> None:
    """What getting ready to answer costs depends on how much is held and how many classes there are."""
    size = len(learner.memory), learner.net.seen
    if size not in known:
        before = ledger.macs["query"]
        with ledger.watch("query"):
            learner.method.predictor(learner.answering_net(), learner.memory)
        known[size] = ledger.macs["query"] - before
    else:
        ledger.macs["query"] += known[size]


def describe(parser: argparse.ArgumentParser) -> None:
    add_choices(parser, *(name for name, choice in CHOICES.items() if choice.affects == "macs"))
    parser.add_argument(
        "--data", metavar="DIR", help="where datasets are (default $HOLDFAST_DATA, or the user's cache)"
    )
    parser.add_argument("--json", action="store_true", help="as JSON: multiply-adds by purpose, mean bytes, seconds")
    parser.set_defaults(command=cost, seeds=1)


def cost(options: argparse.Namespace) -> int:
    torch.set_num_threads(1)
    root = data_root(options.data)
    specs = grid(**given(options))
    sizes = {spec: len(plan(spec, source(spec.stream, root)).stream()) for spec in specs}
    under_way = terminal(stderr=True)
    columns = TextColumn("{task.description}", markup=False), *Progress.get_default_columns()[1:]
    ledgers, seconds = {}, {}
    with Progress(*columns, console=under_way, transient=True, disable=not under_way.is_terminal) as progress:
        for spec, total in sizes.items():
            bar = progress.add_task(spec.title, total=total)
            ledgers[spec.title] = estimate(spec, root, lambda bar=bar: progress.advance(bar))  # type: ignore[misc]
            seconds[spec.title] = estimated_seconds(plan(spec, source(spec.stream, root)))
    if options.json:
        found = {
            title: {**ledger.macs, "total": ledger.train_macs, "bytes": ledger.mean_bytes, "seconds": seconds[title]}
            for title, ledger in ledgers.items()
        }
        print(json.dumps(found, indent=2))
    else:
        terminal().print(costs(specs[0], ledgers, seconds))
    return 0
