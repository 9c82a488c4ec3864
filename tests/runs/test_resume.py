"""A run that was stopped goes on where it was, and ends with the record it would have had."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from holdfast.methods import METHODS
from holdfast.runs.run import Run, run
from holdfast.runs.spec import RunSpec
from holdfast.runs.worker import Finished, Job, Saved, Started, perform
from holdfast.streams import source
from tests.runs.stopping import planned, stopped_after_every_step

Same = Callable[[dict[str, Any]], dict[str, Any]]


def spec_for(method: str, stream: str) -> RunSpec:
    options = {"rounds": "3"} if method == "gdumb" else {}
    return RunSpec(
        stream=stream, method=method, options=options, memory=4, eval_every=3, eval_mode="rotating:2", lr=0.01
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_stopped_after_any_step_it_ends_with_the_same_record(method: str, npz: str, tmp_path: Path, same: Same) -> None:
    spec = spec_for(method, npz)
    assert same(stopped_after_every_step(spec, tmp_path)) == same(run(spec, tmp_path))


def test_a_snapshot_of_another_run_or_a_damaged_one_is_not_taken_up(npz: str, tmp_path: Path) -> None:
    spec = spec_for("er", npz)
    begun = Run(planned(spec, tmp_path))
    begun.advance()
    snapshot = begun.snapshot()
    assert not Run(planned(spec_for("er-ace", npz), tmp_path)).take_up(snapshot)
    with patch("holdfast.runs.run.code_hash", lambda method: "another version"):
        assert not Run(planned(spec, tmp_path)).take_up(snapshot)
    for damaged in (snapshot[:-1] + bytes([snapshot[-1] ^ 1]), snapshot[:100], b""):
        fresh = Run(planned(spec, tmp_path))
        assert not fresh.take_up(damaged) and fresh.learner.step == 0


def test_a_worker_told_to_stop_ends_with_a_snapshot_and_another_goes_on(npz: str, tmp_path: Path, same: Same) -> None:
    spec = spec_for("er-ace", npz)
    events = list(perform(Job(spec), lambda: source(npz, tmp_path), lambda: True))
    assert [type(event) for event in events] == [Started, Saved]
    assert isinstance(events[-1], Saved)
    begun = Run(planned(spec, tmp_path))
    assert begun.take_up(events[-1].snapshot) and begun.learner.step == 1
    *_, last = perform(Job(spec, events[-1].snapshot), lambda: source(npz, tmp_path))
    assert isinstance(last, Finished)
    assert same(last.record) == same(run(spec, tmp_path))


def test_snapshots_come_as_often_as_asked(npz: str, tmp_path: Path) -> None:
    spec = spec_for("er", npz)
    with patch("holdfast.runs.worker.SHARE_FOR_SNAPSHOTS", 1e9):
        events = list(perform(Job(spec, snapshot_every=1e-9), lambda: source(npz, tmp_path)))
    assert sum(isinstance(event, Saved) for event in events) == 24
    events = list(perform(Job(spec, snapshot_every=1e-9), lambda: source(npz, tmp_path)))
    assert sum(isinstance(event, Saved) for event in events) < 12, "they may take a small share of the time only"
