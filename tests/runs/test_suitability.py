"""The net where none is chosen suits the samples and their number, and what does not suit is said."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast
from holdfast.commands.main import main
from holdfast.datasets import Dataset, from_arrays
from holdfast.nets import recipe
from holdfast.runs.plan import plan
from holdfast.runs.spec import RunSpec
from holdfast.runs.suitability import FEW_UPDATES, is_unscaled, usual_net, warnings_of
from holdfast.streams import ordered, source

RNG = np.random.default_rng(0)


def images(samples: int, size: int = 32, name: str = "mine") -> Dataset:
    x, y = np.zeros((samples, 3, size, size), np.uint8), np.arange(samples) % 4
    return from_arrays(x, y, x[:4], y[:4], name=name)


def test_a_short_stream_of_images_gets_a_small_net() -> None:
    assert usual_net(ordered(images(100))) == "small-cnn"
    assert usual_net(ordered(images(FEW_UPDATES + 10), batch=1)) == "slim-resnet18"
    assert usual_net(ordered(images(100, size=6))) == "mlp"


def test_named_datasets_keep_the_net_that_their_size_asks_for(tmp_path: Path) -> None:
    assert usual_net(ordered(images(100, name="cifar10"))) == "slim-resnet18"
    assert usual_net(source("fashion:first=5", tmp_path)) == "small-cnn"


def test_the_reason_is_said(tmp_path: Path) -> None:
    short = ordered(images(100))

    def said(**choices: object) -> list[str]:
        return warnings_of([plan(RunSpec(stream="mine", method="er", **choices), short)])  # type: ignore[arg-type]

    few = "mine: 10 gradient steps are few; --updates 10 takes as many on each batch"
    assert said() == ["mine: --net small-cnn, because 10 updates are few for slim-resnet18", few]
    assert "10 updates are few for slim-resnet18 from scratch; --net small-cnn" in said(net="slim-resnet18")[0]
    assert said(net="small-cnn") == [few]
    assert said(net="small-cnn", updates_per_batch=20) == []
    several = "mine: --updates 10 on each batch, because 10 are few"
    assert said(net="small-cnn", undecided=frozenset({"updates_per_batch"})) == [several]


def updates(samples: int, method: str = "er", name: str = "mine", **choices: Any) -> int:
    undecided = frozenset({"updates_per_batch"} - choices.keys())
    spec = RunSpec(stream=name, method=method, undecided=undecided, **choices)
    return plan(spec, ordered(images(samples, name=name))).spec.updates_per_batch


def test_a_short_stream_gets_several_gradient_steps_a_batch() -> None:
    assert [updates(batches * 10) for batches in (1, 100, 300, 500, 1000)] == [10, 10, 4, 2, 1]
    assert updates(100, updates_per_batch=3) == 3


@pytest.mark.parametrize("method", ["slda", "gdumb", "iid-offline"])
def test_it_does_not_where_that_means_nothing_or_batches_come_again(method: str) -> None:
    assert updates(100, method) == 1


def test_named_datasets_get_one_gradient_step_a_batch() -> None:
    assert updates(100, name="cifar10") == 1


def test_an_encoder_that_learns_is_passed_once(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import torch\ndef factory():\n    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 4))\n"
    )
    assert updates(100, net=f"{file}:factory") == 10
    assert updates(100, net=f"{file}:factory,frozen=false") == 1


@pytest.mark.slow
def test_unscaled_columns_are_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = (RNG.normal(size=(40, 3)) * [1, 1, 800]).astype(np.float32)
    y = np.arange(40) % 4
    np.savez(tmp_path / "wine.npz", train_x=x, train_y=y, test_x=x, test_y=y)
    command = ["run", "--stream", f"arrays:{tmp_path / 'wine.npz'}", "--seeds", "1", "--out", str(tmp_path / "out")]
    assert main([*command, "--method", "slda"]) == 0
    assert "--standardise scales them" not in " ".join(capsys.readouterr().err.split())
    main([*command, "--method", "er", "--lr", "1e-6"])
    assert "--standardise scales them" in " ".join(capsys.readouterr().err.split())
    assert main([*command, "--method", "er", "--standardise"]) == 0
    assert "--standardise scales them" not in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("scales", "unscaled"), [([1, 1, 800], True), ([1, 2, 30], False), ([0.01, 0.01, 0.01], False), ([500] * 3, True)]
)
def test_what_counts_as_unscaled(scales: list[float], unscaled: bool) -> None:
    x = (RNG.normal(size=(100, 3)) * scales).astype(np.float32)
    assert is_unscaled(x) is unscaled
    assert not is_unscaled(np.zeros((4, 3), np.float32)) and not is_unscaled(x.astype(np.uint8))


def test_python_uses_it_too(tmp_path: Path) -> None:
    results = holdfast.run("er", images(40), seeds=1, out=tmp_path, progress=False, keep_learners=True, memory=1)
    assert recipe(results.learners["er", 0].net.encoder.module) == recipe(holdfast.small_cnn((3, 32, 32)))
