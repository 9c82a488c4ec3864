"""R25: files written by every release so far open, and hold what they held."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast
from holdfast import ERACE, Learner, import_memory, mlp
from holdfast.learner.memory_contents import memory_summary
from holdfast.runs.store import Store

RELEASES = sorted((Path(__file__).parent / "releases").iterdir())


@pytest.fixture(params=RELEASES, ids=lambda folder: folder.name)
def release(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy, with nothing of it in use."""
    return Path(shutil.copytree(request.param, tmp_path / "release"))


@pytest.fixture
def told(release: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((release / "told.json").read_text())
    return told


def check(learner: Learner, told: dict[str, Any]) -> None:
    x = np.array(told["x"], np.float32)
    assert learner.classes == told["classes"] and learner.step == told["step"]
    assert len(learner.pending) == told["questions"] and len(learner.memory) == told["memory"]
    assert np.allclose(learner.predict_proba(x), told["probabilities"], atol=1e-4)
    learner.observe(x, ["a new class", *told["classes"]])
    assert learner.step == told["step"] + 1


def test_a_saved_learner_opens(release: Path, told: dict[str, Any]) -> None:
    learner = Learner.load(release / "learner.safetensors")
    assert learner.state_hash() == told["state_hash"]
    check(learner, told)


def test_a_durable_learner_opens_and_repeats_its_log(release: Path, told: dict[str, Any]) -> None:
    (log,) = (release / "durable").glob("log.*")
    assert log.stat().st_size
    with holdfast.open(release / "durable") as learner:
        check(learner, told)


def test_an_exported_memory_is_taken_in(release: Path, told: dict[str, Any]) -> None:
    learner = Learner(mlp((4,), width=8), ERACE(), memory=100)
    assert import_memory(learner, release / "memory.safetensors") == told["memory"]
    assert {held.label for held in memory_summary(learner)} <= set(told["classes"])


def test_a_store_of_runs_is_read_and_written(release: Path) -> None:
    store = Store(release / "runs.sqlite")
    store.open()
    rows = store.rows()
    records = [store.record(row["id"]) for row in rows]
    assert len(records) == 2 and all(sum(record["evaluations"][-1]["total"]) == 40 for record in records)
    store.keep("another", records[0])
    assert len(store.rows()) == 3


def test_they_are_small() -> None:
    assert all(sum(file.stat().st_size for file in folder.rglob("*")) < 200_000 for folder in RELEASES)
