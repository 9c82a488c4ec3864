"""The page "add your own method", executed."""

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.commands.main import main
from tests.pages import DOCS, blocks

PAGE = DOCS / "own-method.md"
PYTHON = [block.text for block in blocks(PAGE, "python")]
COMMANDS = [words for block in blocks(PAGE, "sh") for words in block.commands]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    (tmp_path / "hard_replay.py").write_text(PYTHON[0])
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_its_commands_work(command: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, *words = command
    assert name == "holdfast"
    assert main(words) == 0, capsys.readouterr().out
    out = capsys.readouterr().out
    assert "14 of 14 hold" in out if words[0] == "check" else "hard_replay.py:Hard" in out.replace("\n", "")


@pytest.mark.slow
def test_its_test_is_found_by_pytest(folder: Path) -> None:
    (folder / "test_it.py").write_text(PYTHON[1])
    command = [sys.executable, "-m", "pytest", "-q", "-k", "one_class or one_sample", "test_it.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_a_method_of_ones_own_is_short() -> None:
    assert len(PYTHON[0].splitlines()) <= 30
