"""What a memory holds, looked at and taken elsewhere."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

import holdfast
from holdfast import DER, ER, ERACE, Learner, Reservoir, mlp, small_cnn
from holdfast.errors import BatchError, CheckpointError, InputError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3)).astype(np.float32)
Y = ["a", "b", "c"] * 20


def taught(**settings: object) -> Learner:
    learner = Learner(mlp((3,), width=8), ERACE(), **{"memory": 25, **settings})  # type: ignore[arg-type]
    for start in range(0, 60, 6):
        learner.observe(X[start : start + 6], Y[start : start + 6])
    return learner


def test_counts_and_ages() -> None:
    learner = taught()
    held = {each.label: each for each in holdfast.memory_summary(learner)}
    rows = [int(np.flatnonzero((x == X).all(1))[0]) for x in learner.memory.at(np.arange(25)).x.numpy()]
    counts = Counter(Y[row] for row in rows)
    for label, each in held.items():
        ages = [59 - row for row in rows if Y[row] == label]
        assert (each.count, each.youngest, each.oldest) == (counts[str(label)], min(ages), max(ages))
    assert holdfast.memory_summary(Learner(mlp((3,)), ERACE())) == []


def test_a_memory_moves_to_another_learner_with_another_net_and_method(tmp_path: Path) -> None:
    learner, file = taught(), tmp_path / "memory"
    holdfast.export_memory(learner, file)
    other = Learner(mlp((3,), width=4), ER(), memory=Reservoir(nbytes=10_000))
    assert holdfast.import_memory(other, file) == 25
    ours, theirs = (each.memory.at(np.arange(25)) for each in (learner, other))
    pairs = [
        {(x.numpy().tobytes(), each.classes[index]) for x, index in zip(held.x, held.y.tolist(), strict=True)}
        for each, held in ((learner, ours), (other, theirs))
    ]
    assert pairs[0] == pairs[1] and other.step == 0
    other.observe(X[:6], Y[:6])
    assert set(other.predict(X)) <= {"a", "b", "c"}


def test_an_empty_memory(tmp_path: Path) -> None:
    holdfast.export_memory(Learner(mlp((3,)), ERACE()), tmp_path / "memory")
    learner = taught()
    before = learner.state_hash()
    assert holdfast.import_memory(learner, tmp_path / "memory") == 0
    assert learner.state_hash() == before


def test_what_does_not_fit_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    learner = taught()
    holdfast.export_memory(learner, tmp_path / "memory")
    learner.save(tmp_path / "learner")
    others = [Learner(mlp((4,)), ERACE()), Learner(mlp((3,)), DER())]
    others[0].observe(np.zeros((2, 4)), ["a", "z"])
    for other, error in zip(others, (BatchError, InputError), strict=True):
        before = other.state_hash()
        with pytest.raises(error):
            holdfast.import_memory(other, tmp_path / "memory")
        assert other.state_hash() == before
    with pytest.raises(InputError, match="not an exported memory"):
        holdfast.import_memory(learner, tmp_path / "learner")
    with pytest.raises(CheckpointError):
        holdfast.import_memory(learner, tmp_path / "nothing")


def test_importing_survives_a_restart(tmp_path: Path) -> None:
    holdfast.export_memory(taught(), tmp_path / "memory")
    with holdfast.open(tmp_path / "home", mlp((3,)), ERACE(), memory=30) as learner:
        learner.observe(X[:2], ["z", "a"])
        holdfast.import_memory(learner, tmp_path / "memory")
        there = learner.state_hash()
    with holdfast.open(tmp_path / "home") as learner:
        assert learner.state_hash() == there and len(learner.memory) == 27


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_a_gallery_shows_the_newest_of_every_class(tmp_path: Path, channels: int, kind: type) -> None:
    learner = Learner(small_cnn((channels, 8, 8)), ERACE(), memory=20)
    for shade in range(10):
        images: NDArray[Any] = np.full((2, channels, 8, 8), shade * 28, np.uint8).astype(kind)
        images[1, :, 0, 0] = 255
        learner.observe(images, ["dark and plain", "with a spot"])
    holdfast.memory_gallery(learner, tmp_path / "memory.png", columns=5, size=24)
    sheet = np.asarray(Image.open(tmp_path / "memory.png"))
    height, width = sheet.shape[:2]
    first = sheet[6 + 12, width - 6 - 5 * 26 + 12]  # the middle of the newest image of the first class
    assert height == 2 * 26 + 12 and abs(int(first[0]) - 252) < 5


def test_vectors_have_no_gallery(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="only images"):
        holdfast.memory_gallery(taught(), tmp_path / "memory.png")
    assert not list(tmp_path.iterdir())


def test_a_frozen_encoder_and_precomputed_features() -> None:
    torch.manual_seed(0)
    encoder = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.BatchNorm1d(16), torch.nn.Dropout(0.5))
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    frozen = Learner(holdfast.Frozen(encoder), ERACE(), memory=25)
    features = Learner(torch.nn.Identity(), ERACE(), memory=25)
    for start in range(0, 60, 6):
        x, y = X[start : start + 6], Y[start : start + 6]
        frozen.observe(x, y)
        features.observe(encoder(torch.from_numpy(x)), y)
    assert all(torch.equal(tensor, before[name]) for name, tensor in encoder.state_dict().items())
    assert torch.allclose(frozen.net.head.weight, features.net.head.weight, atol=1e-6)
    assert frozen.predict(X) == features.predict(encoder(torch.from_numpy(X)))
