"""A budget in bytes holds images encoded and anything else as it is, without being told which will come."""

from pathlib import Path

import numpy as np
import pytest

import holdfast
from holdfast.memory import Reservoir

rng = np.random.default_rng(0)
IMAGES = np.kron(rng.integers(0, 256, (200, 3, 4, 4)), np.ones((4, 4))).astype(np.uint8)
VECTORS = rng.normal(size=(200, 8)).astype(np.float32)
Y = np.arange(200) % 4


def learner_of(samples: np.ndarray, **options: object) -> holdfast.Learner:
    shape = samples.shape[1:]
    encoder = holdfast.mlp(shape) if len(shape) == 1 else holdfast.small_cnn(shape)
    return holdfast.Learner(encoder, memory="20kB", **options)  # type: ignore[arg-type]


def fed(learner: holdfast.Learner, samples: np.ndarray) -> holdfast.Learner:
    for start in range(0, len(samples), 20):
        learner.observe(samples[start : start + 20], Y[start : start + 20])
    return learner


@pytest.mark.parametrize("samples", [IMAGES, VECTORS, IMAGES.astype(np.float32)], ids=["images", "vectors", "floats"])
def test_what_is_held_is_held_after_saving_and_reopening(samples: np.ndarray, tmp_path: Path) -> None:
    learner = fed(learner_of(samples), samples)
    encoded = samples.dtype == np.uint8
    assert (learner.memory.codec is not None) == encoded
    assert learner.memory.nbytes <= 20_000
    learner.save(tmp_path / "learner")
    again = holdfast.Learner.load(tmp_path / "learner")
    assert again.state_hash() == learner.state_hash() and (again.memory.codec is not None) == encoded
    fed(again, samples), fed(learner, samples)
    assert again.state_hash() == learner.state_hash()


def test_images_take_an_eighth_of_the_room() -> None:
    raw = holdfast.Learner(holdfast.small_cnn((3, 16, 16)), memory=Reservoir("20kB"))
    assert len(fed(learner_of(IMAGES), IMAGES).memory) > 3 * len(fed(raw, IMAGES).memory)


def test_a_number_of_samples_holds_them_as_they_are() -> None:
    assert holdfast.Learner(holdfast.small_cnn((3, 16, 16)), memory=50).memory.codec is None


def test_a_first_batch_that_is_refused_decides_nothing() -> None:
    learner = learner_of(IMAGES)
    with pytest.raises(holdfast.LabelError):
        learner.observe(VECTORS[:3], [{}, {}, {}])
    assert fed(learner, IMAGES).memory.codec is not None


def test_a_durable_learner_is_found_again_by_the_same_budget(tmp_path: Path) -> None:
    for _ in range(2):
        with holdfast.open(tmp_path / "images", holdfast.small_cnn((3, 16, 16)), memory="20kB") as learner:
            fed(learner, IMAGES)
    with holdfast.open(tmp_path / "images") as learner:
        assert learner.step == 20 and learner.memory.codec is not None
    with pytest.raises(holdfast.CheckpointError, match="memory does not fit"):
        holdfast.open(tmp_path / "images", memory="30kB")


@pytest.mark.slow
@pytest.mark.parametrize("budget", ["5kB", "60kB"])
def test_another_budget_for_encoded_samples(budget: str) -> None:
    learner = fed(learner_of(IMAGES), IMAGES)
    before = len(learner.memory)
    learner.change(memory=budget)
    assert learner.memory.nbytes <= int(budget[:-2]) * 1000
    assert len(learner.memory) < before if budget == "5kB" else len(learner.memory) == before
    for _ in range(10):
        fed(learner, IMAGES)
    assert learner.memory.nbytes <= int(budget[:-2]) * 1000
    if budget == "60kB":
        assert len(learner.memory) > before
    with pytest.raises(holdfast.InputError, match="50MB"):
        learner.change(memory=100)
