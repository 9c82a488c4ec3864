"""`holdfast doctor` tells what works here, and its exit code whether something does not."""

import json
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.commands import doctor
from holdfast.commands.main import main
from holdfast.datasets.cifar import Layout
from holdfast.measure import precision, trial
from holdfast.measure.precision import VARIABLE, Precision
from tests.pages import ROOT

EXTRAS = dict(doctor.EXTRAS)
NAMES = ["holdfast", "torch", "processor", "threads", "arithmetic", "precision", "update", "answer", "disk", "data"]


@pytest.fixture(autouse=True)
def in_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "ROUNDS", 1)
    monkeypatch.setattr(doctor, "EXTRAS", {"plots": "matplotlib", "serve": "no_such_module_at_all"})


@pytest.mark.slow
def test_a_line_for_each_thing_and_a_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines if line[:2] in ("✓ ", "! ", "· ")][: len(NAMES)] == NAMES
    assert any("not installed: pip install 'holdfast[serve]'" in line for line in lines)
    assert lines[-1].startswith("everything that is installed works")


@pytest.mark.slow
def test_the_same_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    by_name = {finding["name"]: finding for finding in found["findings"]}
    assert by_name["update"]["value"]["seconds"] > 0 and by_name["update"]["value"]["ratio"] > 0
    assert by_name["arithmetic"]["value"]["threads"] == 1
    assert found["verdict"]


@pytest.mark.slow
def test_what_crashes_when_it_is_imported_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def died(*_: object) -> None:
        raise trial.TrialFailed("it ended with Illegal instruction")

    monkeypatch.setattr(trial, "in_child", died)
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "cannot be imported: it ended with Illegal instruction" in out and "does not work: plots" in out


def test_a_cached_precision_that_no_longer_holds_is_worth_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        doctor, "suitable", lambda *_, anew: Precision("float32" if anew else "bf16", "bf16 does not work here")
    )
    (finding,) = doctor._precision()
    assert finding.state == "look" and "remove" in finding.text


def test_a_disk_that_cannot_be_written_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> Iterator[None]:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    (finding,) = doctor._disk()
    assert finding.state == "look" and "Read-only file system" in finding.text


def test_a_precision_that_nobody_knows_is_said_where_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "fp8")
    (finding,) = doctor._precision()
    assert finding.state == "wrong" and "unknown precision in $HOLDFAST_PRECISION 'fp8'" in finding.text


def test_folders_that_cannot_be_used_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(precision, "folder", lambda: tmp_path / "file" / "precision")
    monkeypatch.setattr(Layout, "fault", refuse)
    data, cache = doctor._folders(str(tmp_path))
    assert data.state == "look" and data.text == f"{tmp_path} cannot be read: Permission denied"
    assert cache.state == "look" and cache.text.endswith("cannot be written")


def test_it_looks_for_every_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(EXTRAS) == set(extras) - {"docs", "dev"}
