import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from holdfast import Batch, FineTuning, Learner, Reservoir
from holdfast.batch import Task
from holdfast.methods import MIR, StepContext
from holdfast.nets import LinearHead, Net
from tests.methods.reference import (
    batch_of,
    cross_entropy,
    everything,
    gradient,
    gradient_left,
    grown,
    learner_of,
    net_of,
    samples,
    weights,
)

LATER = Task(1, (0, 3))  # classes 0, 1, 2 are those of an earlier task
STORED = [0, 1, 2, 3, 4] * 4  # classes 3 and 4 are those of the present one


def memory_of(stored: Batch) -> Reservoir:
    memory = Reservoir(100)
    memory.add(stored, np.random.default_rng(0))
    return memory


def moment(net: Net, memory: Reservoir, lr: float, seed: int = 0) -> StepContext:
    return StepContext(net, memory, np.random.default_rng(seed), lr, lambda _, batch: batch)


def forwarded(net: Net) -> list[tuple[Tensor, bool]]:
    """Every batch that goes through the net from now on, and whether anything is learned from it."""
    seen: list[tuple[Tensor, bool]] = []

    def note(_: nn.Module, args: tuple[Tensor, ...]) -> None:
        seen.append((args[0].detach().clone(), torch.is_grad_enabled()))

    net.register_forward_pre_hook(note)
    return seen


def rows(x: Tensor) -> set[tuple[float, ...]]:
    return {tuple(row) for row in x.tolist()}


def by_harm(net: Net, new: Batch, stored: Batch, lr: float) -> list[int]:
    """Samples of earlier classes, those first whose loss an SGD step of a copy on the incoming batch raises most."""
    after = copy.deepcopy(net)
    sgd = torch.optim.SGD(after.parameters(), lr=lr)
    cross_entropy(after, new).backward()  # type: ignore[no-untyped-call]
    sgd.step()

    def rise(i: int) -> float:
        one = Batch(stored.x[i : i + 1], stored.y[i : i + 1])
        return float((cross_entropy(after, one) - cross_entropy(net, one)).detach())

    return sorted((i for i, y in enumerate(stored.y.tolist()) if y < 3), key=rise, reverse=True)


@pytest.mark.parametrize("lr", [0.01, 3.0])
@pytest.mark.parametrize("seed", range(4))
def test_exactly_the_most_harmed_samples_are_replayed(seed: int, lr: float) -> None:
    net, new, stored = net_of(5, seed=seed), batch_of([3, 4, 4, 3], seed, LATER), batch_of(STORED, 100 + seed)
    harmed = by_harm(net, new, stored, lr)[:5]
    chosen = Batch(stored.x[harmed], stored.y[harmed])
    expected = cross_entropy(net, new) + cross_entropy(net, chosen)

    through = forwarded(net)
    loss, extra = MIR(replay=5).learn(new, moment(net, memory_of(stored), lr))
    learned_from = [x for x, learned in through if learned]
    assert [rows(x) for x in learned_from] == [rows(new.x), rows(chosen.x)]
    assert loss.item() == pytest.approx(expected.item(), abs=1e-9)
    assert torch.allclose(gradient_left(net), gradient(expected, net), atol=1e-9)
    assert not extra


def test_what_is_most_harmed_depends_on_the_size_of_the_step() -> None:
    """So that the test above would notice another learning rate in the virtual step."""
    nets = [(net_of(5, seed=seed), batch_of([3, 4, 4, 3], seed), batch_of(STORED, 100 + seed)) for seed in range(4)]
    choices = [[set(by_harm(*case, lr)[:5]) for case in nets] for lr in (0.01, 3.0)]
    assert all(small != large for small, large in zip(*choices, strict=True))


@pytest.mark.parametrize("lr", [0.01, 3.0])
def test_the_virtual_step_is_as_large_as_the_learners(lr: float) -> None:
    learner = learner_of(MIR(replay=4), memory=20)
    learner.observe(samples(12, 0), [0, 1, 2] * 4, task=0)
    learner.optimizer.param_groups[0]["lr"] = lr
    net, stored, x = grown(learner.net, 5), everything(learner), samples(4, 1).float().double()
    harmed = by_harm(net, Batch(x, torch.tensor([3, 4, 4, 3])), stored, lr)[:4]
    assert harmed != by_harm(net, Batch(x, torch.tensor([3, 4, 4, 3])), stored, 3.01 - lr)[:4]
    through = forwarded(learner.net)
    learner.observe(x, [3, 4, 4, 3], task=1)
    assert rows(through[-1][0].double()) == rows(stored.x[harmed])


def test_only_so_many_candidates_are_looked_at() -> None:
    net, stored = net_of(5), batch_of(STORED, 1)
    through = forwarded(net)
    MIR(candidates=7, replay=3).learn(batch_of([3, 4], 0, LATER), moment(net, memory_of(stored), 0.1))
    assert [(len(x), learned) for x, learned in through] == [(2, True), (7, False), (7, False), (3, True)]
    assert rows(through[1][0]) == rows(through[2][0]) > rows(through[3][0])


def test_candidates_are_a_random_choice() -> None:
    stored = batch_of(STORED, 1)
    met: set[tuple[float, ...]] = set()
    for seed in range(30):
        net = net_of(5)
        through = forwarded(net)
        MIR(candidates=4, replay=1).learn(batch_of([3, 4], 0, LATER), moment(net, memory_of(stored), 0.1, seed))
        met |= rows(through[1][0])
    assert met == rows(stored.x[stored.y < 3])


def test_all_there_is_when_the_memory_has_less_than_is_replayed() -> None:
    net, new, stored = net_of(5), batch_of([3, 4], 0, LATER), batch_of([0, 2, 1], 1)
    expected = cross_entropy(net, new) + cross_entropy(net, stored)
    loss, _ = MIR(replay=10).learn(new, moment(net, memory_of(stored), 0.1))
    assert loss.item() == pytest.approx(expected.item(), abs=1e-9)


def normalising_net() -> Net:
    torch.manual_seed(0)
    net = Net(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU()), LinearHead()).double()
    net.head.grow(5, 5, 6, torch.optim.SGD(net.parameters(), lr=0.1))
    return net.train()


def test_looking_at_candidates_leaves_the_statistics_of_batch_norm_alone() -> None:
    """They are those of two forwards, of the incoming and of the replayed batch."""
    net, new, stored = normalising_net(), batch_of([3, 4, 4], 0, LATER), batch_of(STORED, 1)
    twin = copy.deepcopy(net)
    through = forwarded(net)
    MIR(replay=4).learn(new, moment(net, memory_of(stored), 0.1))
    assert len(through) == 4
    twin(new.x)
    twin(through[-1][0])
    for name, buffer in net.named_buffers():
        assert torch.equal(buffer, twin.get_buffer(name)), name


def test_in_the_first_task_nothing_is_replayed() -> None:
    """So it is fine-tuning, bit for bit, although the memory holds samples."""
    mir, plain = learner_of(MIR(), memory=50), learner_of(FineTuning(), memory=50)
    for step in range(5):
        mir.observe(samples(4, step), [0, 1, step % 2, 2], task=7)
        plain.observe(samples(4, step), [0, 1, step % 2, 2])
    assert len(mir.memory) == 20
    assert torch.equal(weights(mir.net), weights(plain.net))


def marked(y: list[int], seed: int) -> Tensor:
    """Samples whose first number is their class."""
    x = samples(len(y), seed)
    x[:, 0] = torch.tensor(y)
    return x


def classes_beside(learner: Learner, y: list[int], seed: int, task: int) -> list[set[float]]:
    """The classes in each batch that goes through the net in a step, beside the incoming one."""
    through = forwarded(learner.net)
    learner.observe(marked(y, seed), y, task=task)
    return [set(x[:, 0].tolist()) for x, _ in through[1:]]


def test_classes_of_the_present_task_are_never_replayed() -> None:
    learner = learner_of(MIR(replay=30), memory=60)
    for step in range(4):
        assert classes_beside(learner, [0, 1, 0, 1], step, task=0) == []
    for step in range(4, 8):
        assert classes_beside(learner, [2, 3, 2, 3], step, task=1) == [{0, 1}] * 3
    for step in range(8, 12):
        assert classes_beside(learner, [4, 5, 4, 5], step, task=2) == [{0, 1, 2, 3}] * 3


def test_nothing_to_replay_is_no_error() -> None:
    learner = learner_of(MIR(replay=0))
    learner.observe(samples(4, 0), [0, 1, 0, 1], task=0)
    learner.observe(samples(4, 1), [2, 3, 2, 3], task=1)
    assert learner.classes == [0, 1, 2, 3]
