from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast import methods
from holdfast.runs.exported import read
from holdfast.runs.identity import RecordIndex, run_id
from holdfast.runs.spec import RunSpec, from_record
from holdfast.streams import Source

COMMITTED = Path(__file__).parents[2] / "docs" / "results" / "records.json.xz"

SPEC = RunSpec(stream="cifar10", method="er-aml", options={"temperature": "0.2"}, probe=("drift",))


def alike(record: dict[str, Any]) -> bool:
    there = RecordIndex()
    there.add(record)
    return there.of(SPEC) == {record["seed"]: record}


def record(**changes: Any) -> dict[str, Any]:
    return {**SPEC.as_json(), **changes}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"seed": 7},
        {"options": {"temperature": "0.20", "replay": "10"}},
        {"stream": "cifar10:tasks=5,batch=10,order=split"},
        {"net": "slim-resnet18"},
        {"probe": ["drift", "gradient"]},
    ],
)
def test_the_same_however_it_is_written(changes: dict[str, Any]) -> None:
    assert alike(record(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"options": {"temperature": "0.1"}},
        {"method": "er", "options": {}},
        {"method": "mine.py:Mine", "options": {}},
        {"method": "gone", "options": {}},
        {"stream": "cifar10:tasks=2"},
        {"stream": "cifar10:holdout=5"},
        {"stream": "cifar100"},
        {"net": "mlp"},
        {"memory": 5},
        {"lr": 0.01},
        {"augment": True},
        {"eval_mode": "rotating:100"},
        {"start": "er:head=cosine"},
        {"probe": []},
    ],
)
def test_another_run(changes: dict[str, Any]) -> None:
    assert not alike(record(**changes))


def test_of_several_with_one_seed_the_one_with_the_fewest_probes() -> None:
    there = RecordIndex()
    for number, probe in enumerate((["drift", "gradient"], ["drift"], ["drift", "alignment"], [])):
        there.add(record(probe=probe, id=number))
    assert there.of(SPEC)[0]["id"] == 1
    assert there.of(replace(SPEC, probe=()))[0]["id"] == 3
    assert there.of(replace(SPEC, probe=("gradient",)))[0]["id"] == 0


def test_committed_records_have_the_ids_that_their_specs_have_today() -> None:
    options = {"order": "split", "batch": 10, "tasks": 5}
    checked = [record for record in read(COMMITTED) if record["stream"] == "cifar10" and ".py:" not in record["method"]]
    for record in checked:
        spec = from_record(record)
        source = cast(Source, SimpleNamespace(options=options, fingerprint=record["data"]))
        method = methods.make(spec.method, spec.options)
        assert run_id(spec, source, method, spec.net or "slim-resnet18") == record["id"]
    assert len(checked) > 50


def test_every_committed_record_is_found_by_what_was_asked_for() -> None:
    records = read(COMMITTED)
    there = RecordIndex(records)
    assert all(there.run(from_record(record)) for record in records)
