"""Final accuracy of our runs beside that of the authors' own search, with the hyper-parameters it picked.

    python scripts/authors_search.py hp_result_final.csv STORE

The CSV is in the folder `sweeps` of the paper's released code (github.com/pclucas14/AML): every run of its search,
trained on 90 % of the training samples and tested on the rest. STORE is a folder with runs of T1 or T2.
"""

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

from holdfast.report.statistics import agreement, mean_and_error, with_seeds
from holdfast.reproduction.setting import Setting
from holdfast.reproduction.tables import T1, T2
from holdfast.runs.identity import RecordIndex
from holdfast.runs.store import Store

NAMES = {"ss-il": "ssil", "er-ace": "er_ace", "er-aml": "er_aml"}
COLUMNS = {"temperature": "supcon_temperature", "alpha": "alpha", "beta": "beta"}
ALWAYS = {"ss-il": {"distill_coef": 0.0}, "mir": {"mir_head_only": 0.0}}


def theirs(setting: Setting, searched: list[dict[str, str]]) -> list[float]:
    pick = setting.authors_pick()
    options = dict(option.split("=") for option in filter(None, pick.options.split(",")))
    numbers = {"mem_size": float(setting.memory), "use_augs": float(setting.augment), "lr": pick.lr}
    numbers |= {COLUMNS[name]: float(value) for name, value in options.items()} | ALWAYS.get(setting.name, {})
    names = {"dataset": setting.dataset, "method": NAMES.get(setting.name, setting.name)}
    return [
        float(run["acc"])
        for run in searched
        if all(run[key] == value for key, value in names.items())
        and all(float(run[key]) == value for key, value in numbers.items())
    ]


def ours(setting: Setting, there: RecordIndex) -> list[float]:
    (spec,) = setting.specs(1)
    return [100 * row["acc"] for row in there.of(spec).values()]


def lines(searched: list[dict[str, str]], there: RecordIndex) -> Iterator[tuple[str, ...]]:
    for setting in dict.fromkeys([*T1.settings(), *T2.settings()]):
        mine, authors = ours(setting, there), theirs(setting, searched)
        if mine and authors:
            what = f"{setting.dataset}, {setting.method}{', augmented' * setting.augment}, M = {setting.memory}"
            yield what, with_seeds(mine), with_seeds(authors), agreement(mine, *mean_and_error(authors))


def main() -> None:
    file, store = sys.argv[1:]
    with open(file, newline="") as text:
        searched = list(csv.DictReader(text))
    there = RecordIndex(Store(Path(store) / "runs.sqlite").rows({"status": "done"}))
    for what, *figures in [("", "ours", "authors' search", "difference"), *lines(searched, there)]:
        print(f"{what:36}" + "".join(f"{figure:>20}" for figure in figures))


if __name__ == "__main__":
    main()
