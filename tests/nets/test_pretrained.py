"""Encoders that were trained elsewhere: fed as they were trained, found again by name, frozen as far as asked."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import holdfast
from holdfast import ERACE, Learner, pretrained
from holdfast.errors import BatchError, CheckpointError, InputError, UnknownName
from holdfast.nets.pretrained import PretrainedEncoder, features_of

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (8, 3, 8, 8), dtype=np.uint8)
Y = list("ababcbca")
MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)
FACTORY = """
import torch

def net():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 5), torch.nn.ReLU())

def nothing():
    return 5

def broken():
    raise KeyError("weights")

def needs(shape):
    return net()
"""


def convolutions() -> nn.Sequential:
    torch.manual_seed(0)
    first = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    last = nn.Sequential(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6), nn.ReLU())
    return nn.Sequential(first, last, nn.AdaptiveAvgPool2d(1), nn.Flatten())


class Seen(nn.Module):
    """Notes what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.given.append(x)
        return x.mean((2, 3))


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    Path("nets.py").write_text(FACTORY)
    monkeypatch.setattr("holdfast.nets.pretrained._MADE", {})
    return iter([None])


@pytest.fixture
def timm(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Stands for the package: one model, whose weights are downloaded if nobody says otherwise."""

    def create_model(name: str, *, pretrained: bool, num_classes: int) -> nn.Module:
        assert num_classes == 0
        if pretrained:
            raise OSError("no network")
        return convolutions()

    package = ModuleType("timm")
    config = {"input_size": (3, 16, 16), "mean": MEAN, "std": STD}
    vars(package).update(
        list_models=lambda: ["tiny", "small"],
        create_model=create_model,
        data=SimpleNamespace(resolve_data_config=lambda args, model: config),
    )
    monkeypatch.setitem(sys.modules, "timm", package)
    return package


def test_images_have_the_size_and_the_normalisation_that_the_encoder_was_trained_with() -> None:
    seen = Seen()
    encoder = pretrained(seen, size=16, mean=MEAN, std=STD)
    grey = np.full((1, 1, 8, 8), 51, np.uint8)
    features_of(encoder, torch.from_numpy(grey))
    expected = [(0.2 - mean) / std for mean, std in zip(MEAN, STD, strict=True)]
    assert seen.given[0].shape == (1, 3, 16, 16)
    np.testing.assert_allclose(seen.given[0].amax((0, 2, 3)), expected, atol=1e-5)
    np.testing.assert_allclose(seen.given[0].amin((0, 2, 3)), expected, atol=1e-5)


def test_the_memory_holds_features_and_each_is_computed_once() -> None:
    seen = Seen()
    learner = Learner(pretrained(seen, size=8), ERACE(), memory=100)
    for start in (0, 4):
        learner.observe(IMAGES[start : start + 4], Y[start : start + 4])
    assert sum(len(x) for x in seen.given) == len(IMAGES)
    assert learner.memory.at(np.arange(8)).x.shape == (8, 3)
    features = learner.features(IMAGES)
    seen.given.clear()
    assert learner.predict(features) == learner.predict(features)
    assert not seen.given
    assert learner.predict(IMAGES) == learner.predict(features)


def test_a_learner_of_features_is_that_of_the_images() -> None:
    one, other = (Learner(pretrained(convolutions()), ERACE(), memory=100) for _ in range(2))
    one.observe(IMAGES, Y)
    other.observe(other.features(IMAGES), Y)
    assert one.state_hash() == other.state_hash()
    ticket = one.ask(IMAGES[:2])
    one.tell(ticket, Y[:2])
    assert one.step == 2


def test_samples_are_forgotten_whatever_they_came_beside() -> None:
    learner = Learner(pretrained(convolutions()), ERACE(), memory=100)
    learner.observe(IMAGES, Y)
    learner.ask(IMAGES[2:4])
    assert learner.forget_samples(IMAGES[3:4]) == 1
    assert learner.forget_samples(IMAGES[3:4]) == 0
    assert len(learner.memory) == 7 and len(learner.pending) == 0


def test_frozen_and_learning_parts() -> None:
    for frozen, learning in ((True, set[str]()), ("but-last", {"1"}), (False, {"0", "1"})):
        encoder = pretrained(convolutions(), frozen=frozen)  # type: ignore[arg-type]
        before = {name: tensor.clone() for name, tensor in encoder.module.state_dict().items()}
        learner = Learner(encoder, ERACE(), memory=100)
        learner.observe(IMAGES, Y)
        after = encoder.module.state_dict()
        assert {name[0] for name in after if not torch.equal(after[name], before[name])} == learning


def test_the_last_block_and_what_follows_it() -> None:
    class Transformer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Linear(4, 4)
            self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)) for _ in range(3)])
            self.norm = nn.LayerNorm(4)

    encoder = pretrained(Transformer(), frozen="but-last")
    learning = {name for name, weight in encoder.module.named_parameters() if weight.requires_grad}
    assert {name.rpartition(".")[0] for name in learning} == {"blocks.2.0", "blocks.2.1", "norm"}


def test_a_file_of_ones_own() -> None:
    learner = Learner(pretrained("nets.py:net"), ERACE(), memory=100)
    learner.observe(IMAGES, Y)
    assert learner.net.head.weight.shape == (3, 5)
    for wrong, said in (
        ("nets.py:nett", "did you mean 'net'"),
        ("nets.py:nothing", "must return an nn.Module, not int"),
        ("nets.py:broken", r"broken\(\) failed with KeyError: 'weights'"),
        ("nets.py:needs", r"needs\(\) failed with TypeError: .* missing 1 required positional argument"),
        ("other.py:net", "no file other.py"),
        ("nets.py:net,frozen=maybe", "true, false or but-last"),
        ("nets.py:net,size=2", "size must be a whole number"),
        ("nets.py:net,sise=20", "did you mean 'size'"),
        ("hub:net", "timm:NAME, torchvision:NAME or file.py:factory"),
    ):
        with pytest.raises(InputError, match=said):
            pretrained(wrong)


def test_a_model_of_timm_with_weights_of_a_file(timm: ModuleType) -> None:
    weights = {name: tensor + 1 for name, tensor in convolutions().state_dict().items()}
    save_file({**weights, "classifier.weight": torch.zeros(3)}, "weights.safetensors")
    encoder = pretrained("timm:tiny,weights=weights.safetensors")
    assert (encoder.size, encoder.mean, encoder.std) == ((16, 16), MEAN, STD)
    assert all(torch.equal(tensor, weights[name]) for name, tensor in encoder.module.state_dict().items())
    assert pretrained("timm:tiny", weights="weights.safetensors", size=32).size == (32, 32)
    with pytest.raises(InputError, match=r"no network; weights=FILE.safetensors takes them from a file"):
        pretrained("timm:tiny")
    with pytest.raises(UnknownName, match="did you mean 'tiny'"):
        pretrained("timm:tny")
    save_file({"other": torch.zeros(3)}, "other.safetensors")
    with pytest.raises(InputError, match=r"other.safetensors is of another model: 0.0.weight has shape"):
        pretrained("timm:tiny,weights=other.safetensors")
    Path("weights.pth").write_bytes(b"PK")
    with pytest.raises(InputError, match="weights_only=True"):
        pretrained("timm:tiny,weights=weights.pth")


def test_a_package_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(InputError, match="pip install timm"):
        pretrained("timm:resnet18")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("import a_part_of_it", "No module named 'a_part_of_it'.; pip install a_part_of_it"),
        ("raise RuntimeError('operator nms does not exist')", "operator nms does not exist.; install the one that"),
    ],
)
def test_a_package_that_is_there_and_cannot_be_imported(monkeypatch: pytest.MonkeyPatch, line: str, said: str) -> None:
    Path("torchvision.py").write_text(line)
    monkeypatch.syspath_prepend(".")
    monkeypatch.delitem(sys.modules, "torchvision", raising=False)
    with pytest.raises(InputError, match=said):
        pretrained("torchvision:resnet18")


@pytest.mark.parametrize("frozen", [True, False, "but-last"])
def test_saved_by_name(frozen: bool | str) -> None:
    name = f"nets.py:net,frozen={str(frozen).lower()}"
    learner = Learner(pretrained(name), ERACE(), memory=100)
    learner.observe(IMAGES, Y)
    learner.save("learner")
    if frozen is True:
        assert Path("learner").stat().st_size < 8000  # the encoder is not in it
    for loaded in (Learner.load("learner"), Learner.load("learner", encoder=pretrained(name))):
        assert loaded.state_hash() == learner.state_hash()
        assert loaded.predict(IMAGES) == learner.predict(IMAGES)


def test_a_folder_knows_its_encoder_by_name() -> None:
    with holdfast.open("folder", pretrained("nets.py:net"), ERACE(), memory=100) as learner:
        learner.observe(IMAGES, Y)
        state = learner.state_hash()
    with holdfast.open("folder") as learner:
        assert learner.state_hash() == state
        learner.observe(IMAGES, Y)


@pytest.mark.slow
def test_reading_a_file_executes_nothing_that_it_names() -> None:
    Path("nets.py").write_text(FACTORY + "\nopen('executed', 'w').close()\n")
    Learner(pretrained("nets.py:net"), ERACE(), memory=100).save("learner")
    with holdfast.open("folder", pretrained("nets.py:net"), ERACE(), memory=100):
        pass
    Path("executed").unlink()
    code = """
import holdfast
for read in (holdfast.Learner.load, holdfast.open):
    try:
        read("learner" if read is not holdfast.open else "folder")
    except holdfast.HoldfastError as error:
        print(error)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.count("pass it, encoder=holdfast.pretrained('nets.py:net'), or --net nets.py:net on") == 2
    assert not Path("executed").exists()


def test_another_encoder_is_refused() -> None:
    learner = Learner(pretrained(convolutions()), ERACE(), memory=100)
    learner.observe(IMAGES, Y)
    learner.save("learner")
    assert Learner.load("learner", encoder=pretrained(convolutions())).predict(IMAGES) == learner.predict(IMAGES)
    other = convolutions()
    with torch.no_grad():
        next(other.parameters()).add_(1)
    for encoder, said in (
        (pretrained(other), "has other weights here"),
        (pretrained(convolutions(), size=16), "size is"),
        (convolutions(), "pretrained one"),
        (None, "pass it"),
    ):
        with pytest.raises(CheckpointError, match=said):
            Learner.load("learner", encoder=encoder)


def test_what_features_cannot_be() -> None:
    encoder = pretrained(convolutions(), size=16)
    for settings, said in (
        ({"augment": holdfast.crop_and_flip}, "cannot be augmented"),
        ({"memory": holdfast.Reservoir(10, codec="png")}, "cannot be held as png"),
    ):
        with pytest.raises(InputError, match=said):
            Learner(encoder, ERACE(), **settings)
    learner = Learner(encoder, ERACE(), memory=10)
    with pytest.raises(BatchError, match=r"channels come first, x.transpose\(0, 3, 1, 2\)"):
        learner.observe(IMAGES.transpose(0, 2, 3, 1), Y)
    with pytest.raises(BatchError, match=r"\(3, height, width\), not samples of shape \(8,\)"):
        learner.observe(np.zeros((8, 8), np.float32), Y)
    with pytest.raises(BatchError, match="learners with a frozen pretrained encoder"):
        Learner(convolutions(), ERACE()).observe(learner.features(IMAGES), Y)
    assert isinstance(encoder, PretrainedEncoder) and not encoder.training
