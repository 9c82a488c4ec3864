"""The hyper-parameters that the paper's released code loads for its final runs, as `picks.toml` has them.

    python scripts/authors_picks.py hp_result_final.csv

The CSV is in the folder `sweeps` of the released code (github.com/pclucas14/AML): every run of its search. For a final
run the code takes those with the same method, augmentation, dataset and size of memory, and of their settings the best
mean accuracy. What the search has not tried does not narrow them down: for M = 5 it is the best setting at any M.
"""

import csv
import sys
from collections import defaultdict

DATASETS = {"cifar10": "cifar10", "cifar100": "cifar100", "mini-imagenet": "miniimagenet"}
METHODS = {  # its name there, and whether it is run without task ids
    "er": ("er", 1), "er-ace": ("er_ace", 1), "er-aml": ("er_aml", 1), "der++": ("der++", 1), "mir": ("mir", 0),
    "icarl": ("icarl", 0), "ss-il": ("ssil", 0),
}  # fmt: skip
OPTIONS = {"er-aml": {"temperature": "supcon_temperature"}, "der++": {"alpha": "alpha", "beta": "beta"}}
MEMORIES = (5, 20, 50, 100)
Row = dict[str, str]


def alike(runs: list[Row], wanted: dict[str, str | int]) -> list[Row]:
    for name, value in wanted.items():
        runs = [run for run in runs if _is(run[name], value)] or runs
    return runs


def best(runs: list[Row], names: list[str]) -> dict[str, str]:
    """Of the settings that differ in anything but the number of a run."""
    differing = [name for name in runs[0] if name not in ("run", "acc") and len({run[name] for run in runs}) > 1]
    found: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for run in runs:
        found[tuple(run[name] for name in differing)].append(float(run["acc"]))
    means = {setting: sum(accuracies) / len(accuracies) for setting, accuracies in found.items()}
    first: tuple[str, ...] = max(means, key=means.__getitem__)
    chosen = dict(zip(differing, first, strict=True))
    return {name: chosen.get(name, runs[0][name]) for name in names}


def pick(runs: list[Row], dataset: str, method: str, memory: int, augment: int) -> str:
    there, task_free = METHODS[method]
    wanted: dict[str, str | int] = {"method": there, "use_augs": augment, "task_free": task_free}
    wanted |= {"dataset": DATASETS[dataset], "mem_size": memory, "mir_head_only": 0, "distill_coef": 0, "n_iters": 1}
    options = OPTIONS.get(method, {})
    chosen = best(alike(runs, wanted), ["lr", *options.values()])
    written = ",".join(f"{option}={chosen[column]}" for option, column in options.items())
    return "{ lr = " + chosen["lr"] + (f', options = "{written}"' if written else "") + " }"


def _is(text: str, value: str | int) -> bool:
    return text == value if isinstance(value, str) else float(text) == value


def main() -> None:
    with open(sys.argv[1], newline="") as file:
        runs = list(csv.DictReader(file))
    for dataset in DATASETS:
        for method in METHODS:
            print(f'\n[released.{dataset}."{method}"]' if "+" in method else f"\n[released.{dataset}.{method}]")
            for memory in MEMORIES:
                both = [pick(runs, dataset, method, memory, augment) for augment in (0, 1)]
                print(f"{memory} = [{', '.join(both)}]")


if __name__ == "__main__":
    main()
