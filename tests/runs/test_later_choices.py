"""What runs can be told beside what they could from the beginning: --average and --momentum."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from holdfast import ER, Learner
from holdfast.commands.main import main
from holdfast.errors import InputError
from holdfast.nets import NETS
from holdfast.runs.grid import grid
from holdfast.runs.identity import RecordIndex
from holdfast.runs.run import Run, run
from holdfast.runs.spec import RunSpec
from holdfast.runs.store import Store
from tests.runs.stopping import planned, stopped_after_every_step

SPEC = RunSpec(stream="fashion:first=10", method="er-ace", memory=2, eval_every=5, average=0.9)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["er-ace", "scr"])
def test_what_is_evaluated_is_what_predict_answers(method: str, tmp_path: Path) -> None:
    """On a net with BatchNorm, so by the fast path."""
    whole = Run(planned(replace(SPEC, method=method), tmp_path))
    while not whole.done:
        whole.advance()
    truth = whole.stream.dataset.test_y
    right = np.array(whole.learner.predict(whole.stream.dataset.test_x)) == truth
    record = whole.record()
    share = record["fast_path_agreement"]
    assert sum(record["evaluations"][-1]["correct"]) == pytest.approx(right.sum(), abs=5)
    assert share > 0.99 and record["average"] == 0.9
    plain = run(replace(SPEC, method=method, average=0.0), tmp_path)
    assert plain["evaluations"][-1]["correct"] != record["evaluations"][-1]["correct"]
    assert plain["train_macs"] == record["train_macs"]
    assert record["memory_bytes"] > plain["memory_bytes"] + 4 * 50_000


@pytest.mark.slow
@pytest.mark.parametrize("method", ["er", "icarl", "scr", "mir"])
def test_stopped_after_any_step_it_ends_with_the_same_record(
    method: str, npz: str, tmp_path: Path, same: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    spec = RunSpec(stream=npz, method=method, memory=4, eval_every=3, lr=0.01, average=0.9)
    assert same(stopped_after_every_step(spec, tmp_path)) == same(run(spec, tmp_path))


def test_ids_of_runs_without_it_are_what_they_were(tmp_path: Path) -> None:
    of_earlier_versions = {
        "8f0db1bc06c6d6d3": RunSpec(stream="fashion", method="er-ace"),
        "24b3c7bec6cfa027": RunSpec(
            stream="fashion:tasks=2", method="er", memory=5, lr=0.01, seed=2, net="mlp", augment=True
        ),
    }
    for run_id, spec in of_earlier_versions.items():
        assert planned(spec, tmp_path).run_id == planned(replace(spec, average=0.0), tmp_path).run_id == run_id
        assert planned(replace(spec, average=0.9), tmp_path).run_id != run_id


def test_without_it_nothing_learns_from_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["run", "--stream", "fashion:first=10", "--method", "holdfast:distil=1", "--average", "0"]
    assert main([*asked, "--out", str(tmp_path / "out")]) == 2
    said = "holdfast: --average 0: Holdfast with these options learns from the average of the net\n"
    assert capsys.readouterr().err == said and not (tmp_path / "out").exists()


def test_a_store_has_it_and_records_from_before_count_as_without(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs.sqlite")
    store.open()
    before = replace(SPEC, average=0.0).as_json()
    del before["average"]
    store.keep("0" * 16, {**before, "title": "er-ace"})
    store.keep("1" * 16, {**SPEC.as_json(), "title": "er-ace"})
    assert [row["average"] for row in store.rows()] == [0.0, 0.9]
    assert store.record("1" * 16)["average"] == 0.9
    assert [row["id"] for row in store.rows({"average": "0.9"})] == ["1" * 16]
    there = RecordIndex([*store.rows(), before])
    assert there.of(SPEC)[0]["id"] == "1" * 16
    assert "id" not in there.of(replace(SPEC, average=0.0))[0]


def test_runs_exported_before_are_taken_in(tmp_path: Path) -> None:
    settings = ["--stream", "fashion:first=5", "--method", "er", "--net", "mlp", "--seeds", "1", "--jobs", "1"]
    assert main(["run", *settings, "--out", str(tmp_path)]) == 0
    file = tmp_path / "runs.json"
    assert main(["runs", "export", "--json", str(file), "--out", str(tmp_path)]) == 0
    (record,) = json.loads(file.read_text())
    assert record.pop("average") == record.pop("momentum") == 0.0
    file.write_text(json.dumps([record]))
    assert main(["runs", "import", str(file), "--out", str(tmp_path / "other")]) == 0
    assert Store(tmp_path / "other" / "runs.sqlite").rows()[0]["average"] == 0.0


def test_a_grid_may_have_several(tmp_path: Path) -> None:
    assert [spec.average for spec in grid(method="er", average=[0, 0.99], seeds=1)] == [0.0, 0.99]


@pytest.mark.parametrize("spec", [replace(SPEC, method="gdumb"), replace(SPEC, method="er", start="gdumb")])
def test_methods_that_make_the_net_that_answers_are_refused(spec: RunSpec, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--average 0\.9: GDumb makes the net that answers"):
        planned(spec, tmp_path)


@pytest.mark.parametrize("wrong", ["1", "-0.1", "nan"])
def test_impossible_decays_are_one_line(
    wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--average", wrong]) == 2
    error = capsys.readouterr().err
    assert "--average must be a finite number of 0 or more and at most 0.9999" in error and error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_momentum(npz: str, tmp_path: Path, same: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    spec = RunSpec(stream=npz, method="er", memory=4, eval_every=8, lr=0.01, momentum=0.9)
    whole, reference = (
        Run(planned(spec, tmp_path)),
        Learner(
            NETS["mlp"]((8,)), ER(), memory=24, classes=6, optimizer=lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9)
        ),
    )
    while not whole.done:
        x, y, _ = whole.stream.batch(whole.learner.step)
        reference.observe(x, y)
        whole.advance()
        snapshot = whole.snapshot()
        whole = Run(planned(spec, tmp_path))
        assert whole.take_up(snapshot)
    assert whole.learner.state_hash() == reference.state_hash()
    assert same(whole.record()) == same(run(spec, tmp_path))
    assert planned(spec, tmp_path).run_id != planned(replace(spec, momentum=0.0), tmp_path).run_id
    whole.learner.save(tmp_path / "learner")
    assert Learner.load(tmp_path / "learner").optimizer.param_groups[0]["momentum"] == 0.9


@pytest.mark.slow
def test_its_cost_is_bytes_alone(tmp_path: Path) -> None:
    from holdfast.commands.cost import estimate

    spec = replace(SPEC, method="icarl")
    averaged, plain = (estimate(each, tmp_path) for each in (spec, replace(spec, average=0.0)))
    assert averaged.macs == plain.macs and averaged.mean_bytes > plain.mean_bytes
