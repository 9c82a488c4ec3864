"""`holdfast tune --stream`: the learning rate for one's own stream, on training samples that are withheld."""

import argparse
import shlex
from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from holdfast import methods
from holdfast.commands.execution import execution, progress_for, say_what_is_missing, terminal_for
from holdfast.errors import InputError
from holdfast.laboratory.execution import do_missing
from holdfast.report.groups import by_title
from holdfast.report.statistics import mean_and_error, show
from holdfast.runs.grid import grid
from holdfast.runs.store import Record
from holdfast.streams.named import parse

HOLDOUT = 20  # per cent of the training samples
ONLY_AT_TASK_ENDS = 10**9  # updates between evaluations: the final accuracy decides
LEARNING_RATES = (0.3, 0.1, 0.03, 0.01, 0.003)
ALSO = ("net", "updates", "standardise", "augment")  # of the choices of a run, beside method, memory and seeds


def tune(options: argparse.Namespace) -> int:
    if options.dataset or options.quick:
        raise InputError("--stream is for a stream of your own; --dataset and --quick are for the paper's search")
    memory = options.memory or [5]
    if len(memory) > 1:
        raise InputError("--memory: one size at a time with --stream")
    common = {name: value for name in ALSO if (value := getattr(options, name))}
    names = options.method or ["er", "er-ace"]
    for name in names:
        if not methods.find(methods.parse(name)[0]).learns_by_gradient:
            raise InputError(f"--method {name}: it takes no gradient steps, so there is no learning rate to find")
    rates = options.lr or list(LEARNING_RATES)
    specs = grid(
        stream=_held_out(options.stream),
        method=names,
        memory=memory,
        lr=rates,
        seeds=options.seeds,
        eval_every=ONLY_AT_TASK_ENDS,
        **common,
    )
    console = terminal_for(options)
    plans = do_missing(specs, execution(options), progress_for(options))
    rows = plans.rows()
    console.print(_table(options.stream, rows, rates))
    console.print(f"final accuracy in per cent on {HOLDOUT} % of the training samples; the test set was not used")
    if not plans.missing():
        for title, group in by_title(rows).items():
            said = ["--stream", options.stream, "--method", title.rstrip("†"), "--memory", str(memory[0])]
            for name, value in common.items():
                said += [f"--{name}"] if value is True else [f"--{name}", str(value)]
            best = shlex.join(["holdfast", "run", *said, "--lr", f"{best_rate(group):g}"])
            console.print(best, highlight=False, soft_wrap=True)
    return say_what_is_missing(plans)


def best_rate(rows: Sequence[Record]) -> float:
    """That with the best mean over seeds; of equals the smallest, which forgets least. Failed runs cannot win."""
    rates: dict[float, list[float]] = {}
    for row in rows:
        rates.setdefault(row["lr"], []).append(row["acc"])
    most = max(map(len, rates.values()))
    means = {lr: mean_and_error(found)[0] for lr, found in rates.items() if len(found) == most}
    return max(sorted(means), key=lambda lr: means[lr])


def _held_out(stream: str) -> str:
    options = parse(stream).options
    if "holdout" in options:
        raise InputError("--stream: holdout is what tune itself adds; leave it out")
    return f"{stream}{',' if options else ':'}holdout={HOLDOUT}"


def _table(stream: str, rows: Sequence[Record], rates: Sequence[float]) -> Table:
    table = Table(title=stream, box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("method", overflow="fold", min_width=12)
    for lr in rates:
        table.add_column(f"lr {lr:g}", justify="right", no_wrap=True)
    for title, group in by_title(rows).items():
        found = {lr: [row["acc"] for row in group if row["lr"] == lr] for lr in rates}
        best = best_rate(group)
        cells = [show(of_rate) if of_rate else "failed" for of_rate in found.values()]
        marked = [Text(cell, style="bold" if lr == best else "") for lr, cell in zip(rates, cells, strict=True)]
        table.add_row(title, *marked)
    return table
