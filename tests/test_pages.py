"""Pages of the documentation, each executed from top to bottom in an empty folder: what they say comes out."""

import contextlib
import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from holdfast.commands.main import main, parser
from tests.pages import DOCS, ROOT, Block, blocks, broken_links

EXECUTED = ["own-data.md", "own-stream.md", "runs.md", "report.md", "reproduce.md"]  # here
ELSEWHERE = ["own-method.md", "ray.md", "serve.md"]  # tests of their own
UNDERSTOOD = ["results", "methods"]  # their commands take hours: the site says that they are not run


def executed(name: str) -> tuple[list[str], dict[str, Any]]:
    """What each command or block has printed, and the names that blocks of Python have left."""
    printed: list[str] = []
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks(DOCS / name):
        if block.kind == "toml":
            Path("grid.toml").write_text(block.text)
        elif block.is_run:
            printed += _shell(block) if block.kind == "sh" else [_python(block, names)]
    return printed, names


def _shell(block: Block) -> list[str]:
    printed = []
    for name, *words in block.commands:
        assert name == "holdfast"
        with contextlib.redirect_stdout(io.StringIO()) as out:
            assert main(words) == 0, (words, out.getvalue())
        printed.append(out.getvalue())
    return printed


def _python(block: Block, names: dict[str, Any]) -> str:
    """Prints what the comments behind `print` say. A block for a file of its own is run as one."""
    if "__main__" in block.text:
        Path("script.py").write_text(block.text)
        done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(block.text, "page", "exec"), names)
    for said in re.findall(r"\)  # (.*)", "\n".join(re.findall(r"^ *print\(.*|^ *\)  # .*", block.text, re.MULTILINE))):
        assert said in out.getvalue().splitlines(), (said, out.getvalue())
    return out.getvalue()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "250")
    return tmp_path


ENCODER = """
from torch import nn
import holdfast


def encoder():
    return holdfast.pretrained(nn.Sequential(nn.AvgPool2d(56), nn.Flatten()), size=224)
"""


@pytest.mark.slow
def test_own_data(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    colours = {"Lime": (90, 200, 40), "Pear": (200, 190, 60), "Plum": (110, 30, 110), "Tomato": (220, 40, 30)}
    rng = np.random.default_rng(0)
    for part, number in (("Training", 5), ("Test", 2)):
        for name, colour in colours.items():
            kind = folder / "fruits" / part / name
            kind.mkdir(parents=True)
            for place in range(number):
                photo = np.clip(rng.normal(colour, 20, (30, 40, 3)), 0, 255).astype(np.uint8)
                Image.fromarray(photo).save(kind / f"{place}.jpg")
    (folder / "lite0.py").write_text(ENCODER)
    (table, _, exported, _, adopted, _, printed, _), names = executed("own-data.md")
    assert "slda" in table and "training on Training, testing on Test" in capsys.readouterr().err
    assert "fruits.onnx answers as fruits.learner" in exported
    assert "fruits-learner has the learner of fruits.learner at step" in adopted
    assert names["found"].threshold > 0 and len(printed.splitlines()) == 2 + len(names["found"].trade_off)


@pytest.mark.slow
def test_own_stream(folder: Path) -> None:
    _, names = executed("own-stream.md")
    names["learner"].close()
    assert (folder / "weather" / "learner").is_file() and list(folder.glob("weather-monday/before-repair-*"))


@pytest.mark.slow
def test_runs(folder: Path) -> None:
    printed, _ = executed("runs.md")
    first, again, _, listed, of_er_ace, none, *_, by_title, by_step, swept, in_python = printed
    assert "er-ace" in first and "er-ace" in again
    for row in ("er-ace", "fashion"):
        assert row in listed
    assert len(of_er_ace.splitlines()) < len(listed.splitlines()) and len(none.splitlines()) <= len(listed.splitlines())
    rows = list(csv.DictReader((folder / "runs.csv").read_text().splitlines()))
    assert len(rows) == 4 and {row["title"] for row in rows} == {"er", "er-ace"}
    assert by_title.count("er") >= 2 and "evaluations" not in by_step and "er-ace" in by_step
    assert "fine-tuning" in swept
    found = [line.split() for line in in_python.splitlines()]
    assert sorted(line[:2] for line in found) == [["er", "2"], ["er", "5"], ["er-ace", "2"], ["er-ace", "5"]]
    assert all(0.1 < float(line[2]) < 1 for line in found)
    assert main(["runs", "list", "--out", "elsewhere", "--where", "method=er"]) == 0


@pytest.mark.slow
def test_report(folder: Path) -> None:
    executed("report.md")
    page = (folder / "holdfast-runs" / "report.html").read_text()
    assert page.startswith("<!doctype html>") and "er-ace" in page and page.count("fashion:first=20") >= 4


@pytest.mark.slow
def test_reproduce(folder: Path) -> None:
    (made, in_python, rendered), _ = executed("reproduce.md")
    assert "ER-AML" in made and "ER-AML" in in_python and "ER-AML" in rendered
    cells = json.loads((folder / "holdfast-runs/paper/T7-miniature.json").read_text())
    assert re.search(r'"runs": \["[0-9a-f]{8}', json.dumps(cells))
    assert "| ER" in (folder / "holdfast-runs/paper/T7-miniature.md").read_text()


def test_every_block_is_run_by_a_test_or_says_that_it_is_not() -> None:
    for page in [ROOT / "README.md", *DOCS.rglob("*.md")]:
        name = page.relative_to(DOCS if page.is_relative_to(DOCS) else ROOT)
        if str(name) in [*EXECUTED, *ELSEWHERE, "README.md"] or name.parts[0] in UNDERSTOOD:
            continue
        assert [block.text for block in blocks(page) if block.kind and block.is_run] == [], name


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS)))
def test_its_commands_are_understood_and_what_it_links_to_is_there(page: Path) -> None:
    for block in blocks(page, "sh"):
        for name, *words in block.commands:
            if name == "holdfast":
                parser().parse_args(words)
            else:
                assert name in ("curl", "docker", "echo", "make", "pip") or (
                    name == "python" and (ROOT / words[0]).exists()
                )
    if "notes" not in page.parts:  # pieces of pages
        assert broken_links(page) == []


def test_everything_is_in_the_navigation() -> None:
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    named = re.findall(r"([\w./-]+\.md)$", nav, re.MULTILINE)
    there = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if "notes" not in page.parts}
    assert set(named) == there | {"changelog.md"}
