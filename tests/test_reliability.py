"""What must never happen does not, and if it did, it would be seen."""

import inspect
import sqlite3
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType as Function
from typing import Any

import pytest

from holdfast import files
from holdfast.files import Appendix
from holdfast.home import Home
from holdfast.runs.store import Store
from reliability import crashes, cuts, homes
from reliability.__main__ import FIGURES
from reliability.disk import FaultyDisk
from reliability.outcome import Measure
from reliability.scenes import scenes


@pytest.mark.parametrize("name", FIGURES)
def test_figures(name: str) -> None:
    outcome = FIGURES[name].measure(1)
    assert outcome.tried > 0 and not outcome.lost


def test_only_what_is_done_inside_goes_through_the_disk(tmp_path: Path) -> None:
    with FaultyDisk(tmp_path) as disk:
        files.write(tmp_path / "file", b"content")
        of_files = disk.operations
        Store(tmp_path / "runs.sqlite").open()
        of_both = disk.operations
    files.write(tmp_path / "file", b"content")
    Store(tmp_path / "others.sqlite").open()
    assert 0 < of_files < of_both == disk.operations


@pytest.mark.parametrize(
    ("function", "part", "instead", "figure"),
    [
        ("write", "os.fsync(file.fileno())", "pass", crashes.power_loss),
        ("write", "_sync_folder(path.parent)", "pass", crashes.power_loss),
        ("write", "os.replace", "path.exists() and os.unlink(path); os.replace", crashes.crash_at_every_operation),
        ("write", "raise WriteError", "raise KeyError", crashes.disk_full_or_failing),
        ("make_folder", "_sync_folder(each.parent)", "pass", crashes.power_loss),
    ],
)
def test_careless_files_are_noticed(
    function: str, part: str, instead: str, figure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = {"write": "a checkpoint over an older one", "make_folder": "a new store"}[function]
    only(scene, monkeypatch)
    monkeypatch.setattr(files, function, changed(getattr(files, function), part, instead))
    assert figure(1).lost


@pytest.mark.parametrize(
    ("method", "part", "instead", "figure"),
    [
        (Appendix.append, "self._sync()", "pass", crashes.power_loss),
        (Appendix.append, "self._file.flush()", "pass", crashes.crash_at_every_operation),
        (Appendix.append, "raise self._failed(error) from error", "pass", crashes.same_learner_after_a_failure),
        (Appendix.close, "raise self._failed(error) from error", "self._failed(error)", crashes.disk_full_or_failing),
        (Home.start_anew, "following =", "self._remove_other_logs(); following =", crashes.crash_at_every_operation),
        (Home.go_on, "self.start_anew(serialized)", "pass", crashes.crash_at_every_operation),
        (Home.mend, "self.start_anew(serialized)", "pass", crashes.same_learner_after_a_failure),
    ],
)
def test_a_careless_durable_learner_is_noticed(
    method: Function, part: str, instead: str, figure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = {"Appendix": Appendix, "Home": Home}[method.__qualname__.split(".")[0]]
    monkeypatch.setattr(crashes, "scenes", lambda effort: [])
    monkeypatch.setattr(owner, method.__name__, changed(method, part, instead))
    assert any(trials_of(figure))


@pytest.mark.parametrize("scene", ["a new store", "a store", "a store that is also read"])
def test_a_store_that_does_not_sync_is_noticed(scene: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connected = Store._connected

    @contextmanager
    def careless(store: Store) -> Iterator[sqlite3.Connection]:
        with connected(store) as db:
            db.execute("PRAGMA synchronous = OFF")
            yield db

    only(scene, monkeypatch)
    monkeypatch.setattr(Store, "_connected", careless)
    assert crashes.power_loss(1).lost


def test_a_store_that_takes_missing_bytes_for_zeros_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "_check_length", lambda *_: None)
    assert any(cuts.cut_store(1, runs=40, evaluations=0))


def trials_of(figure: Measure) -> Iterator[str | None]:
    """One after the other, so that the first that notices is the last."""
    trials: Iterator[str | None] = inspect.unwrap(figure)(1)
    return trials


def only(scene: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crashes, "scenes", lambda effort: [each for each in scenes(effort) if each.what == scene])
    monkeypatch.setattr(homes, "scenes", lambda effort: [])


def changed(function: Function, part: str, instead: str) -> Any:
    """A function or method, with a part of it exchanged."""
    source = textwrap.dedent(inspect.getsource(function))
    assert part in source
    found: dict[str, Any] = {}
    exec(source.replace(part, instead), function.__globals__, found)
    return found[function.__name__]
