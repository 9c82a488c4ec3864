"""The pages of results are what one command makes of the records, and have the numbers of the commands they name."""

import importlib.util
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from holdfast.commands.main import main
from holdfast.measure import metrics
from holdfast.measure.evaluate import Evaluation
from holdfast.reproduction.artifacts import ARTIFACTS
from holdfast.reproduction.figures import FIGURES
from holdfast.runs.exported import read

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "results"
RECORDS = FOLDER / "records.json.xz"
PAGES = {page.stem: page.read_text() for page in FOLDER.glob("*.md")}


def script() -> Any:
    """scripts/results_pages.py"""
    spec = importlib.util.spec_from_file_location("results_pages", ROOT / "scripts" / "results_pages.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def records() -> Any:
    return script().Records(RECORDS)


def rows(text: str) -> list[str]:
    """Lines of tables, but for their heads."""
    lines = re.findall(r"(?:^\|.*\n)+", text + "\n", re.MULTILINE)
    return [row for table in lines for row in table.splitlines()[2:]]


@pytest.mark.slow
def test_they_are_what_the_script_makes_of_records_and_notes(tmp_path: Path) -> None:
    script().write(FOLDER, tmp_path, pictures=False)
    made = {page.stem: page.read_text() for page in tmp_path.glob("*.md")}
    assert sorted(made) == sorted(PAGES)
    assert [name for name, text in made.items() if text != PAGES[name]] == [], "run python scripts/results_pages.py"


@pytest.mark.slow
def test_tables_are_what_the_commands_make_of_the_records(tmp_path: Path) -> None:
    """With no dataset at hand."""
    tables = [name for name in PAGES if re.fullmatch(r"T\d", name)]
    to = ["--out", str(tmp_path)]
    assert main(["runs", "import", str(RECORDS), *to]) == 0
    assert (
        main(["paper", *tables, "--seeds", str(script().SEEDS), "--render", "--data", str(tmp_path / "none"), *to]) == 0
    )
    for name in tables:
        made = rows((tmp_path / "paper" / f"{name}.md").read_text())
        shown = rows(PAGES[name])
        assert shown and [row for row in shown if row not in made] == [], name


def test_every_figure_with_a_page_has_its_picture() -> None:
    shown = {name for name in PAGES if name in FIGURES or name == script().FRONTIER}
    assert {path.stem for path in FOLDER.glob("*.png")} == shown
    for name in shown:
        assert f"]({name}.png)" in PAGES[name]


def test_every_table_and_figure_is_linked_to() -> None:
    for name in ("authors-search", "commands", *(name for name in PAGES if name in ARTIFACTS)):
        assert f"]({name}.md)" in PAGES["README"], name


@pytest.mark.slow
def test_what_records_say_is_what_their_counts_say() -> None:
    for record in read(RECORDS):
        tasks, made = record["tasks"], [Evaluation.from_record(e) for e in record["evaluations"]]
        assert record["acc"] == metrics.anytime_accuracy(made[-1], tasks)
        if record["method"] != "gdumb":  # cannot answer in between
            assert record["aaa"] == pytest.approx(metrics.averaged_anytime_accuracy(made, tasks, record["eval_every"]))
            assert record["forgetting"] == metrics.forgetting(made, tasks, record["task_ends"])


@pytest.mark.parametrize(
    ("note", "shown"),
    [
        ("ER ends at {{acc er}}.", r"ER ends at \d+\.\d ± \d\.\d \(\d\)\."),
        ("{{acc er:head=cosine minus er}} points", r"-?\d+\.\d ± \d\.\d \(\d\) points"),
        ("{{acc er vs 24.6 1.2}}", r"[+-]\d\.\d within \d\.\d"),
        ("{{drift@3-5 er-ace probe=drift}}", r"0\.\d{3} .*"),
        ("{{acc er stream=arrays:released.npz:order=given lr=0.1}}", r"\d+\.\d \(n = 1\)"),
        ("kept{{needs er}}", "kept"),
        ("left out{{needs er memory=7}}", ""),
        ("kept{{lacks er memory=7}}", "kept"),
        ("left out{{lacks er}}", ""),
        ("one\n\ntwo {{acc er memory=7}}\n\nthree", "one\n\nthree"),
        (
            "| a |\n|---|\n| {{acc er memory=7}} |\n| {{acc er or x}} {{acc er memory=7 or –}} |",
            r"\| a \|\n\|---\|\n\| .*± .* – \|",
        ),
        ("{{acc er-ace against er}}", r"\+\d+\.\d \[[+-]\d+\.\d, [+-]\d+\.\d\] \(\d\)"),
        ("left out{{acc holdfast average=0.5}}", ""),
        ("- one\n- two {{acc er}} {{acc er memory=7}}\n- three", "- one\n- three"),
    ],
)
def test_notes_take_their_numbers_from_the_records(note: str, shown: str, records: Any) -> None:
    assert re.fullmatch(shown, records.filled(note)), records.filled(note)


@pytest.mark.slow
def test_pages_of_what_has_no_runs_any_more_go(tmp_path: Path) -> None:
    (tmp_path / "T99.md").write_text("old")
    shutil.copytree(FOLDER / "notes", tmp_path / "notes")
    shutil.copy(RECORDS, tmp_path)
    script().write(tmp_path, tmp_path, pictures=False)
    assert not (tmp_path / "T99.md").exists() and (tmp_path / "notes" / "T1.md").exists()
