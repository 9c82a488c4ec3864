"""The page of results has the numbers that its own commands make of its records."""

import json
import re
from pathlib import Path

import pytest

from holdfast.commands.main import main, parser
from holdfast.measure import metrics
from holdfast.measure.evaluate import Evaluation
from holdfast.paper.artifacts import ARTIFACTS

PAGE = Path(__file__).parents[1] / "docs" / "results" / "README.md"
TEXT = PAGE.read_text()
RENDERING, *_ = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
SECTIONS = dict(re.findall(r"^## (T\d): .*?\n(.*?)(?=^## |\Z)", TEXT, re.DOTALL | re.MULTILINE))


def rows(text: str) -> list[str]:
    """Lines of tables, but for their heads."""
    lines = re.findall(r"(?:^\|.*\n)+", text + "\n", re.MULTILINE)
    return [row for table in lines for row in table.splitlines()[2:]]


def test_tables_are_what_its_commands_make_of_its_records(tmp_path: Path) -> None:
    """With no dataset at hand."""
    assert set(SECTIONS) == {"T1", "T2", "T3", "T7"}
    to = ["--out", str(tmp_path)]
    assert main(["runs", "import", str(PAGE.parent / "records.json"), *to]) == 0
    assert main(["paper", *SECTIONS, "--seeds", "3", "--render", "--data", str(tmp_path / "none"), *to]) == 0
    for name, section in SECTIONS.items():
        made = rows((tmp_path / "paper" / f"{name}.md").read_text())
        shown = rows(section)
        assert shown and [row for row in shown if row not in made] == [], name


def test_its_first_commands_make_its_tables_and_pictures() -> None:
    assert "holdfast runs import docs/results/records.json" in RENDERING
    drawn = {word for line in RENDERING.splitlines() if " paper " in line for word in re.findall(r"\b[TF]\d+\b", line)}
    shown = re.findall(r"!\[[^]]*\]\((\w+)\.png\)", TEXT)
    assert {*shown, *SECTIONS} <= drawn <= set(ARTIFACTS)
    assert {path.stem for path in PAGE.parent.glob("*.png")} == set(shown)


def test_every_command_is_understood() -> None:
    for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            words = line.split()
            if words[0] == "holdfast":
                parser().parse_args(words[1:])
            else:
                assert words[0] == "python" and (PAGE.parents[2] / words[1]).exists()


def test_what_records_say_is_what_their_counts_say() -> None:
    for record in json.loads((PAGE.parent / "records.json").read_text()):
        tasks, made = record["tasks"], [Evaluation.from_record(e) for e in record["evaluations"]]
        assert record["acc"] == metrics.anytime_accuracy(made[-1], tasks)
        if record["method"] != "gdumb":  # cannot answer in between
            assert record["aaa"] == pytest.approx(metrics.averaged_anytime_accuracy(made, tasks, record["eval_every"]))
            assert record["forgetting"] == metrics.forgetting(made, tasks, record["task_ends"])
