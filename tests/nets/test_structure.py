"""An encoder is the same after reopening, or it is asked for: never another one without a word."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import holdfast
from holdfast import ERACE, Learner, mlp, small_cnn
from holdfast.adapters.portable import PortableLearner
from holdfast.errors import CheckpointError
from holdfast.nets import reliable_recipe

RNG = np.random.default_rng(0)
X, IMAGES = RNG.standard_normal((6, 8)).astype(np.float32), RNG.standard_normal((6, 1, 8, 8)).astype(np.float32)
Y = list("aabbcc")


class Doubled(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


def twice(module: nn.Module, inputs: object, output: Tensor) -> Tensor:
    return 2 * output


def with_dropout(net: nn.Sequential) -> None:
    net[2] = nn.Sequential(nn.ReLU(), nn.Dropout(0.5))


def with_hook(net: nn.Sequential) -> None:
    net[1].register_forward_hook(twice)


def with_hook_on_a_weight(net: nn.Sequential) -> None:
    net.get_parameter("1.weight").register_hook(lambda grad: 2 * grad)  # type: ignore[no-untyped-call]


def with_own_forward(net: nn.Sequential) -> None:
    first = net[1]
    first.forward = lambda x: 2 * F.linear(x, first.get_parameter("weight"))


def with_ties(net: nn.Sequential) -> None:
    net[3].weight = net[1].weight


def with_buffer(net: nn.Sequential) -> None:
    net[1].register_buffer("mask", torch.ones(8), persistent=False)


CHANGES: dict[str, Callable[[nn.Sequential], object]] = {
    "activation": lambda net: net.__setitem__(2, nn.GELU()),
    "setting": lambda net: net.__setitem__(2, nn.LeakyReLU(0.0)),
    "dropout": with_dropout,
    "hook": with_hook,
    "hook on a weight": with_hook_on_a_weight,
    "forward": with_own_forward,
    "ties": with_ties,
    "buffer": with_buffer,
    "module": lambda net: net.__setitem__(1, Doubled(8, 8)),
}


def changed(change: str) -> nn.Sequential:
    net = mlp((8,), width=8)
    torch.manual_seed(0)
    CHANGES[change](net)
    return net


def taught(encoder: nn.Module, x: np.ndarray = X) -> Learner:
    learner = Learner(encoder, ERACE(), memory=20)
    learner.observe(x, Y)
    learner.observe(x, Y)
    return learner


def check_same(learner: Learner, loaded: Learner, x: np.ndarray = X) -> None:
    assert loaded.state_hash() == learner.state_hash()
    assert np.array_equal(loaded.predict_proba(x), learner.predict_proba(x))
    for one in (learner, loaded):
        one.observe(x, list("aabbdd"))
    assert loaded.state_hash() == learner.state_hash()


@pytest.mark.parametrize("change", CHANGES)
def test_a_built_in_net_that_was_changed_is_asked_for(change: str, tmp_path: Path) -> None:
    learner = taught(changed(change))
    learner.save(tmp_path / "saved")
    with pytest.raises(CheckpointError, match=r"changed after it was made: pass it, encoder="):
        Learner.load(tmp_path / "saved")
    with pytest.raises(CheckpointError, match="the encoder does not fit the checkpoint"):
        Learner.load(tmp_path / "saved", encoder=mlp((8,), width=8))
    taught(mlp((8,), width=8)).save(tmp_path / "plain")
    if change != "buffer":  # one more that nobody saved
        with pytest.raises(CheckpointError, match="the encoder does not fit the checkpoint"):
            Learner.load(tmp_path / "plain", encoder=changed(change))
    check_same(learner, Learner.load(tmp_path / "saved", encoder=changed(change)))


def test_a_folder_asks_for_it_too_and_stays_as_it_is(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with holdfast.open(home, changed("activation"), ERACE(), memory=20) as learner:
        learner.observe(X, Y)
        there = learner.state_hash()
    with pytest.raises(CheckpointError, match="changed after it was made"):
        holdfast.open(home)
    with pytest.raises(CheckpointError, match="its part 2 is of type ReLU here and GELU there"):
        holdfast.open(home, mlp((8,), width=8))
    with holdfast.open(home, changed("activation")) as learner:
        assert learner.state_hash() == there


def test_a_copy_takes_it_along() -> None:
    learner = PortableLearner(changed("activation"), ERACE(), memory=20)
    learner.observe(X, Y)
    make, parts = learner.__reduce__()
    assert np.array_equal(make(*parts).predict_proba(X), learner.predict_proba(X))


@pytest.mark.parametrize("value", ["eps", "momentum"])
def test_settings_of_its_layers_count(value: str, tmp_path: Path) -> None:
    encoder = small_cnn((1, 8, 8), width=4)
    setattr(encoder[1], value, 0.5)
    taught(encoder, IMAGES).save(tmp_path / "saved")
    with pytest.raises(CheckpointError, match=f"its part 1 has {value}=.* here and {value}=0.5 there"):
        Learner.load(tmp_path / "saved", encoder=small_cnn((1, 8, 8), width=4))


def test_what_is_saved_anyway_leaves_it_built_in(tmp_path: Path) -> None:
    encoder = small_cnn((1, 8, 8), width=4).to(torch.bfloat16)
    encoder[0].requires_grad_(False)
    learner = taught(encoder, IMAGES)
    learner.save(tmp_path / "saved")
    check_same(learner, Learner.load(tmp_path / "saved"), IMAGES)
    encoder[4].float()
    assert reliable_recipe(encoder) is None  # several precisions


class Own(nn.Module):
    """With a setting, and a statistic that torch leaves out of what is saved."""

    mean: Tensor

    def __init__(self, slope: float = 0.1) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.slope = slope
        self.layer = nn.Linear(8, 8)
        self.register_buffer("mean", torch.zeros(8), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.mean.lerp_(x.detach().mean(0), 0.5)
        return F.leaky_relu(self.layer(x - self.mean), self.slope)


def frozen_own() -> nn.Module:
    encoder = Own()
    encoder.layer.bias.requires_grad_(False)
    return encoder


def test_an_encoder_of_ones_own_is_the_same_or_refused(tmp_path: Path) -> None:
    learner = taught(Own())
    learner.save(tmp_path / "saved")
    for other, message in (
        (Own(slope=0.2), "it has slope=0.2 here and slope=0.1 there"),
        (frozen_own(), "layer.bias is frozen here and not there"),
        (Own().double(), "layer.weight has shape .* and type torch.float64 here and .* torch.float32 there"),
        (nn.Sequential(Own()), "it is of type Sequential here and Own there"),
    ):
        with pytest.raises(CheckpointError, match=message):
            Learner.load(tmp_path / "saved", encoder=other)
    loaded = Learner.load(tmp_path / "saved", encoder=Own())
    assert loaded.net.get_buffer("encoder.module.mean").abs().sum() > 0
    check_same(learner, loaded)
