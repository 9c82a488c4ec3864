"""A learner in a file: the same bits back, and nothing but the same bits."""

import enum
import os
from collections import namedtuple
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch import nn

from holdfast import ER, ERACE, ERAML, Learner, Reservoir, crop_and_flip, mlp, small_cnn
from holdfast.errors import CheckpointError
from holdfast.learner.state import pack
from holdfast.storage import checkpoint

X = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)


def taught(labels: list[Hashable] | None = None, **settings: object) -> Learner:
    learner = Learner(mlp((4,), width=8), ERACE(), **{"memory": 20, **settings})  # type: ignore[arg-type]
    learner.observe(X, labels or list("aabbcc"))
    return learner


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "learner.safetensors"


@pytest.mark.slow
def test_every_flipped_bit_is_found(file: Path) -> None:
    taught(memory=3).save(file)
    whole = file.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    rng = np.random.default_rng(0)
    places = {*range(8), *rng.integers(8, header, 300).tolist(), *rng.integers(header, len(whole), 300).tolist()}
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        file.write_bytes(damaged)
        with pytest.raises(CheckpointError):
            Learner.load(file)
    file.write_bytes(whole)
    Learner.load(file)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 100, -1])
def test_a_file_cut_short_is_refused(length: int, file: Path) -> None:
    taught().save(file)
    file.write_bytes(file.read_bytes()[:length])
    with pytest.raises(CheckpointError):
        Learner.load(file)


def test_a_missing_file_is_one_line(file: Path) -> None:
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        Learner.load(file)


def test_a_save_that_fails_leaves_the_old_file(file: Path) -> None:
    learner = taught()
    learner.save(file)
    before = file.read_bytes()
    learner.observe(X, list("aabbcc"))
    with patch.object(os, "fsync", side_effect=OSError(28, "No space left on device")), pytest.raises(OSError):
        learner.save(file)
    assert file.read_bytes() == before
    assert [p.name for p in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize(
    "labels", [["a", "b"], [1, 2], [True, False], [0.5, 1.5], [b"\x00", b"\xff"], [("a", 1), ("a", (2, b"x"))]]
)
def test_labels_keep_their_types(labels: list[Hashable], file: Path) -> None:
    learner = taught(labels * 3)
    learner.save(file)
    loaded = Learner.load(file).classes
    assert loaded == labels and [type(label) for label in loaded] == [type(label) for label in labels]


def test_labels_that_are_no_plain_values_are_refused_and_nothing_is_written(file: Path) -> None:
    with pytest.raises(CheckpointError, match="frozenset"):
        taught([frozenset([1]), frozenset([2])] * 3).save(file)
    assert not file.exists()


@dataclass(frozen=True, kw_only=True)
class Mine(ER):
    share: float = 1.0


def test_what_is_not_built_in_is_asked_for_and_has_to_fit(file: Path) -> None:
    def encoder(width: int = 8) -> nn.Module:
        return nn.Sequential(nn.Linear(4, width), nn.ReLU())

    learner = Learner(encoder(), Mine(share=0.5), memory=20)
    learner.observe(X, list("aabbcc"))
    learner.save(file)
    with pytest.raises(CheckpointError, match=r"pass it, method="):
        Learner.load(file, encoder=encoder())
    with pytest.raises(CheckpointError, match=r"pass it, encoder="):
        Learner.load(file, method=Mine(share=0.5))
    with pytest.raises(CheckpointError, match=r"the encoder does not fit.*out_features=9 here"):
        Learner.load(file, encoder=encoder(9), method=Mine(share=0.5))
    with pytest.raises(CheckpointError, match=r"the method does not fit.*0.5"):
        Learner.load(file, encoder=encoder(), method=Mine())
    with pytest.raises(CheckpointError, match="the optimizer does not fit"):
        Learner.load(file, encoder=encoder(), method=Mine(share=0.5), optimizer=torch.optim.Adam)
    assert Learner.load(file, encoder=encoder(), method=Mine(share=0.5)).state_hash() == learner.state_hash()


def test_settings_come_back_too(file: Path) -> None:
    images = np.random.default_rng(1).integers(0, 256, (6, 3, 16, 16), np.uint8)
    learner = Learner(
        small_cnn((3, 16, 16), width=4), ERACE(), memory=Reservoir(nbytes=4000), lr=0.03, augment=crop_and_flip, seed=7
    )
    learner.observe(images, list("aabbcc"))
    learner.save(file)
    loaded = Learner.load(file)
    for one in (learner, loaded):
        one.observe(images, list("ddeeff"))
    assert loaded.state_hash() == learner.state_hash()
    assert loaded.memory.byte_budget == 4000 and loaded.optimizer.param_groups[0]["lr"] == 0.03


def test_optimizer_state_comes_back(file: Path) -> None:
    learner = taught(optimizer=lambda parameters: torch.optim.Adam(parameters, lr=0.01))
    learner.save(file)
    loaded = Learner.load(file, optimizer=lambda parameters: torch.optim.Adam(parameters, lr=0.01))
    for one in (learner, loaded):
        one.observe(X, list("aabbdd"))
    assert loaded.state_hash() == learner.state_hash()


def test_a_newer_format_is_refused(file: Path) -> None:
    with patch("holdfast.storage.checkpoint.FORMAT", 99):
        taught().save(file)
    with pytest.raises(CheckpointError, match="format 99"):
        Learner.load(file)


def test_files_whose_sizes_do_not_add_up_are_refused_unread(file: Path) -> None:
    taught().save(file)
    whole = file.stat().st_size
    os.truncate(file, 2**40)  # sparse
    with pytest.raises(CheckpointError, match="is not a checkpoint or is damaged"):
        Learner.load(file)
    os.truncate(file, whole)
    assert Learner.load(file).step > 0


def test_a_head_is_not_sized_for_more_classes_than_there_can_be(file: Path) -> None:
    Learner(mlp((3,)), ERACE(), memory=5, classes=3).save(file)
    tensors, manifest = checkpoint.read(file)
    manifest["settings"]["classes"] = 10**10
    file.write_bytes(checkpoint.pack(tensors, manifest))
    with pytest.raises(CheckpointError, match="classes must be a whole number of 0 or more and at most 100000"):
        Learner.load(file)


def test_a_learner_that_has_seen_nothing(file: Path) -> None:
    learner = Learner(mlp((4,), width=8), ERACE(), memory=20)
    learner.save(file)
    loaded = Learner.load(file)
    assert loaded.state_hash() == learner.state_hash()
    for one in (learner, loaded):
        one.observe(X, list("aabbcc"))
    assert loaded.state_hash() == learner.state_hash()


def goes_on_as_if_never_saved(learner: Learner, file: Path, **parts: Any) -> Learner:
    learner.save(file)
    loaded = Learner.load(file, **parts)
    assert loaded.state_hash() == learner.state_hash()
    for one in (learner, loaded):
        one.observe(X, list("aabbdd"))
    assert loaded.state_hash() == learner.state_hash()
    assert np.array_equal(loaded.predict_proba(X), learner.predict_proba(X))
    return loaded


class Kind(enum.IntEnum):
    CAT = 1
    DOG = 2


def test_labels_of_ones_own_types_are_found_again(file: Path) -> None:
    named = namedtuple("named", ["kind"])
    labels = [Kind.CAT, named(Kind.DOG), enum.StrEnum("Sky", "BLUE").BLUE]  # type: ignore[attr-defined]
    learner = taught(labels * 2)
    learner.save(file)
    loaded = Learner.load(file)
    assert loaded.classes == learner.classes == labels
    loaded.observe(X, labels * 2)
    assert loaded.forget(Kind.CAT) > 0 and len(loaded.classes) == 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_an_encoder_of_another_precision(dtype: torch.dtype, file: Path) -> None:
    def own() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8)).to(dtype)

    for encoder, parts in ((mlp((4,), width=8).to(dtype), {}), (own(), {"encoder": own()})):
        learner = Learner(encoder, ERACE(), memory=20)
        learner.observe(X, list("aabbcc"))
        loaded = goes_on_as_if_never_saved(learner, file, **parts)
        assert {parameter.dtype for parameter in loaded.net.encoder.parameters()} == {dtype}


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner, self.outer = nn.Linear(4, 4), nn.Linear(4, 4)
        self.outer.weight = self.inner.weight
        self.register_buffer("scale", torch.arange(1.0, 5))
        self.register_buffer("part", self.get_buffer("scale")[:2])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.outer(self.inner(x).relu()) * self.get_buffer("scale")
        return features


def adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=0.01)


@pytest.mark.parametrize(
    ("group", "settings", "tensors"),
    [
        ({"betas": [-0.9, 0.999]}, {}, {}),
        ({"eps": -1.0}, {}, {}),
        ({}, {"classes": 2**31}, {}),
        ({}, {"updates": 10**15}, {}),
        ({}, {}, {"optimizer/0/step": torch.tensor(-1.0)}),
        ({}, {}, {"optimizer/0/exp_avg": torch.tensor(1.0)}),
        ({}, {}, {"optimizer/1/exp_avg_sq": None}),
        ({}, {}, {"net/head.weight": torch.zeros(3, 7)}),
    ],
)
def test_a_forged_file_with_a_right_checksum_is_refused_when_it_is_loaded(
    group: dict[str, Any], settings: dict[str, Any], tensors: dict[str, Any], file: Path
) -> None:
    """And not with some error of torch when it learns next."""
    taught(optimizer=adam).save(file)
    there, manifest = checkpoint.read(file)
    manifest["optimizer"]["groups"][0] |= group
    manifest["settings"] |= settings
    forged = {name: tensor for name, tensor in (there | tensors).items() if tensor is not None}
    if "net/head.weight" in tensors:
        forged = {name: tensor for name, tensor in forged.items() if not name.startswith("optimizer/")}
    file.write_bytes(checkpoint.pack(forged, manifest))
    with pytest.raises(CheckpointError):
        Learner.load(file, optimizer=adam)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.float32])
def test_a_forged_type_of_a_count_is_refused_when_it_is_loaded(dtype: torch.dtype, file: Path) -> None:
    learner = Learner(small_cnn((1, 8, 8), width=4), ERACE(), memory=20)
    learner.observe(torch.zeros(2, 1, 8, 8), list("ab"))
    learner.save(file)
    tensors, manifest = checkpoint.read(file)
    (name, *_) = (name for name in tensors if name.endswith("num_batches_tracked"))
    file.write_bytes(checkpoint.pack(tensors | {name: tensors[name].to(dtype)}, manifest))
    with pytest.raises(CheckpointError, match="num_batches_tracked has shape"):
        Learner.load(file)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad", "ASGD", "RMSprop", "Rprop"])
def test_every_usual_optimizer_comes_back(name: str, file: Path) -> None:
    optimizer = partial(getattr(torch.optim, name), lr=0.01)
    learner = taught(optimizer=optimizer)
    learner.save(file)
    assert Learner.load(file, optimizer=optimizer).state_hash() == learner.state_hash()


@pytest.mark.parametrize("optimizer", [None, adam])
def test_tied_weights_stay_tied(optimizer: Any, file: Path) -> None:
    learner = Learner(Tied(), ERACE(), memory=20, optimizer=optimizer)
    learner.observe(X, list("aabbcc"))
    loaded = goes_on_as_if_never_saved(learner, file, encoder=Tied(), optimizer=optimizer)
    encoder = loaded.net.encoder.module
    assert isinstance(encoder, Tied) and encoder.inner.weight is encoder.outer.weight


def test_a_built_in_encoder_that_was_frozen_stays_frozen(file: Path) -> None:
    encoder = mlp((4,), width=8)
    encoder.get_parameter("1.weight").requires_grad_(False)
    learner = Learner(encoder, ERACE(), memory=20)
    learner.observe(X, list("aabbcc"))
    loaded = goes_on_as_if_never_saved(learner, file)
    frozen = [name for name, p in loaded.net.encoder.named_parameters() if not p.requires_grad]
    assert frozen == ["module.1.weight"]


@dataclass(frozen=True, kw_only=True)
class WithFunction(ER):
    scale: Any = abs


class Stateful(nn.Linear):
    def get_extra_state(self) -> dict[str, int]:
        return {"calls": 3}


def buffered(buffer: torch.Tensor) -> nn.Module:
    encoder = nn.Linear(4, 8)
    encoder.register_buffer("extra", buffer)
    return encoder


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"method": WithFunction()}, "builtin_function_or_method"),
        ({"optimizer": lambda p: torch.optim.Adam(p, lr=torch.tensor(0.1))}, "a Tensor among"),
        ({"encoder": Stateful(4, 8)}, "_extra_state of the encoder cannot be saved"),
        ({"encoder": buffered(torch.eye(4).to_sparse())}, "extra of the encoder cannot be saved"),
    ],
)
def test_what_cannot_be_saved_is_named(parts: dict[str, Any], message: str, file: Path) -> None:
    learner = Learner(**{"encoder": mlp((4,), width=8), "method": ER(), "memory": 20, **parts})
    learner.observe(X, list("aabbcc"))
    for attempt in (lambda: learner.save(file), learner.state_hash):
        with pytest.raises(CheckpointError, match=message):
            attempt()
    assert not file.exists()


@pytest.mark.parametrize("name", ["complex64", "complex128", "uint16", "float8_e5m2", "float8_e8m0fnu"])
def test_every_type_of_tensor_comes_back_or_is_refused(name: str, file: Path) -> None:
    """Which ones, torch and safetensors decide."""
    dtype = getattr(torch, name, torch.float32)
    learner = Learner(buffered(torch.zeros(3, dtype=dtype)), ERACE(), memory=20)
    learner.observe(X, list("aabbcc"))
    with suppress(CheckpointError):
        learner.save(file)
    if file.exists():
        loaded = Learner.load(file, encoder=buffered(torch.zeros(3, dtype=dtype)))
        assert loaded.state_hash() == learner.state_hash()
    else:
        with pytest.raises(CheckpointError, match=f"extra cannot be saved: no file holds tensors of type {dtype}"):
            learner.save(file)


def test_an_augmentation_without_a_name(file: Path) -> None:
    images = np.random.default_rng(1).integers(0, 256, (6, 3, 16, 16), np.uint8)
    less = partial(crop_and_flip, padding=1)
    learner = Learner(small_cnn((3, 16, 16), width=4), ERACE(), memory=20, augment=less)
    learner.observe(images, list("aabbcc"))
    learner.save(file)
    with pytest.raises(CheckpointError, match=r"pass it, augment="):
        Learner.load(file)
    assert Learner.load(file, augment=less).state_hash() == learner.state_hash()


def test_a_file_from_before_there_was_an_option_holds_what_was_done_then(file: Path) -> None:
    """It does not name the option, and neither does one that is written now: they are the same to the bit."""
    then = Learner(mlp((4,), width=8), ERAML(positives="released"), memory=20)
    then.observe(X, list("aabbcc"))
    then.save(file)
    assert "positives" not in pack(then)[1]["method"]["options"]
    assert Learner.load(file).method == ERAML(positives="released")
    assert Learner.load(file, method=ERAML(positives="released")).state_hash() == then.state_hash()
    with pytest.raises(CheckpointError, match=r"'positives': 'others'.* here and .*'positives': 'released'"):
        Learner.load(file, method=ERAML())
    now = Learner(mlp((4,), width=8), ERAML(), memory=20)
    now.save(file)
    assert Learner.load(file).method == ERAML()
