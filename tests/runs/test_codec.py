"""Runs whose memory is a number of bytes, or holds its samples encoded."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.commands.main import main
from holdfast.errors import InputError
from holdfast.memory.class_index import ClassIndex
from holdfast.runs.grid import grid
from holdfast.runs.identity import RecordIndex
from holdfast.runs.plan import plan
from holdfast.runs.run import Run, run
from holdfast.runs.spec import RunSpec
from holdfast.runs.store import Store
from holdfast.streams import source
from tests.runs.stopping import planned

RAW = 28 * 28 + 8 + 8 + ClassIndex.BYTES_PER_SLOT  # an embedded image, its label, arrival and place in the index
SPEC = RunSpec(stream="fashion:first=10", method="er-ace", net="mlp", memory=2, eval_every=20, codec="webp:75")


def test_runs_that_were_made_before_are_the_same_runs() -> None:
    for spec, run_id in (
        (RunSpec(stream="fashion", method="er-ace"), "8f0db1bc06c6d6d3"),
        (RunSpec(stream="fashion", method="gdumb", memory=5, codec="raw"), "8a6c3e9f56d22b70"),
    ):
        assert planned(spec).run_id == run_id


def test_every_size_and_codec_is_another_run_however_it_is_written() -> None:
    sizes: list[int | str] = [20, 5, "20kB", "21kB"]
    codecs = [None, "png", "webp:75", "webp:50"]
    specs = [replace(SPEC, memory=size, codec=codec) for size in sizes for codec in codecs]
    assert len({planned(spec).run_id for spec in specs}) == len(specs)
    for one, other in ((5, "5/class"), ("20kB", "0.02MB"), ("20kB", "20000B"), ("1MiB", "1024KiB")):
        assert replace(SPEC, memory=one) == replace(SPEC, memory=other)
    assert replace(SPEC, codec="webp") == SPEC
    assert replace(SPEC, codec="raw").codec is None


@pytest.mark.slow
@pytest.mark.parametrize("method", ["er-ace", "gdumb", "der"])
def test_encoded_samples_take_the_bytes_of_raw_ones(method: str) -> None:
    """Two a class of ten, and several times as many as fit there raw."""
    spec = replace(SPEC, method=method, augment=False, options={"rounds": "1"} if method == "gdumb" else {})
    learner = planned(spec).learner()
    assert learner.memory.byte_budget == 20 * RAW
    stream = planned(spec).stream()
    for i in range(len(stream)):
        x, y, _ = stream.batch(i)
        learner.observe(x, y)
        assert learner.memory.nbytes <= 20 * RAW
    assert len(learner.memory) > 30


def test_bytes_in_all() -> None:
    raw, coded = (planned(replace(SPEC, memory="20kB", codec=codec)).memory() for codec in (None, "png"))
    assert raw.settings == {"capacity": None, "nbytes": 20_000}
    assert coded.settings == {"capacity": None, "nbytes": 20_000, "codec": "png"}


def test_a_stopped_run_goes_on_to_the_same_record(same: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    whole = run(SPEC, Path())
    begun = Run(planned(SPEC))
    while begun.learner.step < 5:
        begun.advance()
    rest = Run(planned(SPEC))
    assert rest.take_up(begun.snapshot())
    while not rest.done:
        rest.advance()
    assert same(rest.record()) == same(whole)
    assert whole["codec"] == "webp:75" and "libwebp" in whole["environment"]["codec"]
    assert "codec" not in run(replace(SPEC, codec=None), Path())["environment"]


@pytest.mark.slow
def test_the_command_and_its_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(tmp_path / "runs")]
    common = [
        "run",
        "--stream",
        "fashion:first=10",
        "--net",
        "mlp",
        "--method",
        "er",
        "--seeds",
        "1",
        "--jobs",
        "1",
        *out,
    ]
    for more in (["--memory", "2", "--codec", "webp:75"], ["--memory", "2"], ["--memory", "12.0kB"]):
        assert main([*common, *more]) == 0
    shown = capsys.readouterr().out
    assert "2 samples a class in memory, their bytes as webp:75" in " ".join(shown.split())
    assert "12kB of memory" in shown
    store = Store(tmp_path / "runs" / "runs.sqlite")
    assert [(row["memory"], row["codec"]) for row in store.rows()] == [(2, "webp:75"), (2, None), ("12kB", None)]
    assert [row["memory"] for row in store.rows({"memory": "12000B"})] == ["12kB"]
    assert [row["codec"] for row in store.rows({"codec": "none", "memory": "2"})] == [None]
    there = RecordIndex(store.rows())
    spec = grid(stream="fashion:first=10", net="mlp", method="er", memory=2, codec="webp:75", seeds=1)[0]
    assert there.of(spec)[0]["codec"] == "webp:75"
    assert main(["runs", "list", *out]) == 0
    assert "2 webp:75" in capsys.readouterr().out

    exported = tmp_path / "runs.json"
    assert main(["runs", "export", "--json", str(exported), *out]) == 0
    records = json.loads(exported.read_text())
    del records[1]["codec"]  # as it was before there were codecs
    exported.write_text(json.dumps(records))
    other = ["--out", str(tmp_path / "other")]
    assert main(["runs", "import", str(exported), *other]) == 0
    rows = Store(tmp_path / "other" / "runs.sqlite").rows()
    assert [(row["memory"], row["codec"]) for row in rows] == [(2, "webp:75"), (2, None), ("12kB", None)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--memory", "many"], "--memory must be a number of samples a class, as 20 or 20/class, or of bytes in all"),
        (["--memory", "2.5"], "--memory must be a number of samples a class, as 20 or 20/class, or of bytes in all"),
        (["--memory", "20 apples"], "not '20 apples'"),
        (["--codec", "jpeg"], "unknown codec 'jpeg'"),
        (["--codec", "webp:500"], "at most 100"),
    ],
)
def test_mistakes_are_one_line(
    options: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", *options]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_samples_that_are_no_images_are_refused_before_anything_starts(npz: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"webp:75 keeps uint8 images.*leave the codec out"):
        plan(RunSpec(stream=npz, method="er", codec="webp:75"), source(npz, tmp_path))


def test_a_grid_may_have_several() -> None:
    specs = grid(method="er", memory=[5, "10kB"], codec=["raw", "webp:75"], seeds=1)
    assert [(spec.memory, spec.codec) for spec in specs] == [
        (5, None),
        (5, "webp:75"),
        ("10kB", None),
        ("10kB", "webp:75"),
    ]


def test_the_ledger_counts_the_true_bytes() -> None:
    whole = Run(planned(SPEC))
    while not whole.done:
        whole.advance()
    memory, net = whole.learner.memory, sum(4 * p.numel() for p in whole.learner.net.parameters())
    assert net < whole.record()["memory_bytes"] <= net + 20 * RAW
    state = memory.state()
    assert memory.nbytes > len(state["encoded"]) + 8 * 3 * len(memory) and np.sum(state["lengths"]) < memory.nbytes
