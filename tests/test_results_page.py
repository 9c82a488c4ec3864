"""The page of results has the numbers that its own commands make of its records."""

import json
import re
from pathlib import Path

import pytest

from holdfast.cli import main, parser
from holdfast.measure import metrics
from holdfast.measure.evaluate import Evaluation

PAGE = Path(__file__).parents[1] / "docs" / "results" / "README.md"
TEXT = PAGE.read_text()
RENDERING, *_ = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
SECTIONS = dict(re.findall(r"^## (T\d): .*?\n(.*?)(?=^## |\Z)", TEXT, re.DOTALL | re.MULTILINE))


def rows(text: str) -> list[str]:
    """Lines of tables, but for their heads."""
    lines = re.findall(r"(?:^\|.*\n)+", text + "\n", re.MULTILINE)
    return [row for table in lines for row in table.splitlines()[2:]]


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands at the top of the page make, with no dataset at hand."""
    out = tmp_path_factory.mktemp("results")
    for line in RENDERING.splitlines():
        words = line.replace("docs/results/", f"{PAGE.parent}/").split()[1:]
        options = ["--data", str(out / "no data")] if words[0] == "paper" else []
        assert main([str(out) if word == "results" else word for word in words] + options) == 0
    return out


def test_tables_are_what_the_records_say(rendered: Path) -> None:
    assert set(SECTIONS) == {"T1", "T2", "T3", "T7"}
    for name, section in SECTIONS.items():
        made = rows((rendered / "paper" / f"{name}.md").read_text())
        shown = rows(section)
        assert shown and [row for row in shown if row not in made] == [], name


def test_every_picture_is_one_that_the_commands_draw(rendered: Path) -> None:
    shown = re.findall(r"!\[[^]]*\]\((\w+\.png)\)", TEXT)
    assert shown and all((PAGE.parent / name).exists() and (rendered / "paper" / name).exists() for name in shown)
    assert {path.name for path in PAGE.parent.glob("*.png")} == set(shown)


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
