import dataclasses
import doctest
import io
import json
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import Tensor, nn

import holdfast
from holdfast import machine
from holdfast.batch import Batch
from holdfast.commands.main import main
from holdfast.datasets.base import Dataset
from holdfast.datasets.embedded import CLASSES
from holdfast.errors import InputError, OtherBits, UnknownName
from holdfast.laboratory import front
from holdfast.laboratory import results as results_module
from holdfast.methods import as_text, find, identity, make, parse

TINY = "fashion:first=6"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gentle(holdfast.ER):
    """A method of this program."""

    share: float = 0.5

    def loss(self, net: Any, new: Batch, old: Batch | None = None) -> Any:
        loss = super().loss(net, new, old)
        assert isinstance(loss, Tensor)
        return self.share * loss


def encoder(shape: tuple[int, ...], seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), 12), nn.ReLU())


def other_encoder(shape: tuple[int, ...], seed: int = 0) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), 13), nn.ReLU())


@pytest.fixture
def results(tmp_path: Path) -> holdfast.Results:
    return holdfast.run(["er", "er-ace"], TINY, seeds=2, net="mlp", out=tmp_path, jobs=2, progress=False)


@pytest.mark.slow
def test_the_command_line_and_python_make_the_same_records(
    tmp_path: Path, same: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    typed = ["run", "--method", "er", "--method", "der++:alpha=0.25", "--stream", TINY, "--net", "mlp", "--seeds", "2"]
    more = ["--memory", "2", "--eval", "rotating:2", "--out", str(tmp_path / "a"), "--json", str(tmp_path / "a.json")]
    assert main([*typed, *more]) == 0
    called = holdfast.run(
        ["er", holdfast.DERPlusPlus(alpha=0.25)],
        TINY,
        seeds=2,
        net=holdfast.mlp,
        memory=2,
        eval="rotating:2",
        out=tmp_path / "b",
        progress=False,
    )
    records = json.loads((tmp_path / "a.json").read_text())
    assert [_timeless(same(record)) for record in records] == [_timeless(same(record)) for record in called]


def _timeless(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name != "finished"}


@pytest.mark.slow
def test_what_comes_back_is_rows_a_table_a_frame_a_page_and_a_picture(results: holdfast.Results) -> None:
    assert len(results) == 4 and [record["seed"] for record in results] == [0, 0, 1, 1]
    assert repr(results) == "<Results of 4 runs: er, er-ace>"
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(results.table())
    text = console.export_text()
    assert "er-ace" in text and "2 seeds" in text
    assert "er-ace" in str(results) and "(class means)" in str(results) and "\x1b" not in str(results)
    assert str(results.where(method="none")) == "<Results of 0 runs: >"
    frame = results.to_pandas()
    assert list(frame.columns[:4]) == ["id", "title", "stream", "method"] and len(frame) == 4
    assert frame.acc.tolist() == [record["acc"] for record in results]
    evaluations = results.to_pandas(evaluations=True)
    assert len(evaluations) == sum(len(record["evaluations"]) for record in results)
    page = results._repr_html_()
    assert "<table" in page and "er-ace" in page and f"{100 * results.where(method='er')[0]['acc']:.0f}"[:1] in page
    figure = results.plot()
    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
    lines = [line for axes in figure.subfigs[0].axes for line in axes.lines]
    assert {str(line.get_label()) for line in lines} == {"er", "er-ace"}


@pytest.mark.slow
def test_methods_are_compared_over_the_seeds_they_share(results: holdfast.Results) -> None:
    comparison = results.compare()
    (_, (nothing, pair)) = comparison.rows[0]
    of = {title: [100 * r["acc"] for r in results.where(title=title)] for title in ("er", "er-ace")}
    assert nothing is None and pair is not None and pair.n == 2
    assert pair.difference == pytest.approx(np.mean(of["er"]) - np.mean(of["er-ace"]))
    assert "er-ace" in comparison._repr_html_()
    with pytest.raises(InputError, match="two methods that share a seed"):
        results.where(method="er").compare()
    with pytest.raises(UnknownName, match="measure"):
        results.compare("speed")
    with pytest.raises(UnknownName, match="field"):
        results.where(metod="er")


def hash_of(learner: holdfast.Learner, names: Sequence[str]) -> str:
    """With indices for labels, as they were in the run."""
    learner.labels.restore([names.index(str(label)) for label in learner.classes])
    return learner.state_hash()


@pytest.mark.slow
def test_nothing_is_done_twice_and_what_was_trained_answers(tmp_path: Path) -> None:
    call: dict[str, Any] = {"stream": TINY, "seeds": 1, "net": "mlp", "out": tmp_path, "progress": False}
    first = holdfast.run("er", momentum=0.9, keep_learners=True, **call)
    again = holdfast.run("er", momentum=0.9, **call)
    assert again[0] == first[0]
    learner = first.learners["er", 0]
    assert sorted(map(str, learner.classes)) == sorted(CLASSES)
    assert hash_of(learner, CLASSES) == first[0]["state_hash"]
    with pytest.raises(InputError, match="keep_learners=True"):
        _ = holdfast.run("er-ace", **call).learners


@pytest.mark.slow
def test_objects_of_ones_own(blobs: Dataset, tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    call: dict[str, Any] = {"stream": holdfast.ordered(blobs, tasks=3), "seeds": 1, "out": tmp_path}
    given = holdfast.run([Gentle(share=0.25), "er"], net=encoder, memory=4, keep_learners=True, progress=False, **call)
    mine, er = given
    assert mine["title"] == f"{__name__}:Gentle:share=0.25" and mine["stream"].startswith("blobs@")
    assert mine["net"].startswith("encoder@") and mine["state_hash"] != er["state_hash"]
    hashes = {hash_of(learner, blobs.classes) for learner in given.learners.values()}
    assert hashes == {
        mine["state_hash"],
        er["state_hash"],
    }
    assert torch.get_num_threads() == threads
    other = holdfast.run("er", net=other_encoder, memory=4, progress=False, **call)
    assert other[0]["id"] != er["id"]
    with pytest.raises(InputError, match=r"file\.py:Class"):
        holdfast.run(Gentle(), jobs=2, **call)


@pytest.mark.slow
def test_a_dataset_goes_to_other_processes(blobs: Dataset, tmp_path: Path) -> None:
    (record,) = holdfast.run("er", blobs, seeds=1, memory=4, out=tmp_path, progress=False)
    assert record["acc"] > 0.5 and record["stream"] == f"blobs@{record['data'][:8]}"


def test_a_method_as_an_object_is_the_one_that_is_named() -> None:
    for method in (holdfast.ER(), holdfast.ERACE(replay=3), holdfast.SSIL(), holdfast.GDumb(rounds=2), Gentle(share=2)):
        assert make(*parse(as_text(method))) == method
    assert as_text(holdfast.ERACE(replay=3)) == "er-ace:replay=3"
    assert find(f"{__name__}:Gentle") is Gentle and identity(f"{__name__}:Gentle").endswith(":Gentle")

    class Hidden(holdfast.ER):
        pass

    with pytest.raises(InputError, match="has no class"):
        as_text(Hidden())


@pytest.mark.slow
def test_a_sweep_takes_mappings_and_files(tmp_path: Path) -> None:
    common = {"stream": TINY, "net": "mlp", "seeds": 1}
    grids = [{**common, "method": "er", "memory": [1, 2]}, {**common, "method": holdfast.ERACE(), "memory": 2}]
    called = holdfast.sweep(grids, out=tmp_path, progress=False)
    assert [(r["method"], r["memory"]) for r in called] == [("er", 1), ("er", 2), ("er-ace", 2)]
    file = tmp_path / "grid.toml"
    file.write_text(f"stream = '{TINY}'\nnet = 'mlp'\nseeds = 1\nmethod = 'er'\nmemory = [1, 2]\n")
    assert list(holdfast.sweep(file, out=tmp_path, progress=False)) == list(called)[:2]
    with pytest.raises(InputError, match="2 settings"):
        called.compare()
    assert len(called.plot().subfigs) == 2


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"metod": "er"}, "unknown argument 'metod'"),
        ({"method": "er-acee"}, "unknown method"),
        ({"method": holdfast.ER}, r"ER\(\), not its class"),
        ({"method": holdfast.ER(), "seeds": 0}, "seeds"),
        ({"net": nn.Linear(2, 2)}, "function that makes an encoder"),
        (
            {"net": lambda shape: nn.Flatten()},
            "not <lambda>, which takes something else",
        ),
        ({"net": lambda shape, seed: 3}, "must return an nn.Module, not int"),
        ({"jobs": 0}, "jobs"),
        ({"jobs": "2"}, "jobs must be a whole number of 1 or more, not '2'"),
        ({"snapshot_every": "often"}, "snapshot-every must be a number above 0"),
        ({"backend": "dask"}, "unknown backend 'dask'"),
        ({"log": "tensorbord"}, "unknown --log 'tensorbord'"),
        ({"log": 3}, "log must be a list of names"),
        ({"fresh": "no"}, "fresh must be True or False"),
        ({"data": 3}, "data must be a path"),
        ({"seed": [1], "method": []}, "has no value"),
    ],
)
def test_mistakes_are_named_before_anything_is_done(wrong: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        holdfast.run(**{"stream": TINY, "out": tmp_path / "runs", "progress": False, **wrong})
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_files_may_be_text(tmp_path: Path) -> None:
    file = tmp_path / "runs.json"
    done: dict[str, Any] = {
        "stream": TINY,
        "net": "mlp",
        "seeds": 1,
        "eval": "rotating:10",
        "progress": False,
        "out": str(tmp_path),
    }
    results = holdfast.run("er", **done, json=str(file))
    assert [record["id"] for record in json.loads(file.read_text())] == [results[0]["id"]]


@pytest.mark.slow
@pytest.mark.parametrize("module", [front, results_module, sys.modules["holdfast.streams.named"]])
def test_the_examples_in_docstrings_work(module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = doctest.testmod(module)
    assert outcome.attempted and not outcome.failed


def test_a_run_that_fails_is_told(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(
        "from holdfast import ER\nclass Bad(ER):\n    def loss(self, net, new, old=None): raise ValueError('<oh>')\n"
    )
    results = holdfast.run(f"{file}:Bad", TINY, seeds=1, net="mlp", out=tmp_path, progress=False)
    assert len(results) == 0 and list(results.failed) == ["own.py:Bad seed 0"] and "&lt;oh&gt;" in results._repr_html_()
    with pytest.raises(InputError, match="no run is done; 1 failed: ValueError: <oh>"):
        results.table()


def test_records_of_another_machine_are_not_mixed_silently(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> Sequence[Any]:
        return holdfast.run("er", TINY, seeds=1, net=encoder, out=tmp_path, progress=False)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run()
    monkeypatch.setattr(machine, "_arithmetic", lambda threads, precision: "another")
    with pytest.warns(OtherBits, match="1 of these runs were made under other conditions") as said:
        assert len(run()) == 1
    assert said[0].filename == __file__
