"""The search for hyper-parameters: what it tries, on which samples, what wins, and what becomes of it."""

import dataclasses
import json
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.commands.main import main, parser
from holdfast.commands.tune import MEMORY, Search, searches
from holdfast.datasets import LOADERS
from holdfast.datasets.base import Dataset, validation_split
from holdfast.datasets.embedded import fashion
from holdfast.errors import InputError
from holdfast.reproduction.artifacts import ARTIFACTS
from holdfast.reproduction.picks import HyperParameters
from holdfast.reproduction.setting import Setting
from holdfast.runs.spec import RunSpec, code_hash
from holdfast.runs.store import Store
from holdfast.runs.sweep import Sweep
from holdfast.runs.worker import Event, Job, perform
from holdfast.streams.named import source

NOWHERE = Path("nowhere")


def numbered(counts: list[int]) -> Dataset:
    """Samples that are their own numbers."""
    y = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))
    x = np.arange(len(y))[:, None]
    return Dataset("numbered", tuple(map(str, range(len(counts)))), x, y, -x, y)


@given(counts=st.lists(st.integers(2, 90), min_size=1, max_size=6), per_cent=st.sampled_from([1, 5, 20.5, 50]))
def test_the_split_is_stratified_disjoint_and_complete(counts: list[int], per_cent: float) -> None:
    whole = numbered(counts)
    part = validation_split(whole, per_cent)
    train, held_out = part.train_x[:, 0], part.test_x[:, 0]
    assert sorted([*train, *held_out]) == list(range(sum(counts)))
    assert (whole.train_y[train] == part.train_y).all() and (whole.train_y[held_out] == part.test_y).all()
    assert np.bincount(part.test_y).tolist() == [max(1, round(count * per_cent / 100)) for count in counts]


def test_the_split_is_the_same_for_every_seed_and_leaves_other_runs_what_they_are() -> None:
    found = source("fashion:holdout=5", NOWHERE)
    assert np.bincount(found.dataset.test_y).tolist() == [
        round(0.05 * count) for count in np.bincount(fashion().train_y)
    ]
    first, second = found.stream(seed=0), found.stream(seed=1)
    assert first.dataset is second.dataset and (first.order != second.order).any()
    assert sorted(first.order) == sorted(second.order) == list(range(len(found.dataset.train_y)))
    assert source("fashion:holdout=5", NOWHERE).fingerprint == found.fingerprint
    assert found.options["holdout"] == 5 and "holdout" not in source("fashion", NOWHERE).options


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("holdout=0", "above 0 and below 100 per cent, not 0"),
        ("holdout=100", "above 0 and below 100 per cent, not 100"),
        ("holdout=nan", "above 0 and below 100"),
        ("holdout=some", "holdout must be a number, not 'some'"),
        ("first=1,holdout=5", "class 'T-shirt/top' of fashion has 1 training samples, too few"),
    ],
)
def test_splits_that_cannot_be(options: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        source(f"fashion:{options}", NOWHERE)


def test_the_grid_is_the_papers() -> None:
    def tried(method: str) -> list[HyperParameters]:
        return Search("cifar10", method, augment=True, memory=(5, 20, 100), seeds=1).combinations()

    assert tried("er") == [HyperParameters(lr) for lr in (0.1, 0.01, 0.001)]
    assert len(tried("der++")) == len(set(tried("der++"))) == 27
    assert {pick.options for pick in tried("ss-il")} == {"distil=rehearsal", "distil=false"}
    assert {pick.options for pick in tried("er-aml")} == {"temperature=0.1", "temperature=0.2"}
    assert HyperParameters(0.01, "alpha=0.75,beta=1.0") in tried("der++"), "the authors' pick"


def test_runs_train_and_are_evaluated_on_the_training_set_and_only_the_end_counts() -> None:
    search = Search("cifar10", "er", augment=True, memory=(5, 100), seeds=2)
    specs = search.specs(HyperParameters(0.001))
    assert list(specs) == [5, 100]
    for memory, of_size in specs.items():
        assert [(spec.stream, spec.memory, spec.lr, spec.augment, spec.seed) for spec in of_size] == [
            ("cifar10:holdout=5", memory, 0.001, True, seed) for seed in (0, 1)
        ]
        assert {spec.eval_mode for spec in of_size} == {"exact"}
    assert list(Search("cifar10", "iid", False, (5, 20, 100), 1).specs(HyperParameters(0.1))) == [0]


Tune = Callable[..., dict[str, Any]]


@pytest.fixture
def tune(tmp_path: Path) -> Tune:
    """`holdfast tune --quick` with these arguments into one folder, and its choice for a method."""

    def command(method: str, *arguments: str, code: int = 0) -> dict[str, Any]:
        assert main(["tune", "--quick", "--method", method, "--out", str(tmp_path), "--jobs", "1", *arguments]) == code
        return choices(tmp_path).get(method, {})

    return command


def choices(folder: Path) -> dict[str, dict[str, Any]]:
    file = folder / "tuned.json"
    return {choice["method"]: choice for choice in json.loads(file.read_text())["choices"]} if file.exists() else {}


def pretend(folder: Path, search: Search, accuracy: Callable[[RunSpec], float | None]) -> None:
    """Puts records with these accuracies into the store; None is a run that failed."""
    store = Store(folder / "runs.sqlite")
    store.open()
    for spec, run in Sweep(search.runs(), store, NOWHERE).ids.items():
        found = accuracy(spec)
        record = {**spec.as_json(), "title": spec.title, "acc": found, "code": code_hash(spec.method)}
        store.keep(run, record, *(("failed", "it did") if found is None else ()))


ER = Search("cifar10", "er", augment=False, memory=(5, 20, 100), seeds=2, miniature=True)


def test_the_best_on_average_wins_not_the_best_somewhere(
    tmp_path: Path, tune: Tune, capsys: pytest.CaptureFixture[str]
) -> None:
    accuracies = {0.1: (0.9, 0.1, 0.1), 0.01: (0.4, 0.5, 0.4), 0.001: (0.1, 0.1, 0.6)}

    def accuracy(spec: RunSpec) -> float:
        of_size = accuracies[spec.lr][{1: 0, 2: 1, 4: 2}[int(spec.memory)]]
        return of_size + (0.05 if spec.seed else -0.05)

    pretend(tmp_path, ER, accuracy)
    choice = tune("er", "--seeds", "2")
    shown = capsys.readouterr().out
    assert choice["chosen"] == {"lr": 0.01, "options": "", "mean": pytest.approx(1.3 / 3)}
    assert [each["mean"] for each in choice["tried"]] == pytest.approx([1.1 / 3, 1.3 / 3, 0.8 / 3])
    (line,) = [line for line in shown.splitlines() if "chosen" in line]
    assert line.split() == ["0.01", "40.0", "±", "5.0", "50.0", "±", "5.0", "40.0", "±", "5.0", "43.33", "6", "chosen"]
    assert tune("er", "--seeds", "2", "--memory", "5")["chosen"]["lr"] == 0.1, "the best at this size alone"


def test_seeds_count(tmp_path: Path, tune: Tune) -> None:
    accuracies = {0.1: (0.9, 0.1), 0.01: (0.6, 0.6), 0.001: (0.0, 0.0)}
    pretend(tmp_path, ER, lambda spec: accuracies[spec.lr][spec.seed])
    assert tune("er", "--seeds", "1")["chosen"]["lr"] == 0.1
    assert tune("er", "--seeds", "2")["chosen"]["lr"] == 0.01


def test_what_failed_cannot_win(tmp_path: Path, tune: Tune, capsys: pytest.CaptureFixture[str]) -> None:
    def accuracy(spec: RunSpec) -> float | None:
        return None if spec.lr == 0.1 and spec.memory == 4 else spec.lr

    pretend(tmp_path, ER, accuracy)
    choice = tune("er", "--seeds", "2", code=1)
    assert choice["chosen"]["lr"] == 0.01
    assert [(each["mean"] is None, each["failed"]) for each in choice["tried"]] == [(True, 2), (False, 0), (False, 0)]
    assert "2 failed" in capsys.readouterr().out


def test_nothing_is_chosen_before_all_was_tried(tmp_path: Path, tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(tmp_path, dataclasses.replace(ER, seeds=1), lambda spec: spec.lr)
    monkeypatch.setattr(Sweep, "run", lambda sweep, *_: setattr(sweep, "stopped", True))
    assert tune("er", "--seeds", "2", code=130) == {}


@pytest.mark.slow
@pytest.mark.parametrize(("augment", "method"), [(False, "ss-il"), (True, "er-ace")])
def test_what_was_tried_and_how_is_kept(tmp_path: Path, tune: Tune, *, augment: bool, method: str) -> None:
    arguments = ["--memory", "5", "--memory", "20", "--seeds", "1", *(["--augment"] if augment else [])]
    choice = tune(method, *arguments)
    rows = {row["id"]: row for row in Store(tmp_path / "runs.sqlite").rows()}
    tried = {
        run: acc for each in choice["tried"] for of_size in each["accuracies"].values() for run, acc in of_size.items()
    }
    assert tried == {run: row["acc"] for run, row in rows.items()}
    assert all("holdout=5" in row["stream"] and row["augment"] == augment for row in rows.values())
    assert len(rows) == 2 * len(choice["tried"]) == {"ss-il": 12, "er-ace": 6}[method]
    assert [choice[name] for name in ("dataset", "augment", "miniature")] == ["cifar10", augment, True]
    assert [choice[name] for name in ("holdout", "memory", "seeds")] == [5, [5, 20], 1]
    assert choice["command"] and choice["holdfast"] == holdfast.__version__
    assert choice["code"] == [code_hash(method)]
    assert datetime.fromisoformat(choice["date"]).tzinfo is not None
    assert choice["data"] == source("fashion:first=20,tasks=5,holdout=5", NOWHERE).fingerprint
    best = max(choice["tried"], key=lambda each: each["mean"])
    assert choice["chosen"] == {name: best[name] for name in ("lr", "options", "mean")}


def test_tunes_merge_and_the_last_one_counts(tmp_path: Path, tune: Tune, capsys: pytest.CaptureFixture[str]) -> None:
    for method in ("er", "er-ace"):
        pretend(tmp_path, dataclasses.replace(ER, method=method), lambda spec: spec.lr)
    tune("er-ace", "--seeds", "1")
    tune("er", "--seeds", "1")
    before = (tmp_path / "tuned.json").read_text()
    assert list(choices(tmp_path)) == ["er", "er-ace"]
    capsys.readouterr()
    assert tune("er", "--seeds", "2")["seeds"] == 2
    assert "18 of 18 runs are in" in capsys.readouterr().err
    assert choices(tmp_path)["er-ace"] == json.loads(before)["choices"][1]


@pytest.mark.slow
def test_processes_that_write_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from holdfast.reproduction import tuned
for i in range(30):
    what = {"dataset": "cifar10", "method": f"{sys.argv[2]}{i}", "augment": False, "miniature": False}
    tuned.add(Path(sys.argv[1]), [{**what, "chosen": {"lr": 0.1, "options": ""}}])
"""
    writers = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name]) for name in "ab"]
    assert [writer.wait() for writer in writers] == [0, 0]
    assert set(choices(tmp_path)) == {f"{name}{i}" for name in "ab" for i in range(30)}


class Touched(Exception):
    pass


class Untouchable:
    """Looks like an array from outside; whoever wants to see a value of it fails."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.shape, self.dtype = array.shape, array.dtype

    def __len__(self) -> int:
        return int(self.shape[0])

    def _refuse(self, *how: object, **what: object) -> Any:
        raise Touched

    __getattr__ = __getitem__ = __iter__ = __array__ = __eq__ = __bool__ = __reduce_ex__ = _refuse
    __hash__ = None  # type: ignore[assignment]


class Here:
    """Runs in this process, where what a test puts in the place of the data is what runs see."""

    def __init__(self, root: Path, processes: int, sources: object = None) -> None:
        self._root = root
        self._jobs: list[Job] = []

    @property
    def room(self) -> int:
        return 1 - len(self._jobs)

    def start(self, job: Job) -> None:
        self._jobs.append(job)

    def events(self) -> list[Event]:
        job = self._jobs.pop()
        return list(perform(job, lambda: source(job.spec.stream, self._root)))

    def stop(self) -> list[Event]:
        return []


def _given(dataset: Dataset, root: Path) -> Dataset:
    return dataset


@pytest.mark.slow
def test_test_samples_are_never_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records and picks are bit for bit the same, whether there are test samples or something that cannot be read."""
    whole = fashion()
    x, y = Untouchable(whole.test_x), Untouchable(whole.test_y)
    poisoned = dataclasses.replace(whole, test_x=x, test_y=y)  # type: ignore[arg-type]
    monkeypatch.setattr("holdfast.laboratory.execution.Local", Here)
    found = []
    for name, dataset in (("whole", whole), ("poisoned", poisoned)):
        monkeypatch.setitem(LOADERS, "fashion", partial(_given, dataset))
        out = tmp_path / name
        methods = [argument for method in ("er-ace", "icarl", "gdumb") for argument in ("--method", method)]
        assert main(["tune", "--quick", "--seeds", "1", "--memory", "5", *methods, "--out", str(out)]) == 0
        store = Store(out / "runs.sqlite")
        records = [store.record(row["id"]) for row in store.rows()]
        timed = ("seconds", "train_seconds", "finished")
        found.append([{key: value for key, value in record.items() if key not in timed} for record in records])
        found.append([{**choice, "date": None} for choice in choices(out).values()])
    assert found[:2] == found[2:]
    assert len(found[0]) == 9 and all(record["status"] == "done" for record in found[0])
    with pytest.raises(Touched):  # the poison works
        _ = source("fashion:first=20", tmp_path).fingerprint


@pytest.mark.slow
def test_tables_are_made_with_what_was_chosen(tmp_path: Path, tune: Tune, capsys: pytest.CaptureFixture[str]) -> None:
    search = dataclasses.replace(ER, method="er-aml", memory=(20,), seeds=1)
    pretend(tmp_path, search, lambda spec: 0.9 if (spec.lr, spec.options["temperature"]) == (0.001, "0.1") else 0.1)
    tune("er-aml", "--seeds", "1", "--memory", "20")
    capsys.readouterr()
    command = ["paper", "T7", "--quick", "--seeds", "1", "--only", "memory=20", "--out", str(tmp_path)]
    assert main([*command, "--tuned"]) == 0
    note = "Hyper-parameters: tuned picks, from tuned.json; the authors' picks where it has none: er on cifar10."
    assert " ".join(capsys.readouterr().out.split()).count(note) == 2  # before the runs, and below the table
    assert note in (tmp_path / "paper" / "T7-tuned-miniature.md").read_text()
    used = {row["title"]: row["lr"] for row in Store(tmp_path / "runs.sqlite").rows() if "holdout" not in row["stream"]}
    assert used == {"er": 0.1, "er-aml:temperature=0.1": 0.001, "er-aml:negatives=all,temperature=0.1": 0.001}
    assert main(command) == 0
    assert "tuned" not in (tmp_path / "paper" / "T7-miniature.md").read_text()


def test_picks_hold_for_their_setting_only_and_for_those_that_share_them() -> None:
    picks = {("cifar10", "der++", True): HyperParameters(0.001, "alpha=0.5,beta=0.5")}
    for method in ("der++", "der++-ace"):
        (spec,) = Setting(method=method, augment=True).specs(1, picks=picks)
        assert (spec.lr, spec.options) == (0.001, {"alpha": "0.5", "beta": "0.5"})
    for other in (Setting(method="der++"), Setting(method="er", augment=True)):
        assert other.specs(1, picks=picks) == other.specs(1)
    own = {**picks, ("cifar10", "der++-ace", True): HyperParameters(0.1)}
    assert Setting(method="der++-ace", augment=True).specs(1, picks=own)[0].lr == 0.1


def test_a_miniature_tunes_miniatures_only(tmp_path: Path, tune: Tune, capsys: pytest.CaptureFixture[str]) -> None:
    pretend(tmp_path, ER, lambda spec: 1 - spec.lr)
    assert tune("er", "--seeds", "1")["chosen"]["lr"] == 0.001
    main(["paper", "T4", "--tuned", "--seeds", "1", "--render", "--data", str(tmp_path), "--out", str(tmp_path)])
    shown = " ".join(capsys.readouterr().out.split())
    assert "the authors' picks; tuned.json has none for er on cifar10, ss-il on cifar10." in shown


def test_by_default_all_methods_of_the_paper_are_tuned() -> None:
    settings = [setting for artifact in ARTIFACTS.values() for setting in artifact.settings()]
    commands = [["tune", "--dataset", dataset, *more] for dataset in MEMORY for more in ([], ["--augment"])]
    searched = [search for command in commands for search in searches(parser().parse_args(command))]
    picks = {(search.dataset, search.method, search.augment): HyperParameters(0.1) for search in searched}
    assert len(picks) == len(searched)
    assert all(setting.own_pick(picks) for setting in settings)
    assert {(s.dataset, s.memory) for s in searched} == {
        ("cifar10", (5, 20, 100)), ("cifar100", (100,)), ("mini-imagenet", (100,))
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tune", "--method", "er-acee"], "unknown method 'er-acee': did you mean 'er-ace'?"),
        (["tune", "--dataset", "cifar11"], "unknown dataset 'cifar11': did you mean 'cifar10'?"),
        (["tune", "--seeds", "0"], "seeds must be a whole number of 1 or more, not 0"),
        (["tune", "--seeds", "100000"], "runs; one command does 100,000 at most"),
        (["tune", "--memory", "-1"], "--memory must be a whole number of 0 or more"),
        (["tune", "--quick", "--memory", "7"], "--memory 7: there are only miniatures with 0, 5, 20, 50, 100 samples"),
        (["tune", "--memory", "x"], "--memory"),
        (["tune", "--data", "nowhere"], "holdfast data get cifar10"),
        (["paper", "T1", "--tuned"], "there is no out/tuned.json yet; holdfast tune --out out writes it"),
    ],
)
def test_mistakes(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        code: object = main([*arguments, "--out", "out"])
    except SystemExit as end:
        code = end.code
    error = capsys.readouterr().err
    assert code == 2 and said in error and error.count("\n") == 1


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"format": 2}', '{"format": 1, "choices": [{}]}', "\udcff"])
@pytest.mark.parametrize("command", [["tune", "--quick"], ["paper", "T1", "--quick", "--tuned"]])
def test_a_damaged_file_is_noticed_before_anything_runs(
    content: str, command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tuned.json").write_text(content, errors="surrogateescape")
    assert main([*command, "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert re.match(r"holdfast: .*tuned\.json (cannot be read|has format 2)", error) and error.count("\n") == 1
    assert not (tmp_path / "runs.sqlite").exists()
