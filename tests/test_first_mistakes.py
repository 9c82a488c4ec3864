"""What people get wrong in the first hour is one line that says what would be right."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import holdfast
from holdfast.commands.main import main
from holdfast.errors import HoldfastError

X = np.zeros((4, 8), np.float32)
Y = [0, 1, 0, 1]
IMAGES = np.zeros((4, 32, 32, 3), np.uint8)


def learner(**more: Any) -> holdfast.Learner:
    return holdfast.Learner(holdfast.mlp((8,)), "er", memory=10, **more)


def learned() -> holdfast.Learner:
    made = learner()
    made.observe(X, Y)
    return made


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "channels last": (
        lambda: holdfast.Learner(holdfast.small_cnn((3, 32, 32)), "er", memory=10).observe(IMAGES, Y),
        "x.transpose(0, 3, 1, 2) puts the channels first",
    ),
    "a net for channels last": (lambda: holdfast.small_cnn((32, 32, 3)), "channels come first: (3, 32, 32)"),
    "a net for grey images": (lambda: holdfast.slim_resnet18((32, 32)), "grey images are (1, 32, 32)"),
    "other features": (lambda: learner().observe(X[:, :5], Y), "it was made for (8,)"),
    "other features to predict": (lambda: learned().predict(X[:, :5]), "this learner takes (8,)"),
    "a number as a shape": (lambda: holdfast.mlp(8), "as in (8,)"),  # type: ignore[arg-type]
    "a method's class": (lambda: holdfast.Learner(holdfast.mlp((8,)), holdfast.ERACE), "write ERACE()"),  # type: ignore[arg-type]
    "a module's class": (lambda: holdfast.Learner(torch.nn.Identity), "write Identity(...)"),  # type: ignore[arg-type]
    "a memory's class": (
        lambda: holdfast.Learner(holdfast.mlp((8,)), memory=holdfast.Reservoir),  # type: ignore[arg-type]
        "Reservoir(number)",
    ),
    "a memory too small": (
        lambda: holdfast.Learner(holdfast.mlp((8,)), memory=holdfast.Reservoir(nbytes=10)).observe(X, Y),
        "10 bytes are too few for one such sample",
    ),
    "an unknown choice": (lambda: holdfast.ERACE(compete="foo"), "there are batch, batch+unseen"),  # type: ignore[arg-type]
    "an option out of range": (lambda: holdfast.ER(replay=-1), "replay must be a whole number of 0 or more"),
    "one sample": (lambda: learned().predict(X[0]), "one sample alone is x[None]"),
    "one label": (lambda: learned().observe(X[:1], "rain"), "the label of one sample is [label]"),
    "one-hot labels": (lambda: learned().observe(X, np.eye(2)[Y]), "of one-hot rows y.argmax(1)"),
    "augment switched on": (lambda: learner(augment=True), "such as holdfast.augment_images"),
    "a folder in place of a file": (lambda: holdfast.Learner.load("."), "holdfast.open opens a learner"),
    "arrays as a stream": (lambda: holdfast.run("er", X), "holdfast.from_arrays makes a dataset"),  # type: ignore[arg-type]
    "a path as a stream": (lambda: holdfast.run("er", Path("photos")), "folder:photos"),  # type: ignore[arg-type]
    "arrays in an order": (lambda: holdfast.ordered(X), "as holdfast.from_arrays makes one"),  # type: ignore[arg-type]
    "which seeds": (lambda: holdfast.run("er", seeds=[1, 2]), "seed says which"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", MISTAKES)
def test_in_python(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mistake, said = MISTAKES[name]
    with pytest.raises(HoldfastError) as raised:
        mistake()
    assert said in str(raised.value) and "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", [{}, {"method": "erace"}, {"memory": "x"}, {"read_only": True}])
def test_open_leaves_no_folder_behind(given: dict[str, Any], tmp_path: Path) -> None:
    encoder = None if not given or "read_only" in given else holdfast.mlp((8,))
    with pytest.raises(HoldfastError):
        holdfast.open(tmp_path / "new", encoder, **given)
    assert list(tmp_path.iterdir()) == []


def test_a_named_method_and_a_size_as_text_are_taken() -> None:
    made = holdfast.Learner(holdfast.mlp((8,)), "er-ace:replay=5", memory="50MB")
    assert made.method == holdfast.ERACE(replay=5) and "50,000,000 bytes" in repr(made.memory)
    made.observe(X, Y)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("run --stream photos", "did you mean folder:photos?"),
        ("run --stream x.npz", "did you mean arrays:x.npz?"),
        ("run --method ERACE", "did you mean 'er-ace'?"),
        ("run --method er,er-ace", "give each of them by itself"),
        ("run --seed 2", "unknown option --seed: did you mean --seeds?"),
        ("run --seeds 1 2", "holdfast run does not take 2; holdfast run --help lists what it takes"),
        ("runs list --json -", "holdfast runs list does not take -; holdfast runs list --help"),
        ("run --methods er", "did you mean --method?"),
        ("runs list --sorted acc", "did you mean --sort?"),
        ("runs list --zzz", "holdfast runs list --help lists all"),
        ("run --out x.npz", "give a folder"),
        ("report nowhere", "holdfast run --out nowhere makes some"),
    ],
)
def test_on_the_command_line(
    typed: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("photos").mkdir()
    np.savez("x.npz", x=X)
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(main(typed.split()))
    error = capsys.readouterr().err
    assert ended.value.code == 2 and said in error and error.count("\n") == 1
    assert sorted(each.name for each in tmp_path.iterdir()) == ["photos", "x.npz"]
