from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from holdfast.measure.inference import FastNet, can_be_faster
from holdfast.nets import CosineHead, LinearHead, Net, mlp, slim_resnet18, small_cnn


class ConvBn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4)


class Untraceable(ConvBn):
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.bn(self.conv(x))
        return out.flatten(1) if x.sum() > 1e9 else out.abs().flatten(1)


class UsedTwice(ConvBn):
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(x)
        normal: Tensor = self.bn(out)
        return (out + normal).flatten(1)


class CalledTwice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.first, self.second = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.BatchNorm2d(3)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.conv(self.first(self.conv(x)))).flatten(1)  # type: ignore[no-any-return]


class SharedNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.bn = nn.Conv2d(3, 4, 3), nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.bn(self.first(x)), self.bn(self.second(x))], 1).flatten(1)


class Unusual(nn.Module):
    """Convolutions with a bias, groups and strides; a BatchNorm without affine, and one without statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 6, 3, stride=2, groups=3, bias=True),
            nn.BatchNorm2d(6, affine=False, eps=0.1),
            nn.Conv2d(6, 4, 1),
            nn.BatchNorm2d(4, track_running_stats=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x).flatten(1)  # type: ignore[no-any-return]


ENCODERS: dict[str, Callable[[], nn.Module]] = {
    "slim-resnet18": lambda: slim_resnet18((3, 32, 32)),
    "small-cnn": lambda: small_cnn((3, 32, 32)),
    "mlp": lambda: mlp((3, 32, 32)),
    "untraceable": Untraceable,
    "used twice": UsedTwice,
    "called twice": CalledTwice,
    "shared norm": SharedNorm,
    "unusual": Unusual,
}


@pytest.fixture
def x() -> Tensor:
    return torch.randint(256, (20, 3, 32, 32), generator=torch.Generator().manual_seed(9), dtype=torch.uint8)


@torch.no_grad()
def shake(net: nn.Module, seed: int) -> None:
    """Changes every weight and BatchNorm statistic, as training does."""
    random = torch.Generator().manual_seed(seed)
    for parameter in net.parameters():
        parameter.mul_(1 + 0.3 * torch.rand(parameter.shape, generator=random))
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d) and module.running_mean is not None:
            assert module.running_var is not None
            module.running_mean.copy_(0.2 * torch.randn(module.running_mean.shape, generator=random))
            module.running_var.copy_(0.5 + torch.rand(module.running_var.shape, generator=random))


def net_of(encoder: nn.Module, x: Tensor, classes: int = 7) -> Net:
    net = Net(encoder, CosineHead()).eval()
    shake(encoder, 0)
    grow(net, x, classes)
    return net


def grow(net: Net, x: Tensor, classes: int) -> None:
    with torch.no_grad():
        features = net.features(x[:1]).shape[1]
    net.head.grow(classes, classes, features, torch.optim.SGD(net.parameters(), lr=0.1))


@torch.no_grad()
def same_answers(fast: Net, live: Net, x: Tensor) -> bool:
    ours, theirs = fast(x), live(x)
    return bool((ours - theirs).abs().max() < 1e-4) and torch.equal(ours.argmax(1), theirs.argmax(1))


@pytest.mark.parametrize("name", ENCODERS)
def test_the_fast_net_answers_as_the_plain_one_and_follows_it(name: str, x: Tensor) -> None:
    torch.manual_seed(0)
    live = net_of(ENCODERS[name](), x)
    fast = FastNet(live)
    assert same_answers(fast.refresh(), live, x)

    with torch.no_grad():
        before = live(x)
    shake(live, 1)
    with torch.no_grad():
        assert (live(x) - before).abs().max() > 1e-3
        assert torch.allclose(fast.net(x), before, atol=1e-4)  # as at the last refresh
    assert same_answers(fast.refresh(), live, x)


def test_only_a_norm_with_a_convolution_of_its_own_is_folded(x: Tensor) -> None:
    def norms(net: Net) -> int:
        return sum(isinstance(module, nn.BatchNorm2d) for module in net.modules())

    left = {name: norms(FastNet(net_of(build(), x)).net) for name, build in ENCODERS.items()}
    assert left == {
        "slim-resnet18": 0,
        "small-cnn": 0,
        "mlp": 0,
        "untraceable": 1,
        "used twice": 1,
        "called twice": 2,
        "shared norm": 1,
        "unusual": 1,
    }


def test_the_fast_net_follows_a_growing_head(x: Tensor) -> None:
    live = Net(small_cnn((3, 32, 32)), LinearHead()).eval()
    fast = FastNet(live)  # before there is any class
    for classes in (1, 2, 9):
        grow(live, x, classes)
        answering = fast.refresh()
        assert answering.seen == classes and answering(x).shape == (20, classes)
        assert same_answers(answering, live, x)


@pytest.mark.parametrize("name", ["slim-resnet18", "untraceable"])
def test_nothing_done_with_the_fast_net_reaches_the_live_one(name: str, x: Tensor) -> None:
    live = net_of(ENCODERS[name](), x)
    before = {key: value.clone() for key, value in live.state_dict().items()}
    random = torch.get_rng_state()
    fast = FastNet(live)
    answering = fast.refresh()
    answering.train()(x)
    shake(answering, 5)
    answering.head.seen = 1
    after = live.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) and before[key].dtype == after[key].dtype for key in before)
    assert not live.training and live.seen == 7
    assert all(parameter.requires_grad for parameter in live.parameters())
    assert torch.equal(torch.get_rng_state(), random)


def test_a_net_without_norms_can_only_be_faster_in_half_precision() -> None:
    assert can_be_faster(Net(small_cnn((3, 32, 32)), LinearHead()), "float32")
    assert not can_be_faster(Net(mlp((4,)), LinearHead()), "float32")
    assert can_be_faster(Net(mlp((4,)), LinearHead()), "bf16")


class WeightUsedAgain(ConvBn):
    def forward(self, x: Tensor) -> Tensor:
        normal: Tensor = self.bn(self.conv(x))
        return (normal + nn.functional.conv2d(x, self.conv.weight, padding=1)).flatten(1)


class TiedWeights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 3, 3), nn.BatchNorm2d(3), nn.Conv2d(3, 3, 3), nn.BatchNorm2d(3))
        first, second = self.layers[0], self.layers[2]
        assert isinstance(first, nn.Conv2d) and isinstance(second, nn.Conv2d)
        second.weight = first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x).flatten(1)  # type: ignore[no-any-return]


def spectral() -> nn.Module:
    conv = nn.utils.spectral_norm(nn.Conv2d(3, 4, 3))
    return nn.Sequential(conv, nn.BatchNorm2d(4), nn.Flatten())


@pytest.mark.parametrize("build", [WeightUsedAgain, TiedWeights, spectral])
def test_a_convolution_whose_weight_serves_elsewhere_is_not_folded(build: Callable[[], nn.Module], x: Tensor) -> None:
    torch.manual_seed(0)
    live = net_of(build(), x)
    assert same_answers(FastNet(live).refresh(), live, x)
