"""Every table and figure in miniature, and its structure against the paper's."""

import fcntl
import json
import os
import re
import shutil
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from holdfast import methods, reproduction
from holdfast.commands.main import main
from holdfast.report.statistics import paired
from holdfast.reproduction.artifacts import ARTIFACTS
from holdfast.reproduction.figures import FIGURES
from holdfast.reproduction.measures import PUBLISHED_AS
from holdfast.reproduction.published import cells
from holdfast.reproduction.sections import by_seed
from holdfast.reproduction.setting import Setting
from holdfast.reproduction.tables import TABLES
from holdfast.runs.store import Record, Store

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`holdfast paper all --quick`, once for all workers; to be looked at only."""
    own = tmp_path_factory.getbasetemp()
    out = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "paper"
    with open(out.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not out.exists():
            assert main(["paper", "all", "--quick", "--seeds", "1", "--out", str(out)]) == 0
    return out


@pytest.fixture
def store(everything: Path, tmp_path: Path) -> Path:
    """A folder of one's own with all of its runs."""
    shutil.copy(everything / "runs.sqlite", tmp_path)
    return tmp_path


def test_every_table_and_figure_is_there() -> None:
    assert list(ARTIFACTS) == [f"T{i}" for i in range(1, 10)] + [f"F{i}" for i in range(1, 11)]


@pytest.mark.parametrize("name", TABLES)
def test_tables_have_every_cell_of_the_paper_and_no_hole(name: str, everything: Path) -> None:
    found = json.loads((everything / "paper" / f"{name}-miniature.json").read_text())
    assert all(cell["values"] and cell["runs"] for cell in found)
    with_paper = [cell for cell in found if cell["paper"] and cell["measure"] not in PUBLISHED_AS]
    repeated = {"T1": 4, "T6": 12}.get(name, 0)  # methods without memory are printed once for each size of it
    per_memory = [c for c in cells()[name] if name == "T1" and c["measure"] in ("tflops", "megabytes")]
    shared_by_rows = [c for c in per_memory if "augment" not in c]
    assert len(with_paper) - repeated == len(cells()[name]) + 2 * len(per_memory) + 3 * len(shared_by_rows)
    assert all(not cell["agreement"] for cell in found), "a miniature is not compared"
    text = (everything / "paper" / f"{name}-miniature.md").read_text()
    for row in TABLES[name].rows:
        assert f"| {row.title} |" in text
    assert "A miniature" in text


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_drawn_with_nothing_missing(name: str, everything: Path) -> None:
    assert (everything / "paper" / f"{name}-miniature.png").read_bytes().startswith(b"\x89PNG")
    text = (everything / "paper" / f"{name}-miniature.svg").read_text()
    ElementTree.fromstring(text)
    assert "missing" not in text
    shown = re.sub(r"<[^>]+>", " ", text)
    for setting in ARTIFACTS[name].settings():
        title = {"icarl": "iCaRL", "mir": "MIR", "ss-il": "SS-IL"}.get(
            setting.name, setting.name.upper().partition("++")[0]
        )
        assert title.replace("IID", "iid") in shown, title


OF_A_CIFAR10_RUN = {("cifar10", method, 20, False) for method in ("er", "icarl", "mir", "ss-il", "er-ace", "er-aml")}
WHAT_FIGURES_SHOW = {  # dataset, method, samples a class in memory, augmentation
    "F1": {("cifar10", method, 20, False) for method in ("er:head=cosine", "er-ace", "er")}
    | {("cifar10", "er", 100, False)},
    "F2": {("cifar10", method, 20, False) for method in ("er-aml", "er-aml:negatives=all")},
    "F3": OF_A_CIFAR10_RUN | {("cifar10", "iid++", 0, False)},
    "F4": {("cifar10", method, 20, False) for method in ("ss-il", "er", "er-ace")},
    "F5": {("cifar10", method, 20, False) for method in ("er", "er-ace")},
    "F6": {("cifar10", method, memory, True) for method in ("der++", "der++-ace") for memory in (20, 100)},
    "F7": {("cifar10", method, 20, False) for method in ("er", "er-ace", "er-aml", "er-aml:negatives=all")},
    "F8": {("cifar10", method, 20, False) for method in ("er:head=cosine", "er-ace")},
    "F9": {("cifar10", method, 20, False) for method in ("er:head=cosine", "er-ace", "er-aml")},
    "F10": {
        (dataset, method, memory, augment)
        for dataset, memories in {
            "cifar10": (5, 20, 50, 100),
            "cifar100": (20, 50, 100),
            "mini-imagenet": (20, 50, 100),
        }.items()
        for memory in memories
        for augment in (False, True)
        for method in ("er", "icarl", "mir", "ss-il", "er-ace", "er-aml", *(["der++"] if augment else []))
    },
}
PANELS = {"F1": 4, "F2": 2, "F3": 1, "F4": 1, "F5": 1, "F6": 2, "F7": 1, "F8": 2, "F9": 12, "F10": 20}
WITH_TASKS_SHADED = {"F1", "F2", "F4", "F7", "F8", "F10"}


@pytest.mark.parametrize("name", WHAT_FIGURES_SHOW)
def test_figures_have_the_methods_memories_and_panels_of_the_paper(name: str, everything: Path) -> None:
    shown = {(s.dataset, s.method, s.memory, s.augment) for s in ARTIFACTS[name].settings()}
    assert shown == WHAT_FIGURES_SHOW[name]
    drawn = (everything / "paper" / f"{name}-miniature.svg").read_text()
    assert len(re.findall(r'<g id="axes_\d+">', drawn)) == PANELS[name]
    assert ("#f0f0f0" in drawn) == (name in WITH_TASKS_SHADED)


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_says_what_it_lacks(name: str) -> None:
    assert "missing" in FIGURES[name].svg(lambda setting: [])


def test_what_is_there_is_rendered_without_running(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = len(Store(store / "runs.sqlite").rows())
    assert main(["paper", "T3", "--quick", "--seeds", "2", "--render", "--out", str(store)]) == 0
    assert "(n = 1)" in capsys.readouterr().out
    assert main(["paper", "T3", "--seeds", "1", "--render", "--quick", "--only", "memory=20", "--out", str(store)]) == 0
    assert "missing" in capsys.readouterr().out
    assert len(Store(store / "runs.sqlite").rows()) == before


def test_what_is_there_is_rendered_where_the_data_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store(tmp_path / "runs.sqlite")
    store.open()
    (spec,) = Setting(method="er-ace", memory=100, dataset="cifar100").specs(1)
    measured = {"aaa": 0.3, "acc": 0.2, "train_macs": 10**12, "memory_bytes": 10**6}
    store.keep("a run", {**spec.as_json(), "title": spec.title, **measured})
    command = ["paper", "T2", "--seeds", "1", "--render", "--data", str(tmp_path / "empty"), "--out", str(tmp_path)]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "ER-ACE" in shown and "only not augmented" in shown and "…" not in shown


def test_a_column_is_chosen_by_what_its_stream_says(store: Path) -> None:
    command = ["paper", "T8", "--quick", "--seeds", "1", "--render", "--only", "distinct=2", "--out", str(store)]
    assert main(command) == 0
    there = [
        cell["column"] for cell in json.loads((store / "paper" / "T8-miniature.json").read_text()) if cell["values"]
    ]
    assert there == ["2 distinct classes a batch"] * 4


@pytest.mark.parametrize(
    ("there", "shown"),
    [
        ({False: [0.2, 0.4], True: [0.35]}, "35.0 (n = 1), augmented"),
        ({False: [0.2, 0.4], True: [0.1]}, "30.0 ± 10.0 (2), not augmented"),
        ({False: [], True: [0.1]}, "10.0 (n = 1), only augmented"),
        ({False: [], True: []}, "missing"),
    ],
)
def test_a_cell_says_whether_augmented_runs_were_better(there: dict[bool, list[float]], shown: str) -> None:
    table = TABLES["T3"]
    found = list(table.cells(lambda setting: [{"id": "run", "acc": acc} for acc in there[setting.augment]]))
    assert f"| ER | {shown} | 32.1" in table.markdown(found)


def test_both_readings_of_anytime_accuracy_are_of_the_same_evaluations() -> None:
    made = {"step": 10, "seen": 100, "correct": [6, 0], "total": [10, 0]}
    end = {"step": 15, "seen": 150, "correct": [9, 0], "total": [10, 0]}
    record = {"id": "run", "aaa": 0.6, "acc": 0.9, "train_macs": 1, "memory_bytes": 1, "evaluations": [made, end]}
    record |= {"tasks": [[0], [1]], "task_ends": [15, 30]}

    def found(setting: Setting) -> list[Record]:
        return [record] if (setting.method, setting.dataset) == ("er", "cifar100") else []

    text = TABLES["T2"].markdown(list(TABLES["T2"].cells(found)))
    assert "| method | AAA % | published | difference | AAA % at task ends | published | difference |" in text
    assert "| ER | 60.0 (n = 1) | 24.2 ± 0.6 | +35.8 | 90.0 (n = 1) | 24.2 ± 0.6 | +65.8 |" in text


def test_values_are_paired_by_seed_where_one_run_has_none() -> None:
    forgetting: dict[str, dict[int, float | None]] = {
        "er": {0: None, 1: 0.3, 2: 0.5},
        "er-aml": {0: 0.9, 1: 0.1, 2: 0.2},
    }

    def found(setting: Setting) -> list[Record]:
        values = forgetting.get(setting.method, {}) if setting.memory == 20 else {}
        return [{"id": f"{setting.method}{seed}", "acc": 0.5, "forgetting": each} for seed, each in values.items()]

    table = replace(TABLES["T7"], measures=["forgetting"])
    cells = [cell for cell in table.cells(found) if cell.values]
    assert [cell.runs for cell in cells] == [["er1", "er2"], ["er-aml0", "er-aml1", "er-aml2"]]
    seeds = {f"{method}{seed}": seed for method in forgetting for seed in range(3)}
    pairs = paired(*(by_seed(cell, seeds) for cell in cells))
    assert pairs is not None and pairs.n == 2 and pairs.difference == pytest.approx(25)


def test_a_picture_that_cannot_be_written_is_one_line(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (store / "paper" / "F8-miniature.png").mkdir(parents=True)
    assert main(["paper", "F8", "--quick", "--seeds", "1", "--render", "--out", str(store)]) == 2
    error = capsys.readouterr().err
    assert "F8-miniature.png cannot be written" in error and error.count("\n") == 1
    assert [path.name for path in (store / "paper").iterdir()] == ["F8-miniature.png"]


def test_only_what_is_asked_for_is_run(tmp_path: Path) -> None:
    command = ["paper", "T7", "--quick", "--seeds", "2", "--out", str(tmp_path), "--only", "method=er,memory=20"]
    assert main(command) == 0
    rows = Store(tmp_path / "runs.sqlite").rows()
    assert [(row["method"], row["memory"]) for row in rows] == [("er", 2)] * 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["T1", "--seeds", "100000"], "runs; one command does 100,000 at most"),
        (["T10"], "unknown table or figure 'T10': did you mean 'T1'?"),
        (["T1", "--only", "methd=er"], "did you mean 'method'?"),
        (["T1", "--only", "er"], "field=value"),
        (["T1", "--only", "memory="], "field=value"),
        (["T8", "--only", "distnct=2"], "did you mean 'distinct'?"),
        (["T8", "--only", "distinct=7"], "no run of T8 is like that"),
        (["T1", "--only", "method=scr"], "no run of T1 is like that"),
        (["T1", "--seeds", "0"], "1 or more"),
        (["T1", "--render", "--fresh"], "leave one of them out"),
        (["T1", "--render", "--out", "nowhere"], "there are no runs in nowhere"),
    ],
)
def test_mistakes(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["paper", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_hyper_parameters_are_the_papers_picks() -> None:
    picks = {
        ("cifar10", "er-aml", False): ("0.1", "0.2"),
        ("cifar10", "er-aml", True): ("0.1", "0.1"),
        ("cifar100", "er-ace", True): ("0.1", None),
        ("mini-imagenet", "er", False): ("0.01", None),
        ("cifar10", "ss-il", False): ("0.01", None),
        ("cifar100", "ss-il", False): ("0.1", None),
    }
    for (dataset, method, augment), (lr, temperature) in picks.items():
        (spec,) = Setting(dataset=dataset, method=method, augment=augment).specs(1)
        assert (str(spec.lr), spec.options.get("temperature")) == (lr, temperature)
    (spec,) = Setting(dataset="cifar100", method="der++", augment=True).specs(1)
    assert (spec.options, spec.lr) == ({"alpha": "0.25", "beta": "1.0"}, 0.01)


@pytest.mark.parametrize(
    ("method", "memory", "augment", "text", "released"),
    [
        ("er-ace", 20, False, (0.1, {}), (0.01, {})),
        ("er-ace", 20, True, (0.01, {}), (0.1, {})),
        ("er-aml", 20, True, (0.1, {"temperature": "0.1"}), (0.01, {"temperature": "0.3"})),
        ("der++", 100, True, (0.01, {"alpha": "0.75", "beta": "1.0"}), (0.01, {"alpha": "0.25", "beta": "1.0"})),
        ("der++-ace", 100, True, (0.01, {"alpha": "0.75", "beta": "1.0"}), (0.01, {"alpha": "0.25", "beta": "1.0"})),
        ("er", 5, False, (0.1, {}), (0.1, {})),
        ("iid", 0, False, (0.01, {}), (0.01, {})),
        ("fine-tuning", 0, False, (0.1, {}), (0.1, {})),
    ],
)
def test_the_released_code_picks_for_each_size_of_memory(
    method: str, memory: int, augment: bool, text: tuple[float, Any], released: tuple[float, Any]
) -> None:
    setting = Setting(method=method, memory=memory, augment=augment)
    for whose, expected in (("text", text), ("released", released)):
        (spec,) = setting.specs(1, whose=whose)  # type: ignore[arg-type]
        assert (spec.lr, spec.options) == expected


def test_every_pick_can_be_run() -> None:
    """And the search has one for every cell of T1 and T2 whose method has a memory."""
    picks = tomllib.loads((Path(reproduction.__file__).parent / "picks.toml").read_text())
    for of_text, released in zip(picks["text"].values(), picks["released"].values(), strict=True):
        by_memory = [(method, both) for method, sizes in released.items() for both in sizes.values()]
        for method, both in [*of_text.items(), *by_memory]:
            assert len(both) == 2 and all(pick["lr"] in (0.1, 0.01, 0.001) for pick in both)
            assert all(
                methods.make(*methods.parse(f"{method}:{pick['options']}")) for pick in both if "options" in pick
            )
    for setting in [*TABLES["T1"].settings(), *TABLES["T2"].settings()]:
        if setting.memory and setting.name != "gdumb":
            assert str(setting.memory) in picks["released"][setting.dataset][setting.name]


def test_tables_say_whose_hyper_parameters_they_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Store(tmp_path / "runs.sqlite").open()
    command = ["paper", "T1", "--render", "--out", str(tmp_path)]
    assert main(command) == 0 and main([*command, "--picks", "released"]) == 0
    text, released = ((tmp_path / "paper" / f"T1{more}.md").read_text() for more in ("", "-released"))
    assert "the best on average over M" in text and "for each M" not in text
    assert "for each M, as the released code loads them" in released
    assert "for each M, as the released code loads them" in " ".join(capsys.readouterr().out.split())


def test_a_store_that_was_only_just_made_is_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / "runs.sqlite").touch()
    command = ["paper", "T7", "--quick", "--seeds", "1", "--out", str(tmp_path), "--only", "method=er,memory=20"]
    assert main(command) == 0


def test_a_run_made_for_a_figure_serves_tables_too(tmp_path: Path) -> None:
    to = ["--quick", "--seeds", "1", "--only", "method=er,memory=20", "--out", str(tmp_path)]
    assert main(["paper", "F4", *to]) == 0
    (made,) = Store(tmp_path / "runs.sqlite").rows()
    assert made["probe"]
    assert main(["paper", "T7", *to]) == 0
    assert [row["id"] for row in Store(tmp_path / "runs.sqlite").rows()] == [made["id"]]
    cells = json.loads((tmp_path / "paper" / "T7-miniature.json").read_text())
    assert {run for cell in cells for run in cell["runs"]} == {made["id"]}
    assert main(["paper", "T7", *to, "--fresh"]) == 0
    made_again = Store(tmp_path / "runs.sqlite").rows()[-1]
    assert not made_again["probe"] and made_again["acc"] == made["acc"]


def test_a_table_and_a_figure_asked_for_together_share_their_run(tmp_path: Path) -> None:
    to = ["--quick", "--seeds", "1", "--only", "method=er,memory=20", "--out", str(tmp_path)]
    assert main(["paper", "T7", "F4", *to]) == 0
    (made,) = Store(tmp_path / "runs.sqlite").rows()
    assert made["probe"]
    cells = json.loads((tmp_path / "paper" / "T7-miniature.json").read_text())
    assert {run for cell in cells for run in cell["runs"]} == {made["id"]}
