import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from holdfast import Batch, Reservoir
from holdfast.methods import AGEM, StepContext
from holdfast.methods.agem import project
from holdfast.nets import Net
from tests.methods.reference import (
    batch_of,
    cross_entropy,
    everything,
    gradient,
    gradient_left,
    grown,
    learner_of,
    net_of,
    weights,
)

Flat = NDArray[np.float64]
SHAPES = [(3, 4), (3,), (2, 3)]


def projected(g: Flat, r: Flat) -> Flat:
    """g - (g·r / r·r) r where g·r < 0, number by number."""
    along = sum(float(a) * float(b) for a, b in zip(g, r, strict=True))
    if along >= 0:
        return g
    share = along / sum(float(b) ** 2 for b in r)
    return np.array([float(a) - share * float(b) for a, b in zip(g, r, strict=True)])


def split(flat: Flat) -> list[torch.Tensor]:
    sizes = [int(np.prod(shape)) for shape in SHAPES]
    parts = np.split(flat, np.cumsum(sizes)[:-1])
    return [torch.tensor(part.reshape(shape)) for part, shape in zip(parts, SHAPES, strict=True)]


def after_projection(g: Flat, r: Flat) -> Flat:
    parameters = [nn.Parameter(torch.zeros(shape, dtype=torch.float64)) for shape in SHAPES]
    for parameter, part in zip(parameters, split(g), strict=True):
        parameter.grad = part
    project(parameters, tuple(split(r)))
    return np.concatenate([p.grad.numpy().ravel() for p in parameters if p.grad is not None])


@pytest.mark.parametrize("seed", range(20))
def test_the_projection_is_that_of_all_parameters_together(seed: int) -> None:
    rng = np.random.default_rng(seed)
    g, r = rng.standard_normal(21), 5 * rng.standard_normal(21)
    if seed % 2:
        r *= -np.sign(g @ r)  # against each other
    left = after_projection(g, r)
    assert np.allclose(left, projected(g, r), atol=1e-12)
    if g @ r < 0:
        assert left @ r == pytest.approx(0, abs=1e-9)
        assert left @ g > 0  # still downhill
    else:
        assert np.array_equal(left, g)


def test_parts_that_disagree_do_not_matter_while_the_whole_agrees() -> None:
    """One parameter's gradient opposes the reference, all of them together do not."""
    g = np.concatenate([np.full(12, 1.0), np.full(9, -1.0)])
    assert np.array_equal(after_projection(g, np.ones(21)), g)
    assert np.allclose(after_projection(-g, np.ones(21)), -g + 3 / 21)


@pytest.mark.parametrize("g", [np.ones(21), np.zeros(21)], ids=["no reference", "no gradient"])
def test_nothing_to_project_on_changes_nothing(g: Flat) -> None:
    assert np.array_equal(after_projection(g, 1 - g), g)


def learned(net: Net, new: Batch, memory: Reservoir) -> tuple[torch.Tensor, float]:
    """The gradient that a step leaves, and its loss."""
    loss, _ = AGEM().learn(new, StepContext(net, memory, np.random.default_rng(0), 0.1, lambda _, batch: batch))
    return gradient_left(net), loss.item()


def memory_of(stored: Batch) -> Reservoir:
    memory = Reservoir(10)
    memory.add(stored, np.random.default_rng(0))
    return memory


def test_a_step_against_the_memory_is_projected() -> None:
    """The memory holds the incoming samples under other labels: learning the one is forgetting the other."""
    net, new = net_of(3), batch_of([0, 1, 2, 0], 0)
    stored = Batch(new.x, (new.y + 1) % 3)
    incoming = cross_entropy(net, new)
    g, r = (part.numpy() for part in (gradient(incoming, net), gradient(cross_entropy(net, stored), net)))
    assert g @ r < -0.01
    left, loss = learned(net, new, memory_of(stored))
    assert np.allclose(left.numpy(), projected(g, r), atol=1e-9)
    assert left.numpy() @ r == pytest.approx(0, abs=1e-9)
    assert loss == pytest.approx(incoming.item(), abs=1e-9)


def test_a_step_with_the_memory_is_left_as_it_is() -> None:
    net, new = net_of(3), batch_of([0, 1, 2, 0], 0)
    plain = cross_entropy(net, new)
    left, loss = learned(net, new, memory_of(Batch(new.x + 0.01, new.y)))
    assert torch.allclose(left, gradient(plain, net), atol=1e-12)
    assert loss == pytest.approx(plain.item(), abs=1e-9)


def test_without_memory_it_is_the_gradient_of_the_incoming_batch() -> None:
    net, new = net_of(3), batch_of([0, 1, 2, 0], 0)
    left, _ = learned(net, new, Reservoir(10))
    assert torch.allclose(left, gradient(cross_entropy(net, new), net), atol=1e-12)


def test_a_learner_descends_the_projected_gradient() -> None:
    """The memory holds no more than is drawn. Classes that come one after the other oppose each other."""
    learner, opposed = learner_of(AGEM(replay=8), memory=8, lr=0.05), 0
    for step, y in enumerate([[0, 0, 1], [2, 2, 2], [3, 3, 3], [0, 0, 0], [4, 4, 4], [1, 1, 2]]):
        held = everything(learner) if step else None
        net, new = grown(learner.net, len({*range(learner.net.seen), *y})), batch_of(y, step)
        new = Batch(new.x.float().double(), new.y)
        g = gradient(cross_entropy(net, new), net).numpy()
        if held is not None:
            r = gradient(cross_entropy(net, held), net).numpy()
            opposed += g @ r < 0
            g = projected(g, r)
        learner.observe(new.x, y)
        assert np.allclose(weights(learner.net).numpy(), weights(net).numpy() - 0.05 * g, atol=1e-9)
    assert 0 < opposed < 5
