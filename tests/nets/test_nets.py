import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from holdfast.errors import InputError
from holdfast.nets import NETS, CosineHead, Head, LinearHead, Net, default_net, mlp, slim_resnet18, small_cnn

CLASSIFYING_HEADS = [LinearHead, CosineHead]
OPTIMIZERS: dict[str, Callable[[Head], torch.optim.Optimizer]] = {
    "SGD": lambda head: torch.optim.SGD(head.parameters(), lr=0.1, momentum=0.9),
    "Adam": lambda head: torch.optim.Adam(head.parameters(), lr=0.01),
}


def plain(head: Head) -> torch.optim.Optimizer:
    return torch.optim.SGD(head.parameters(), lr=0.1)


def grown(head: Head, seen: int, features: int, rows: int | None = None) -> Head:
    head.grow(seen, rows or seen, features, plain(head))
    return head


def learn(head: Head, optimizer: torch.optim.Optimizer, features: int) -> None:
    x = torch.randn(6, features, generator=torch.Generator().manual_seed(head.seen))
    nn.functional.cross_entropy(head(x), torch.arange(6) % head.seen).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    optimizer.zero_grad()


def state(head: Head, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Weights and everything of the optimizer's that belongs to rows, by name."""
    rows = {name: parameter.detach().clone() for name, parameter in head.named_parameters()}
    for name, parameter in head.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, Tensor) and value.ndim:
                rows[f"{name}/{key}"] = value.clone()
    return rows


def parameters(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


# Reduced ResNet-18, by hand. A block of width w after width v: 9vw + 9ww in its convolutions and 4w in its two
# BatchNorms; if it changes the width also vw + 2w in its shortcut. The stem: 27 * 20 + 2 * 20 = 580.
#   width 20:  2 * (3600 + 3600 + 80)                                          =  14,560
#   width 40:  (7200 + 14400 + 160 + 880)      + (14400 + 14400 + 160)         =  51,600
#   width 80:  (28800 + 57600 + 320 + 3360)    + (57600 + 57600 + 320)         = 205,600
#   width 160: (115200 + 230400 + 640 + 13120) + (230400 + 230400 + 640)       = 820,800
SLIM_RESNET18 = 580 + 14_560 + 51_600 + 205_600 + 820_800


@pytest.mark.parametrize(
    ("side", "features", "classes", "head", "expected"),
    [
        (32, 160, 10, CosineHead, 1_094_740),
        (32, 160, 10, LinearHead, 1_094_750),
        (84, 640, 100, CosineHead, 1_157_140),
        (84, 640, 100, LinearHead, 1_157_240),
    ],
)
def test_the_reduced_resnet_has_the_size_of_the_paper(
    side: int, features: int, classes: int, head: type[Head], expected: int
) -> None:
    encoder = slim_resnet18((3, side, side))
    net = Net(encoder, head()).eval()
    x = torch.zeros(2, 3, side, side, dtype=torch.uint8)
    assert net.features(x).shape == (2, features)
    grown(net.head, classes, features)
    assert net(x).shape == (2, classes)
    assert parameters(encoder) == SLIM_RESNET18 == 1_093_140
    assert parameters(net) == expected


def test_the_small_nets_have_the_features_they_promise() -> None:
    assert small_cnn((1, 28, 28))(torch.zeros(2, 1, 28, 28)).shape == (2, 1024)
    assert mlp((3, 4))(torch.zeros(2, 3, 4)).shape == (2, 128)
    assert mlp((7,), width=9)(torch.zeros(2, 7)).shape == (2, 9)


@pytest.mark.parametrize(
    ("shape", "name"),
    [
        ((3, 32, 32), "slim-resnet18"),
        ((3, 84, 40), "slim-resnet18"),
        ((1, 28, 28), "small-cnn"),
        ((3, 32, 31), "small-cnn"),
        ((1, 8, 8), "small-cnn"),
        ((3, 7, 32), "mlp"),
        ((64,), "mlp"),
        ((32, 32), "mlp"),
    ],
)
def test_the_default_net_takes_the_samples_it_is_for(shape: tuple[int, ...], name: str) -> None:
    assert default_net(shape) == name
    assert NETS[name](shape).eval()(torch.zeros(2, *shape)).ndim == 2


@pytest.mark.parametrize(
    ("build", "shape"), [(slim_resnet18, (3, 31, 64)), (slim_resnet18, (32, 32)), (small_cnn, (1, 7, 7))]
)
def test_samples_a_net_cannot_take_are_refused(build: Callable[..., nn.Module], shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"takes images of .*, not samples of shape"):
        build(shape)


@pytest.mark.parametrize("name", [name for name in NETS if name != "raw"])  # which has no weights
def test_building_a_net_depends_on_the_seed_alone(name: str) -> None:
    def weights(seed: int) -> Tensor:
        return torch.cat([p.detach().flatten() for p in NETS[name]((3, 32, 32), seed=seed).parameters()])

    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = weights(0)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert torch.equal(weights(0), first)
    assert not torch.equal(weights(1), first)


def test_a_net_that_fails_to_build_leaves_the_global_generator_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_rng_state()
    monkeypatch.delattr(nn, "Flatten")  # the last layer
    with pytest.raises(AttributeError):
        small_cnn((1, 8, 8))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("temperature", [0.1, 0.5])
def test_cosine_logits_are_the_cosine_over_the_temperature(temperature: float) -> None:
    head = grown(CosineHead(seed=1, temperature=temperature), 4, 5)
    features = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    for row, logits in zip(features.double().tolist(), head(features).tolist(), strict=True):
        for weight, logit in zip(head.weight.double().tolist(), logits, strict=True):
            dot = sum(w * f for w, f in zip(weight, row, strict=True))
            assert logit == pytest.approx(dot / math.hypot(*weight) / math.hypot(*row) / temperature, abs=1e-5)


def test_the_temperature_of_the_head_is_a_tenth() -> None:
    head = grown(CosineHead(), 3, 5)
    assert head(head.weight.detach() * 7).diagonal().tolist() == pytest.approx([10.0] * 3, rel=1e-6)


def test_linear_logits_have_a_bias() -> None:
    head = grown(LinearHead(), 3, 5)
    assert isinstance(head, LinearHead)
    assert torch.equal(head(torch.zeros(2, 5)), head.bias.detach().expand(2, 3))
    step = head(torch.eye(5)) - head(torch.zeros(1, 5))
    assert torch.allclose(step, head.weight.T, atol=1e-6)


@pytest.mark.parametrize("kind", CLASSIFYING_HEADS)
def test_a_head_sized_in_advance_answers_for_the_classes_seen(kind: type[Head]) -> None:
    head = grown(kind(), seen=2, features=5, rows=6)
    features = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    assert head(features).shape == (3, 2)
    assert head(features, unseen=True).shape == (3, 6)
    assert torch.allclose(head(features, unseen=True)[:, :2], head(features), atol=1e-6)
    net = Net(nn.Flatten(), head)
    assert (net.seen, net.rows) == (2, 6)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("kind", CLASSIFYING_HEADS)
def test_growing_to_2000_classes_touches_no_old_row(kind: type[Head], optimizer: str) -> None:
    head, features = kind(), 4
    optimizer_ = OPTIMIZERS[optimizer](head)
    head.grow(1, 1, features, optimizer_)
    for seen in range(2, 2001):
        if seen % 100 == 2:
            learn(head, optimizer_, features)
        before = state(head, optimizer_)
        head.grow(seen, seen, features, optimizer_)
        after = state(head, optimizer_)
        assert before.keys() == after.keys() and len(before) > len(dict(head.named_parameters()))
        for name, old in before.items():
            new = after[name]
            assert len(new) == seen and torch.equal(new[:-1], old)
            assert "/" not in name or not new[-1].any()
    learn(head, optimizer_, features)
    assert head(torch.zeros(1, features)).shape == (1, 2000)


@pytest.mark.parametrize("kind", CLASSIFYING_HEADS)
def test_a_row_depends_on_the_seed_and_its_index_alone(kind: type[Head]) -> None:
    at_once, step_by_step, other = kind(seed=3), kind(seed=3), kind(seed=4)
    grown(at_once, 2, features=5, rows=9)
    grown(other, 9, features=5)
    for seen in (1, 4, 5, 9):
        grown(step_by_step, seen, features=5)
    for name, parameter in at_once.named_parameters():
        assert torch.equal(parameter, step_by_step.get_parameter(name))
        assert (parameter != other.get_parameter(name)).all()
        assert len(set(parameter.flatten().tolist())) == parameter.numel()
        assert parameter.abs().max() <= 1 / math.sqrt(5)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("kind", CLASSIFYING_HEADS)
def test_growth_can_be_undone(kind: type[Head], optimizer: str) -> None:
    head = kind()
    optimizer_ = OPTIMIZERS[optimizer](head)
    for seen in (0, 3):
        if seen:
            head.grow(seen, seen, 5, optimizer_)
            learn(head, optimizer_, 5)
        before = state(head, optimizer_)
        restore = head.restorer(optimizer_)
        head.grow(seen + 4, seen + 6, 5, optimizer_)
        restore()
        after = state(head, optimizer_)
        assert head.seen == seen
        assert before.keys() == after.keys()
        assert all(torch.equal(before[name], after[name]) for name in before)
    head.grow(5, 5, 5, optimizer_)
    learn(head, optimizer_, 5)


def test_bytes_are_scaled_and_numbers_are_not() -> None:
    net = Net(nn.Flatten(), LinearHead())
    x = torch.arange(256, dtype=torch.uint8).reshape(1, 1, 16, 16)
    before = x.clone()
    expected = np.arange(256) / 127.5 - 1
    assert net.features(x)[0].tolist() == pytest.approx(expected.tolist(), abs=1e-6)
    assert net.features(x)[0, [0, -1]].tolist() == [-1, 1]
    assert torch.equal(x, before)

    numbers = torch.tensor([[0.0, 5.0, -300.0]])
    assert net.features(numbers).tolist() == numbers.tolist() == [[0.0, 5.0, -300.0]]


def test_an_encoder_of_another_precision_is_given_its_own() -> None:
    net = Net(mlp((3,)).double(), LinearHead())
    assert net.features(torch.zeros(2, 3)).dtype == torch.float32
