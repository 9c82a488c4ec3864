import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast import Batch, Memory
from holdfast.runs.plan import plan
from holdfast.runs.run import Progress, Run, run
from holdfast.runs.spec import RunSpec
from holdfast.streams import source


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


@pytest.mark.parametrize("method", ["er", "der++", "er-aml", "a-gem", "ss-il"])
def test_balanced_rehearsal_gives_every_task_so_far_the_same_share(
    method: str, npz: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of earlier tasks as many as are incoming each, and none of the present one, whether the method is told or not."""
    draw, drawn = Memory.sample, []

    def spied(self: Memory, *arguments: Any, **options: Any) -> Batch | None:
        drawn.append(draw(self, *arguments, **options))
        return drawn[-1]

    monkeypatch.setattr(Memory, "sample", spied)
    spec = RunSpec(stream=f"{npz}:batch=10,rehearsal=balanced", method=method, memory=20, lr=0.001)
    whole = Run(plan(spec, source(spec.stream, tmp_path)))
    while not whole.done:
        task = int(whole.stream.batch_task[whole.learner.step])
        drawn.clear()
        whole.advance()
        for batch in drawn:
            assert (0 if batch is None else len(batch)) == 10 * task
            assert batch is None or batch.y.max() < 2 * task
        assert drawn


def test_how_often_one_evaluates_does_not_change_the_weights(npz: str, tmp_path: Path) -> None:
    hashes = {
        run(RunSpec(stream=npz, method="er-aml", eval_every=every, eval_mode=mode), tmp_path)["state_hash"]
        for every, mode in [(1, "exact"), (7, "rotating:3"), (1000, "exact")]
    }
    assert len(hashes) == 1
