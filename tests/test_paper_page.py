"""The commands on the page about the paper are understood, and what it links to is there."""

import re
from pathlib import Path

from holdfast.commands.main import parser
from holdfast.reproduction.artifacts import ARTIFACTS

PAGE = Path(__file__).parents[1] / "docs" / "paper.md"
TEXT = PAGE.read_text()


def test_its_commands_are_understood() -> None:
    lines = [line.partition("#")[0].split() for line in re.findall(r"^holdfast .*", TEXT, re.MULTILINE)]
    assert len(lines) >= 5
    for words in lines:
        asked = parser().parse_args(words[1:])
        assert asked.names or asked.plan


def test_it_names_every_table_and_figure() -> None:
    named = re.findall(r"\b[TF]\d+\b", "\n".join(re.findall(r"^\| [TF].*", TEXT, re.MULTILINE)))
    assert set(named) == set(ARTIFACTS)
