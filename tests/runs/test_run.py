import json
import multiprocessing
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.errors import InputError
from holdfast.runs.pool import Failed, Finished, Started, run_all
from holdfast.runs.records import Records, write_json
from holdfast.runs.run import Progress, run
from holdfast.runs.spec import RunSpec

TIMES = {"seconds", "train_seconds"}


def without_times(record: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(record))
    return {key: value for key, value in plain.items() if key not in TIMES}


def test_a_record_tells_everything(npz: str, tmp_path: Path) -> None:
    seen: list[Progress] = []
    record = run(RunSpec(stream=npz, method="er-ace", memory=5, eval_every=5), tmp_path, seen.append)
    assert len(seen) == record["updates"] == 24
    assert record["tasks"] == ((0, 1), (2, 3), (4, 5))
    assert [e["step"] for e in record["evaluations"]] == [5, 8, 10, 15, 16, 20, 24]
    assert [e["seen"] for e in record["evaluations"]] == [50, 80, 100, 150, 160, 200, 240]
    for e in record["evaluations"]:
        tasks = [(0, 1), (2, 3), (4, 5)][: 1 + (e["step"] - 1) // 8]
        accuracies = [sum(e["correct"][c] for c in t) / sum(e["total"][c] for c in t) for t in tasks]
        assert e["aa"] == pytest.approx(np.mean(accuracies))
    assert record["acc"] == record["evaluations"][-1]["aa"] > 0.5
    assert record["aaa"] == pytest.approx(np.mean([e["aa"] for e in record["evaluations"] if e["step"] % 5 == 0]))
    assert record["fast_path_agreement"] == 1
    wanted = (
        "stream method options memory seed acc aaa forgetting train_macs eval_macs memory_bytes seconds evaluations"
    )
    assert set(wanted.split()) <= set(record)
    json.dumps(record)


def test_how_often_one_evaluates_does_not_change_the_weights(npz: str, tmp_path: Path) -> None:
    hashes = {
        run(RunSpec(stream=npz, method="er-aml", eval_every=every, eval_mode=mode), tmp_path)["state_hash"]
        for every, mode in [(1, "exact"), (7, "rotating:3"), (1000, "exact")]
    }
    assert len(hashes) == 1


def test_the_same_spec_gives_the_same_record_also_in_other_processes(npz: str, tmp_path: Path) -> None:
    specs = [RunSpec(stream=npz, method=m, memory=5, seed=s) for m in ("er", "er-aml", "iid++") for s in (0, 1)]
    events = list(run_all(specs, tmp_path, jobs=2))
    assert sorted(e.spec.title for e in events if isinstance(e, Started)) == sorted(s.title for s in specs)
    records = {e.spec: e.record for e in events if isinstance(e, Finished)}
    assert set(records) == set(specs)
    for spec in specs:
        assert without_times(records[spec]) == without_times(run(spec, tmp_path))
    assert records[specs[0]]["state_hash"] != records[specs[1]]["state_hash"]


BROKEN = """
import os, signal
from holdfast import ER

class Broken(ER):
    def loss(self, net, new, old=None):
        raise RuntimeError("as it must")

class Killed(ER):
    def loss(self, net, new, old=None):
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_run_that_fails_does_not_stop_the_others(npz: str, tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text(BROKEN)
    specs = [RunSpec(stream=npz, method=m) for m in (f"{file}:Broken", f"{file}:Killed", "er")]
    ends = {e.spec: e for e in run_all(specs, tmp_path, jobs=2) if isinstance(e, Failed | Finished)}
    broken, killed, fine = (ends[spec] for spec in specs)
    assert isinstance(broken, Failed)
    assert broken.why.rstrip().endswith("RuntimeError: as it must")
    assert isinstance(killed, Failed)
    assert str(-signal.SIGKILL) in killed.why
    assert isinstance(fine, Finished)


def test_closing_ends_the_processes(npz: str, tmp_path: Path) -> None:
    events = run_all([RunSpec(stream=npz, method="er", eval_every=1, seed=s) for s in range(2)], tmp_path, jobs=2)
    next(events)
    next(events)
    assert len(multiprocessing.active_children()) == 2
    events.close()
    assert multiprocessing.active_children() == []


def test_records_are_found_by_equal_spec_and_equal_code(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(BROKEN)
    records = Records(tmp_path / "out")
    records.open()
    spec, own = RunSpec(stream="fashion", method="er"), RunSpec(stream="fashion", method=f"{file}:Broken")
    assert records.find(spec) is None
    for kept in (spec, own):
        records.keep(kept, {"acc": 0.5})
        assert records.find(kept) == {"acc": 0.5}
    assert records.find(RunSpec(stream="fashion", method="er", seed=1)) is None
    file.write_text(BROKEN + "# changed")
    assert records.find(own) is None


def test_a_record_cut_short_counts_as_missing(tmp_path: Path) -> None:
    records = Records(tmp_path)
    spec = RunSpec(stream="fashion", method="er")
    records.keep(spec, {"acc": 0.5})
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text()[:-1])
    assert records.find(spec) is None


def test_json_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    write_json(file, [1])
    with pytest.raises(TypeError):
        write_json(file, [object()])
    assert json.loads(file.read_text()) == [1]
    assert list(tmp_path.iterdir()) == [file]


def test_out_must_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="--out"):
        Records(tmp_path / "file").open()
