import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from holdfast.errors import InputError
from holdfast.runs.plan import plan
from holdfast.runs.spec import RunSpec
from holdfast.streams import source


def id_of(spec: RunSpec, root: Path) -> str:
    return plan(spec, source(spec.stream, root)).run_id


def test_the_same_run_written_differently_is_the_same_run(npz: str, tmp_path: Path) -> None:
    file = Path(npz.partition(":")[2])
    elsewhere = tmp_path / "elsewhere.npz"
    shutil.copy(file, elsewhere)
    spec = RunSpec(stream=npz, method="er-ace")
    same = [
        replace(spec, options={"compete": "batch"}),
        replace(spec, options={"head": "cosine", "replay": "10"}),
        replace(spec, stream=f"arrays:{elsewhere}"),
        replace(spec, stream=f"{npz}:batch=10,tasks=3"),
        replace(spec, net="mlp"),
    ]
    assert {id_of(other, tmp_path) for other in same} == {id_of(spec, tmp_path)}


def test_everything_that_decides_the_numbers_counts(npz: str, tmp_path: Path) -> None:
    file = Path(npz.partition(":")[2])
    changed = tmp_path / "changed.npz"
    arrays = dict(np.load(file))
    arrays["train_x"][0, 0] += 1
    np.savez(changed, **arrays)
    own = tmp_path / "own.py"
    own.write_text("from holdfast import ER\nclass Own(ER): pass\n")
    spec = RunSpec(stream=npz, method="er")
    others = [
        replace(spec, method="er-ace"),
        replace(spec, options={"replay": "5"}),
        replace(spec, memory=7),
        replace(spec, seed=1),
        replace(spec, lr=0.2),
        replace(spec, eval_every=5),
        replace(spec, eval_mode="rotating:2"),
        replace(spec, stream=f"{npz}:batch=5"),
        replace(spec, stream=f"{npz}:tasks=2"),
        replace(spec, stream=f"{npz}:order=iid"),
        replace(spec, stream=f"arrays:{changed}"),
        replace(spec, method=f"{own}:Own"),
    ]
    ids = [id_of(other, tmp_path) for other in [spec, *others]]
    own.write_text("from holdfast import ER\nclass Own(ER): replay: int = 3\n")
    ids.append(id_of(others[-1], tmp_path))
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("method", "options", "stream", "run"),
    [
        ("er", {}, "fashion:first=2", "5bfab8a4eb3d7046"),
        ("er-ace", {"compete": "batch+unseen"}, "fashion:first=2", "3fc9f11c5b0fc5d5"),
        ("der++", {"alpha": "0.1"}, "fashion:first=2,rehearsal=balanced", "3e0b32b4f4442ab7"),
        ("icarl", {}, "fashion:first=2", "4e15dad750cf4d94"),
        ("ss-il", {}, "fashion:first=2", "4f75b5d47b73b6a2"),
        ("ss-il", {"distil": "incoming+rehearsal"}, "fashion:first=2", "848a2edc34076b9b"),
        ("mir", {}, "fashion:first=2", "3130b8514bb15ef6"),
        ("gdumb", {"rounds": "2"}, "fashion:first=2", "4057bc449d790b36"),
        (
            *("er-aml", {"temperature": "0.1", "fetch": "incoming-first", "positives": "released"}),
            *("fashion:first=2", "4b2db6bf197b34b3"),
        ),
    ],
)
def test_a_run_keeps_its_id_from_version_to_version(
    method: str, options: dict[str, str], stream: str, run: str, tmp_path: Path
) -> None:
    """Of ER-AML, that of the only positives it had at first; of SS-IL, that of what was distil=true."""
    assert id_of(RunSpec(stream=stream, method=method, options=options), tmp_path) == run


def test_what_came_to_be_the_default_later_is_another_run(npz: str, tmp_path: Path) -> None:
    now, then = (RunSpec(stream=npz, method="er-aml", options=o) for o in ({}, {"positives": "released"}))
    assert id_of(now, tmp_path) != id_of(then, tmp_path)
    assert id_of(replace(now, options={"positives": "others"}), tmp_path) == id_of(now, tmp_path)


@pytest.mark.parametrize(
    ("start", "method"), [("der", "er"), ("er", "der++"), ("gdumb", "der"), ("der++:beta=2", "mir")]
)
def test_a_common_start_takes_methods_that_keep_the_same_beside_samples(
    start: str, method: str, npz: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=rf"--start {re.escape(start)}: .* keeps logits"):
        id_of(RunSpec(stream=npz, method=method, start=start), tmp_path)
    for fine in ("der++-ace", "fine-tuning"):
        assert id_of(RunSpec(stream=npz, method="der", start=fine), tmp_path)


def test_no_part_of_a_rotating_evaluation_is_without_samples_of_a_class(npz: str, tmp_path: Path) -> None:
    data = source(npz, tmp_path)
    fewest = int(np.bincount(data.dataset.test_y).min())
    plan(RunSpec(stream=npz, method="er", eval_mode=f"rotating:{fewest}"), data)
    with pytest.raises(
        InputError, match=f"has {fewest} test samples, too few for so many parts; take rotating:{fewest}"
    ):
        plan(RunSpec(stream=npz, method="er", eval_mode=f"rotating:{fewest + 1}"), data)
