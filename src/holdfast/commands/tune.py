"""`holdfast tune`: the paper's search for hyper-parameters, on validation samples taken from the training set.

With `--stream`, only the learning rate is searched, on a stream of one's own: tune_stream.py.
"""

import argparse
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from rich import box
from rich.table import Table

import holdfast
from holdfast.arguments import AT_LEAST_ONE, whole
from holdfast.commands import tune_stream
from holdfast.commands.execution import execution, progress_for, say_what_is_missing, terminal_for
from holdfast.commands.options import add_choices, add_execution
from holdfast.errors import InputError, UnknownName
from holdfast.laboratory.execution import do_missing
from holdfast.methods import METHODS
from holdfast.report.statistics import show
from holdfast.reproduction import tuned
from holdfast.reproduction.artifacts import ARTIFACTS
from holdfast.reproduction.picks import HyperParameters
from holdfast.reproduction.setting import SAME_PICK_AS, Setting
from holdfast.runs.grid import check_number
from holdfast.runs.spec import RunSpec, command
from holdfast.runs.store import Record
from holdfast.runs.sweep import Sweep

HOLDOUT = 5  # per cent of the training samples
ONLY_AT_TASK_ENDS = 10**9  # updates between evaluations: the final accuracy decides
LEARNING_RATES = (0.1, 0.01, 0.001)
ALPHA_AND_BETA = {"alpha": ("0.25", "0.5", "0.75"), "beta": ("0.5", "0.75", "1.0")}
OPTIONS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "der++": ALPHA_AND_BETA,
    "der++-ace": ALPHA_AND_BETA,
    "ss-il": {"distil": ("rehearsal", "false")},
    "er-aml": {"temperature": ("0.1", "0.2")},
}
MEMORY = {"cifar10": (5, 20, 100), "cifar100": (100,), "mini-imagenet": (100,)}


@dataclass(frozen=True)
class Search:
    """All that is tried for a method on a dataset, with or without augmentation."""

    dataset: str
    method: str
    augment: bool
    memory: tuple[int, ...]
    seeds: int
    miniature: bool = False

    @property
    def settings(self) -> list[Setting]:
        """One a size of memory; those without memory have a single one."""
        common = Setting(dataset=self.dataset, method=self.method, augment=self.augment, stream=f"holdout={HOLDOUT}")
        return list(dict.fromkeys(replace(common, memory=size) for size in self.memory))

    def combinations(self) -> list[HyperParameters]:
        options = OPTIONS.get(self.method, {})
        texts = [
            ",".join(f"{name}={value}" for name, value in zip(options, values, strict=True))
            for values in itertools.product(*options.values())
        ]
        return [HyperParameters(lr, text) for lr in LEARNING_RATES for text in texts]

    def specs(self, combination: HyperParameters) -> dict[int, list[RunSpec]]:
        """By size of memory, a seed each."""
        picks = {(self.dataset, self.method, self.augment): combination}
        return {
            setting.memory: [
                replace(spec, eval_every=ONLY_AT_TASK_ENDS, eval_mode="exact")
                for spec in setting.specs(self.seeds, quick=self.miniature, picks=picks)
            ]
            for setting in self.settings
        }

    def runs(self) -> list[RunSpec]:
        return [spec for combination in self.combinations() for spec in _all(self.specs(combination))]


@dataclass(frozen=True)
class Tried:
    """A combination and what became of its runs."""

    combination: HyperParameters
    rows: Mapping[int, Sequence[Record]]  # of the runs that are done, by size of memory
    missing: int = 0
    failed: int = 0

    @property
    def accuracies(self) -> dict[int, list[float]]:
        return {memory: [row["acc"] for row in rows] for memory, rows in self.rows.items()}

    @property
    def mean(self) -> float | None:
        """Over sizes of memory, of the mean over seeds; None unless all runs are done."""
        if self.missing or self.failed:
            return None
        return sum(sum(values) / len(values) for values in self.accuracies.values()) / len(self.rows)

    def as_json(self) -> dict[str, Any]:
        return {
            **self.combination._asdict(),
            "mean": self.mean,
            "failed": self.failed,
            "accuracies": {f"M = {m}": {row["id"]: row["acc"] for row in rows} for m, rows in self.rows.items()},
        }


def describe(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--dataset", metavar="NAME", help="cifar10 (default), cifar100 or mini-imagenet")
    add("--stream", metavar="NAME", help="instead: find the learning rate for a stream, as holdfast run takes it")
    add("--lr", action="append", type=float, metavar="LR", help="with --stream: try this one; repeatable")
    add_choices(parser, "net", "updates_per_batch", "standardise")
    add("--method", action="append", metavar="NAME", help="repeatable (default: all that the paper has there)")
    add("--augment", action="store_true", help="random crops and flips")
    add("--memory", action="append", type=int, metavar="M", help="samples a class; repeatable (default: the paper's)")
    add("--seeds", type=int, default=3, metavar="N", help="seeds 0 to N-1 (default 3)")
    add("--quick", action="store_true", help="a miniature on the embedded data: seconds instead of days")
    add_execution(parser)
    parser.set_defaults(command=tune)


def tune(options: argparse.Namespace) -> int:
    if options.stream is not None:
        return tune_stream.tune(options)
    for name in ("lr", "net", "updates", "standardise"):
        if getattr(options, name):
            raise InputError(f"--{name} goes with --stream")
    to_do = searches(options)
    tuned.read(options.out)  # a damaged file is found before days of runs, not after
    check_number(sum(len(search.combinations()) * len(search.settings) * search.seeds for search in to_do))
    runs = [run for search in to_do for run in search.runs()]
    console = terminal_for(options)
    plans = do_missing(sorted(runs, key=lambda run: run.seed), execution(options), progress_for(options))
    choices = []
    for search in to_do:
        tried = _tried(search, plans)
        best = winner(tried)
        console.print(_table(search, tried, best))
        if best is not None:
            choices.append(_choice(search, tried, best, plans))
    console.print(f"final accuracy in per cent on {HOLDOUT} % of the training samples; the test set was not used")
    if choices:
        tuned.add(options.out, choices)
        where = f"{len(choices)} of {len(to_do)} choices are in {tuned.file_in(options.out)}"
        console.print(where, highlight=False, soft_wrap=True)
    return say_what_is_missing(plans)


def winner(tried: Sequence[Tried]) -> Tried | None:
    """The best mean, the first of equals. None while runs are missing; a combination with failed runs cannot win."""
    known = [each for each in tried if each.mean is not None]
    if not known or any(each.missing for each in tried):
        return None
    return max(known, key=lambda each: each.mean or 0.0)


def searches(options: argparse.Namespace) -> list[Search]:
    """What the options ask for, or what the paper has."""
    dataset = options.dataset or "cifar10"
    if dataset not in MEMORY:
        raise UnknownName("dataset", dataset, MEMORY)
    methods = options.method or _methods_of_the_paper(dataset, options.augment)
    for method in methods:
        if method not in METHODS:
            raise UnknownName("method", method, METHODS)
    whole("seeds", options.seeds, AT_LEAST_ONE)
    memory = tuple(dict.fromkeys(options.memory or MEMORY[dataset]))
    return [
        Search(dataset, method, options.augment, memory, options.seeds, options.quick)
        for method in dict.fromkeys(methods)
    ]


def _methods_of_the_paper(dataset: str, augment: bool) -> list[str]:
    """Those that its tables and figures have there."""
    settings = [setting for artifact in ARTIFACTS.values() for setting in artifact.settings()]
    names = [s.name for s in settings if (s.dataset, s.augment) == (dataset, augment)]
    return [SAME_PICK_AS.get(name, name) for name in names]


def _all(specs: Mapping[int, Sequence[RunSpec]]) -> list[RunSpec]:
    return [spec for of_size in specs.values() for spec in of_size]


def _tried(search: Search, plans: Sweep) -> list[Tried]:
    rows = {row["id"]: row for row in plans.rows()}
    missing, failed = set(plans.missing()), set(plans.failed())
    return [
        Tried(
            combination,
            {
                memory: [row for spec in of_size if (row := rows.get(plans.ids[spec]))]
                for memory, of_size in specs.items()
            },
            missing=len(missing.intersection(_all(specs))),
            failed=len(failed.intersection(_all(specs))),
        )
        for combination in search.combinations()
        for specs in [search.specs(combination)]
    ]


def _table(search: Search, tried: Sequence[Tried], best: Tried | None) -> Table:
    table = Table(
        title=f"{search.method}{' augmented' * search.augment} on {search.dataset}{' in miniature' * search.miniature}",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    sizes = [f"M = {setting.memory}" if setting.memory else "no memory" for setting in search.settings]
    for column in ("lr", "options", *sizes, "mean", "n", ""):
        table.add_column(column, justify="left" if column in ("options", "") else "right", no_wrap=column != "options")
    for each in tried:
        values = each.accuracies.values()
        state = "chosen" if each is best else f"{each.failed} failed" if each.failed else ""
        cells = [show(of_size) for of_size in values] + ["–" if each.mean is None else f"{100 * each.mean:.2f}"]
        style = "bold" if each is best else None
        lr, options = each.combination
        table.add_row(f"{lr:g}", options, *cells, str(sum(map(len, values))), state, style=style)
    return table


def _choice(search: Search, tried: Sequence[Tried], best: Tried, plans: Sweep) -> tuned.Choice:
    rows = [row for each in tried for of_size in each.rows.values() for row in of_size]
    return {
        "dataset": search.dataset,
        "method": search.method,
        "augment": search.augment,
        "miniature": search.miniature,
        "chosen": {**best.combination._asdict(), "mean": best.mean},
        "holdout": HOLDOUT,
        "memory": [setting.memory for setting in search.settings],
        "seeds": search.seeds,
        "command": command(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "holdfast": holdfast.__version__,
        "code": sorted({row["code"] for row in rows}),
        "data": plans.sources[rows[0]["stream"]].fingerprint,
        "tried": [each.as_json() for each in tried],
    }
