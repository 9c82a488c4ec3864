"""The page "add your own method", executed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.commands.main import main

PAGE = Path(__file__).parents[1] / "docs" / "own-method.md"
TEXT = PAGE.read_text()
PYTHON, SHELL = (re.findall(rf"```{kind}\n(.*?)```", TEXT, re.DOTALL) for kind in ("python", "sh"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hard_replay.py").write_text(PYTHON[0])
    return tmp_path


@pytest.mark.parametrize("command", [line for block in SHELL for line in block.splitlines()])
def test_its_commands_work(command: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, *words = command.split()
    assert name == "holdfast"
    assert main(words) == 0, capsys.readouterr().out
    out = capsys.readouterr().out
    assert "14 of 14 hold" in out if words[0] == "check" else "hard_replay.py:Hard" in out.replace("\n", "")


def test_its_test_is_found_by_pytest(folder: Path) -> None:
    (folder / "test_it.py").write_text(PYTHON[1])
    command = [sys.executable, "-m", "pytest", "-q", "-k", "one_class or one_sample", "test_it.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_a_method_of_ones_own_is_short() -> None:
    assert len(PYTHON[0].splitlines()) <= 30


def test_what_it_links_to_is_there() -> None:
    links = re.findall(r"\]\(([^)]+)\)", TEXT)
    assert links and [link for link in links if not (PAGE.parent / link).exists()] == []
