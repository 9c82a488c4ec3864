"""`holdfast paper --plan`: which runs are worth the hours, in which order, and that they are done."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from holdfast.commands.main import main
from holdfast.reproduction.budget import Wanted, choose, missing
from holdfast.reproduction.coverage import published_cells
from holdfast.reproduction.figures import FIGURES
from holdfast.reproduction.in_store import InStore
from holdfast.reproduction.setting import Setting
from holdfast.runs.plan import plan
from holdfast.runs.store import Record, Store
from holdfast.streams import source

pytestmark = pytest.mark.slow

ER, ALL, INCOMING = (Setting(method=method) for method in ("er", "er-aml:negatives=all", "er-aml"))


def in_store(runs: Mapping[Setting, Mapping[int, float]]) -> InStore:
    """Final accuracies by setting and seed."""
    rows: dict[str, Record] = {}
    for setting, by_seed in runs.items():
        for seed, acc in by_seed.items():
            spec = setting.specs(seed + 1)[seed]
            run = f"{setting.method} {setting.memory} {setting.augment} {setting.stream} {seed}"
            rows[run] = {**spec.as_json(), "id": run, "acc": acc, "aaa": acc, "forgetting": acc, "seed": seed}
    return InStore(rows.__getitem__, rows.values())


def wanted(there: InStore, *tables: str, figures: Iterable[str] = (), seeds: int = 3) -> list[Wanted]:
    cells = published_cells(there, tables)
    return missing(cells, {name: FIGURES[name].settings() for name in figures}, there, seeds)


def chosen(wanted: Iterable[Wanted], hours: float, seconds: float = 3600) -> list[tuple[str, int, int]]:
    """Method, memory and seed."""
    found = choose(wanted, hours, lambda spec: seconds)
    return [(each.wanted.spec.title, int(each.wanted.spec.memory), each.wanted.spec.seed) for each in found]


def test_what_has_no_run_comes_before_what_has_too_few_seeds() -> None:
    there = in_store({ER: {0: 0.3, 1: 0.3, 2: 0.3}, ALL: {0: 0.3}, INCOMING: {0: 0.4, 2: 0.4}})
    order = chosen(wanted(there, "T7"), hours=100)
    assert {run[1:] for run in order[:3]} == {(50, 0)}, "first runs at M = 50"
    assert {run[1:] for run in order[3:7]} == {(50, 1), (20, 1)}, "then second seeds, and the third of what has two"
    assert len(order) == 3 * 3 + 2 + 1
    assert not [run for run in order if run[0] == "er" and run[1] == 20]
    assert [run for run in order if "negatives" not in run[0] and run[0] != "er" and run[1] == 20] == [
        ("er-aml:temperature=0.2", 20, 1)
    ], "seed 2 is there already"


def test_cheap_before_dear_for_each_number_it_serves() -> None:
    costs = {"er": 500.0, "er-aml:negatives=all,temperature=0.2": 400.0, "er-aml:temperature=0.2": 100.0}
    found = choose(wanted(in_store({}), "T7", "T6", seeds=1), 100, lambda spec: costs.get(spec.title, 10**5))
    order = [(each.wanted.spec.title, each.wanted.spec.memory) for each in found if each.wanted.spec.title in costs]
    assert order[:2] == [("er-aml:temperature=0.2", 20), ("er-aml:temperature=0.2", 50)]
    assert order.index(("er", 20)) < order.index(("er-aml:negatives=all,temperature=0.2", 20)), "500 s for 3, 400 for 2"


def test_only_what_fits_into_the_hours() -> None:
    there = in_store({ER: {0: 0.3}})
    assert len(chosen(wanted(there, "T7"), hours=3.5)) == 3
    assert chosen(wanted(there, "T7"), hours=0.5) == []
    mixed = {50: 3600.0, 20: 60.0}
    found = choose(wanted(there, "T7"), 0.5, lambda spec: mixed[int(spec.memory)])
    assert {(each.wanted.spec.memory, each.wanted.spec.seed) for each in found} == {(20, 0)}, (
        "second seeds wait for first runs that do not fit"
    )


def test_one_run_serves_several_tables_and_has_the_probes_of_figures() -> None:
    runs = wanted(in_store({}), "T1", "T6", "T7", figures=["F8"], seeds=1)
    at_20 = {each.spec.title: each for each in runs if each.spec.memory == 20 and not each.spec.augment}
    er, erace = at_20["er"], at_20["er-ace"]
    assert er.why == "first run of T1 AAA, Acc; T6 Acc; T7 Acc, forgetting"
    (erace,) = (
        each for each in runs if each.spec.title == "er-ace" and (each.spec.memory, each.spec.augment) == (20, 0)
    )
    assert "drift" in erace.spec.probe and erace.why == "first run of T1 AAA, Acc"


def test_a_figure_comes_after_the_tables() -> None:
    order = choose(wanted(in_store({}), "T7", figures=["F6"], seeds=1), 100, lambda spec: 1.0)
    names = [each.wanted.spec.method for each in order]
    assert names[-4:] == sorted(names[-4:]) and set(names[-4:]) == {"der++", "der++-ace"}
    assert order[-1].wanted.why == "missing in F6"


def test_of_two_ways_to_augment_both_are_tried_and_the_better_one_gets_more_seeds() -> None:
    plain, augmented = (
        Setting(method="er", memory=20, augment=augment, stream="order=blurry,distinct=2") for augment in (False, True)
    )

    def of_er(there: InStore) -> dict[tuple[bool, int], str]:
        found = [each for each in wanted(there, "T3") if (each.spec.method, each.spec.memory) == ("er", 20)]
        return {(each.spec.augment, each.spec.seed): each.why for each in found}

    at_first = of_er(in_store({}))
    assert at_first[False, 0] == "first run of T3 Acc"
    assert at_first[True, 0] == "to choose between without and with augmentation: T3 Acc"
    assert set(of_er(in_store({plain: {0: 0.2}, augmented: {0: 0.3}}))) == {(True, 1), (True, 2)}


def test_a_run_that_was_begun_comes_first() -> None:
    runs = wanted(in_store({ER: {0: 0.3}}), "T7")
    last = max(runs, key=lambda each: each.rank)
    last.begun = True
    first = choose(runs, 100, lambda spec: 60.0)[0].wanted
    assert first is last and first.why.startswith("was begun; ")


def test_the_command_goes_on_with_what_was_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("holdfast.reproduction.estimate.Estimates.seconds", lambda self, spec: 60.0)
    monkeypatch.setenv("COLUMNS", "200")
    spec = Setting(method="er", memory=50).specs(2, quick=True)[1]
    (tmp_path / "runs.snapshots").mkdir()
    (tmp_path / "runs.snapshots" / plan(spec, source(spec.stream, tmp_path)).run_id).touch()
    assert main(["paper", "T7", "--quick", "--plan", "0.02", "--estimate", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "er, fashion:first=20,tasks=5, M = 3, seed 1" in said
    assert "was begun; second seed of T7 Acc, forgetting" in said


def of_store(folder: Path) -> list[tuple[str, int, int]]:
    rows = Store(folder / "runs.sqlite").rows({"status": "done"})
    return [(row["title"], row["memory"], row["seed"]) for row in rows]


def test_the_command_says_what_it_would_do_and_does_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("holdfast.reproduction.estimate.Estimates.seconds", lambda self, spec: 60.0)
    monkeypatch.setenv("COLUMNS", "200")
    command = ["paper", "T7", "--quick", "--seeds", "2", "--jobs", "1", "--out", str(tmp_path)]
    assert main([*command, "--plan", "0.05", "--estimate"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "worth 0.05 core-hours" in said and "first run of T7 Acc, forgetting" in said and "0:03:00" in said
    assert of_store(tmp_path) == []
    assert main([*command, "--plan", "0.05"]) == 0
    first = of_store(tmp_path)
    assert len(first) == 3 and {seed for *_, seed in first} == {0}
    assert main([*command, "--plan", "100"]) == 0
    assert len(of_store(tmp_path)) == 12 and of_store(tmp_path)[:3] == first
    capsys.readouterr()
    assert main([*command, "--plan", "100"]) == 0
    assert "nothing" in capsys.readouterr().out and len(of_store(tmp_path)) == 12


def test_only_what_is_asked_for_is_planned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["paper", "T7", "F4", "--quick", "--plan", "1", "--seeds", "1", "--out", str(tmp_path)]
    assert main([*command, "--only", "method=er,memory=20"]) == 0
    assert [row["method"] for row in Store(tmp_path / "runs.sqlite").rows()] == ["er"]


def test_runs_whose_dataset_is_not_here_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["paper", "T2", "--plan", "1", "--data", str(tmp_path / "none"), "--out", str(tmp_path)]
    assert main(command) == 0
    said = capsys.readouterr()
    assert "holdfast data get cifar100" in said.err and "holdfast data get mini-imagenet" in said.err
    assert "nothing" in said.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name a table or figure, or give --plan HOURS"),
        (["--plan", "0"], "a number of hours above 0, not 0"),
        (["--plan", "nan"], "a number of hours above 0, not nan"),
        (["T1", "--plan", "1", "--render"], "leave out --render and --fresh"),
        (["T10", "--plan", "1"], "did you mean 'T1'?"),
        (["T7", "--plan", "1", "--only", "method=scr"], "no run of T7 is like that"),
        (["T7", "--plan", "1", "--seeds", "0"], "1 or more"),
        (["T7", "--quick", "--plan", "1e-9"], "the shortest missing run takes"),
    ],
)
def test_mistakes(arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["paper", *arguments, "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_a_run_that_failed_is_not_planned_again_unless_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("holdfast.reproduction.estimate.Estimates.seconds", lambda self, spec: 60.0)
    monkeypatch.setenv("COLUMNS", "200")
    store = Store(tmp_path / "runs.sqlite")
    store.open()
    (failed,) = Setting(method="er", memory=20).specs(1, quick=True)
    store.keep("a run", {**failed.as_json(), "title": failed.title}, status="failed", why="a mistake")
    command = ["paper", "T7", "--quick", "--plan", "1", "--seeds", "1", "--only", "method=er,memory=20", "--estimate"]
    assert main([*command, "--out", str(tmp_path)]) == 0
    assert "nothing" in capsys.readouterr().out
    assert main([*command, "--retry-failed", "--out", str(tmp_path)]) == 0
    assert "first run of T7" in " ".join(capsys.readouterr().out.split())
