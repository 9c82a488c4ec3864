"""What the README shows works."""

import doctest
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from holdfast import methods
from holdfast.commands.main import parser
from holdfast.learner import learner
from holdfast.methods import METHODS, find
from tests.pages import ROOT, blocks, broken_links

README = ROOT / "README.md"
TEXT = README.read_text()
PYTHON = [block.text for block in blocks(README, "python")]


def test_the_learner_on_ones_own_data(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(PYTHON[0], "README.md", "exec"), {})
    first, second = capsys.readouterr().out.splitlines()[:2]
    assert first == "['storm']"
    assert second.startswith("['calm', 'windy', 'storm']")


def test_the_example_in_the_docstring() -> None:
    assert doctest.testmod(learner) == doctest.TestResults(failed=0, attempted=8)


def test_a_method_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(PYTHON[1])
    assert find(f"{tmp_path / 'own.py'}:GentleReplay").__name__ == "GentleReplay"


def test_every_command_is_understood() -> None:
    lines = [words for block in blocks(README, "sh") for words in block.commands]
    commands = [words[1:] for words in lines if words[0] == "holdfast"]
    assert len(commands) >= 4
    for words in commands:
        options = parser().parse_args(words)
        for method in getattr(options, "method", None) or []:
            find(methods.parse(method)[0])


def test_the_table_has_every_method() -> None:
    assert re.findall(r"^\| `([a-z+-]+)`(?: †)? \|", TEXT, re.MULTILINE) == list(METHODS)


def test_what_it_links_to_is_there() -> None:
    assert broken_links(README) == []


def test_on_a_package_index_no_link_is_relative_and_the_project_is_named(tmp_path: Path) -> None:
    for name in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    command = [sys.executable, str(ROOT / "scripts" / "for_package_index.py"), "https://forge/us/it", "v1"]
    subprocess.run(command, cwd=tmp_path, check=True)
    links = re.findall(r"""(?:\]\(|src=")([^)"]+)""", (tmp_path / "README.md").read_text())
    pictures = {f"https://forge/us/it/raw/v1/docs/{name}.png" for name in ("anytime", "page-watch", "page-teach")}
    assert pictures <= set(links)
    assert [link for link in links if not link.startswith("https://")] == []
    paths = [link.partition("/v1/")[2] for link in links if link.startswith("https://forge/")]
    assert len(paths) > 10 and [path for path in paths if not (ROOT / path).exists()] == []
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]
    assert project["urls"]["Source"] == "https://forge/us/it"
