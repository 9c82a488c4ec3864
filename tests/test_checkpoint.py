"""A learner in a file: the same bits back, and nothing but the same bits."""

import os
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch import nn

from holdfast import ER, ERACE, Learner, Reservoir, crop_and_flip, mlp, small_cnn
from holdfast.errors import CheckpointError

X = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)


def taught(labels: list[Hashable] | None = None, **settings: object) -> Learner:
    learner = Learner(mlp((4,), width=8), ERACE(), **{"memory": 20, **settings})  # type: ignore[arg-type]
    learner.observe(X, labels or list("aabbcc"))
    return learner


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "learner.safetensors"


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
    with pytest.raises(CheckpointError, match=r"pass it, load.path, method="):
        Learner.load(file, encoder=encoder())
    with pytest.raises(CheckpointError, match=r"pass it, load.path, encoder="):
        Learner.load(file, method=Mine(share=0.5))
    with pytest.raises(CheckpointError, match=r"the encoder does not fit.*shape"):
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
    with patch("holdfast.checkpoint.FORMAT", 99):
        taught().save(file)
    with pytest.raises(CheckpointError, match="format 99"):
        Learner.load(file)


def test_a_learner_that_has_seen_nothing(file: Path) -> None:
    learner = Learner(mlp((4,), width=8), ERACE(), memory=20)
    learner.save(file)
    loaded = Learner.load(file)
    assert loaded.state_hash() == learner.state_hash()
    for one in (learner, loaded):
        one.observe(X, list("aabbcc"))
    assert loaded.state_hash() == learner.state_hash()
