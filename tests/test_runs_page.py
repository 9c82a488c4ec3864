"""The page on runs, executed from top to bottom."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.commands.main import main, parser

PAGE = Path(__file__).parents[1] / "docs" / "runs.md"
BLOCKS = re.findall(r"```(sh|python|toml)\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_everything_on_it_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for kind, text in BLOCKS:
        if kind == "toml":
            Path("grid.toml").write_text(text)
        elif kind == "python":
            Path("script.py").write_text(text)
            done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, check=False)
            assert done.returncode == 0 and "er-ace" in done.stdout, done.stdout + done.stderr
        elif "--backend ray" in text:
            parser().parse_args(text.splitlines()[1].split()[1:])  # the cluster has tests of its own
        else:
            for line in text.splitlines():
                assert main(line.split()[1:]) == 0, line
    assert Path("elsewhere/runs.sqlite").is_file()
