"""A file for programs without Holdfast answers as the learner does."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

import holdfast
from holdfast.errors import InputError, NothingLearned

Array = NDArray[Any]


def images(samples: int, seed: int, side: int = 16) -> Array:
    return np.random.default_rng(seed).integers(0, 256, (samples, 3, side, side), dtype=np.uint8)


def taught(method: str, encoder: nn.Module | None = None, side: int = 16, **settings: Any) -> holdfast.Learner:
    learner = holdfast.Learner(encoder or holdfast.small_cnn((3, 16, 16), width=4), method, memory=40, **settings)
    for step in range(4):
        learner.observe(images(10, step, side), [f"class {(step + place) % 5}" for place in range(10)])
    return learner


def in_onnx_runtime(file: Path, x: Array) -> tuple[list[object], Array]:
    session = onnxruntime.InferenceSession(file)
    labels, probabilities = session.run(["label", "probability"], {"x": x})
    classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
    return [classes[place] for place in labels], probabilities


def in_torch(file: Path, x: Array) -> tuple[list[object], Array]:
    about = {"holdfast.json": ""}
    labels, probabilities = torch.export.load(file, extra_files=about).module()(torch.from_numpy(x))
    return [json.loads(about["holdfast.json"])["classes"][place] for place in labels], probabilities.numpy()


def answers_alike(learner: holdfast.Learner, file: Path, *batches: Array) -> None:
    for x in batches:
        labels, probabilities = (in_onnx_runtime if file.suffix == ".onnx" else in_torch)(file, x)
        np.testing.assert_allclose(probabilities, learner.predict_proba(x), atol=1e-4)
        clear = np.flatnonzero(np.ptp(np.sort(probabilities)[:, -2:], axis=1) > 1e-3)
        expected = learner.predict(x)
        assert [labels[place] for place in clear] == [expected[place] for place in clear]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["holdfast", "scr", "slda", "gdumb:rounds=1"])
def test_onnx_answers_as_the_learner_whatever_it_answers_by(method: str, tmp_path: Path) -> None:
    learner = taught(method)
    learner.export(tmp_path / "model.onnx")
    answers_alike(learner, tmp_path / "model.onnx", images(1, 9), images(30, 9))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["holdfast", "ncm"])
def test_torch_loads_it_too(method: str, tmp_path: Path) -> None:
    learner = taught(method)
    learner.export(str(tmp_path / "model.pt2"))
    answers_alike(learner, tmp_path / "model.pt2", images(1, 9), images(30, 9))


@pytest.mark.slow
def test_standardisation_calibration_and_limits_are_inside_and_forgotten_classes_are_not(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    learner = holdfast.Learner(holdfast.mlp((3,)), "er-ace", memory=50, standardise=True, clip_samples=900.0)
    x = rng.normal(size=(120, 3)) * [1, 10, 300]
    y = [("left", "right", "lost")[place % 3] for place in range(120)]
    for start in range(0, 80, 10):
        learner.observe(x[start : start + 10], y[start : start + 10])
    learner.forget("lost")
    known = [place for place in range(80, 120) if y[place] != "lost"]
    learner.calibrate(x[known], [y[place] for place in known])
    learner.export(tmp_path / "model.onnx")
    far = np.array([[1e6, 0, 0]], np.float32)
    answers_alike(learner, tmp_path / "model.onnx", x.astype("float32"), far)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    assert [each.shape for each in (*session.get_inputs(), *session.get_outputs())] == [
        ["samples", 3],
        ["samples"],
        ["samples", 2],
    ]
    about = session.get_modelmeta().custom_metadata_map
    assert json.loads(about["classes"]) == ["left", "right"] == learner.classes
    assert learner.calibration is not None and json.loads(about["threshold"]) == learner.calibration.threshold


@pytest.fixture
def frozen() -> holdfast.Learner:
    module = nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
    return taught("slda", holdfast.pretrained(module, size=16, mean=(0.5, 0.4, 0.3), std=(0.2, 0.2, 0.2)), side=24)


@pytest.mark.slow
def test_a_frozen_encoder_is_inside_with_its_normalisation(frozen: holdfast.Learner, tmp_path: Path) -> None:
    frozen.export(tmp_path / "model.onnx")
    answers_alike(frozen, tmp_path / "model.onnx", images(1, 9), images(20, 9))


@pytest.mark.slow
def test_samples_of_another_size_are_resized_inside(frozen: holdfast.Learner, tmp_path: Path) -> None:
    frozen.export(tmp_path / "model.onnx", shape=(3, 24, 32))
    x = np.random.default_rng(0).integers(0, 256, (5, 3, 24, 32), dtype=np.uint8)
    answers_alike(frozen, tmp_path / "model.onnx", x, x[:1])


def test_a_durable_learner_is_exported_as_well(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "lives", holdfast.mlp((2,)), "er-ace", memory=10) as learner:
        learner.observe(np.eye(2), [("a", 1), b"b"])
        learner.export(tmp_path / "model.pt2")
        about = {"holdfast.json": ""}
        torch.export.load(tmp_path / "model.pt2", extra_files=about)
        assert json.loads(about["holdfast.json"])["classes"] == [{"tuple": ["a", 1]}, {"bytes": "62"}]


class Undecided(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else -x


def test_mistakes_are_one_line_and_write_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    learner = taught("ncm")
    file = tmp_path / "model.onnx"
    with pytest.raises(InputError, match=r"exported as \.onnx or \.pt2, not \.h5"):
        learner.export(tmp_path / "model.h5")
    with pytest.raises(InputError, match=r"this learner takes samples of \(3, 16, 16\)"):
        learner.export(file, shape=(3, 32, 32))
    with pytest.raises(NothingLearned):
        holdfast.Learner(holdfast.mlp((2,)), "er", memory=10).export(file)
    undecided = holdfast.Learner(Undecided(), "er", memory=10)
    undecided.observe(np.eye(2), ["a", "b"])
    with pytest.raises(InputError, match=r"torch cannot write the net of this learner as \.onnx: [^\n]+$"):
        undecided.export(file)
    own = taught("ncm", holdfast.pretrained(nn.Flatten()))
    with pytest.raises(InputError, match="say the shape of a sample before the encoder"):
        own.export(file)
    with pytest.raises(holdfast.errors.BatchError, match=r"does not take samples of shape \(3, 4, 4\)"):
        own.export(file, shape=(3, 4, 4))
    monkeypatch.setattr("holdfast.learner.export.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'holdfast\[export\]'"):
        learner.export(file)
    assert list(tmp_path.iterdir()) == [] and capfd.readouterr() == ("", "")


def test_the_best_labels_come_with_their_probabilities() -> None:
    learner, x = taught("scr"), images(4, 9)
    found, probabilities = learner.predict_top(x, 3), learner.predict_proba(x)
    assert [row[0][0] for row in found] == learner.predict(x)
    for row, expected in zip(found, probabilities, strict=True):
        assert [share for _, share in row] == sorted(map(float, expected), reverse=True)[:3]
        assert all(expected[learner.classes.index(label)] == np.float32(share) for label, share in row)
    assert len(learner.predict_top(x, 99)[0]) == 5 and len(learner.predict_top(x)) == 4
    with pytest.raises(InputError, match="k must be"):
        learner.predict_top(x, 0)
