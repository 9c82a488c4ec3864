"""How many published cells have runs, and how many of them agree."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.commands.main import main
from holdfast.reproduction.coverage import JUDGED, by_table, coverage, published_cells
from holdfast.reproduction.published import cells
from holdfast.reproduction.setting import Setting
from holdfast.runs.store import Record, Store


def nothing(setting: Setting) -> list[Record]:
    return []


def test_the_cells_are_those_that_are_published_each_once() -> None:
    found = published_cells(nothing)
    for name, of_table in found.items():
        assert len(of_table) == sum(cell["measure"] in JUDGED for cell in cells()[name]), name
    assert sum(map(len, found.values())) == 203
    assert str(by_table(found)[-1][1]) == (
        "cells with at least one run: 0 of 203; with three seeds: 0; agreeing within two standard errors: 0"
    )


def test_what_counts() -> None:
    accuracies = {"er": [0.267, 0.268, 0.266], "er-aml": [0.9, 0.901], "er-aml:negatives=all": [0.285]}

    def found(setting: Setting) -> list[Record]:
        values = accuracies.get(setting.method, []) if setting.memory == 20 else []
        return [{"id": f"{seed}", "acc": acc, "forgetting": None} for seed, acc in enumerate(values)]

    of_t7 = coverage(published_cells(found, ["T7"])["T7"])
    assert (of_t7.published, of_t7.run, of_t7.with_three_seeds, of_t7.agreeing) == (12, 3, 1, 1)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store(tmp_path / "runs.sqlite")
    store.open()
    for seed, spec in enumerate(Setting(method="er", memory=50).specs(3)):
        measured: dict[str, Any] = {"aaa": 0.3, "acc": 0.361 + seed / 1000, "forgetting": 0.5, "train_macs": 1}
        store.keep(f"{seed}", {**spec.as_json(), "title": spec.title, "memory_bytes": 1, **measured})
    assert main(["paper", "coverage", "--out", str(tmp_path)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "T7 12 2 2 1" in shown and "T6 16 1 1 1" in shown and "T1 86 0 0 0" in shown
    assert "cells with at least one run: 3 of 203; with three seeds: 3; agreeing within two standard errors: 2" in shown


def test_without_runs_it_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["paper", "coverage", "--out", str(tmp_path)]) == 2
    assert "there are no runs in" in capsys.readouterr().err
