"""The parts that `holdfast` adds to ER-ACE, against formulas in float64."""

import copy
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from holdfast import ERACE, Batch, Holdfast, Learner, mlp
from holdfast.errors import InputError
from holdfast.losses import balanced_cross_entropy
from holdfast.nets import CosineHead, Net
from tests.methods.reference import batch_of, everything, nearest, samples, weights

parts = partial(Holdfast, compete="batch", forward="apart")  # ER-ACE, and what is added to it

TAU = 0.1
Y = [[0, 1, 1, 0], [2, 2, 1, 2], [3, 0, 4, 4]]


def net_with(seen: int, rows: int) -> Net:
    net = Net(mlp((4,), width=6), CosineHead()).double()
    net.head.grow(seen, rows, 6)
    return net


def cosines(net: Net, x: Tensor) -> list[float]:
    """Of every row of the head, over τ, in plain Python floats."""
    f = net.features(x[None])[0].tolist()
    rows = net.head.weight.tolist()
    return [sum(a * b for a, b in zip(f, w, strict=True)) / math.hypot(*f) / math.hypot(*w) / TAU for w in rows]


def share_lost(net: Net, batch: Batch, weight: dict[int, float]) -> float:
    """-mean of log( n_y exp(l_y) / Σ_c n_c exp(l_c) ), n in `weight`."""
    total = 0.0
    for x, y in zip(batch.x, batch.y.tolist(), strict=True):
        logits = cosines(net, x)
        total -= math.log(weight[y] * math.exp(logits[y]) / sum(n * math.exp(logits[c]) for c, n in weight.items()))
    return total / len(batch)


@pytest.mark.parametrize("forward", ["apart", "joint"])
@pytest.mark.parametrize("rows", [7, 12])
def test_incoming_compete_with_the_spare_rows_and_replayed_with_the_seen_classes(rows: int, forward: str) -> None:
    net = net_with(seen=5, rows=rows)
    new, old = batch_of([3, 1, 3], 0), batch_of([0, 4, 1, 0], 1)
    method = parts(spare=2, forward=forward)  # type: ignore[arg-type]
    incoming = share_lost(net, new, dict.fromkeys([1, 3, 5, 6], 1))
    replayed = share_lost(net, old, dict.fromkeys(range(5), 1))
    assert method.loss(net, new).item() == pytest.approx(incoming, abs=1e-9)
    assert method.loss(net, new, old).item() == pytest.approx(incoming + replayed, abs=1e-9)


@pytest.mark.parametrize("forward", ["apart", "joint"])
def test_prior_all_compete_with_what_is_in_either_batch_by_its_number_of_samples(forward: str) -> None:
    net = net_with(seen=6, rows=9)
    new, old = batch_of([3, 1, 3], 0), batch_of([0, 4, 1, 0, 0], 1)
    method = parts(compete="prior", counts="drawn", forward=forward)  # type: ignore[arg-type]
    counts = {0: 3.0, 1: 2.0, 3: 2.0, 4: 1.0}
    expected = share_lost(net, new, counts) + share_lost(net, old, counts)
    assert method.loss(net, new, old).item() == pytest.approx(expected, abs=1e-9)
    assert method.loss(net, new).item() == pytest.approx(share_lost(net, new, {1: 1.0, 3: 2.0}), abs=1e-9)
    loss = method.loss(net, new, old)
    loss.backward()  # type: ignore[no-untyped-call]
    gradient = net.head.weight.grad
    assert gradient is not None and gradient.isfinite().all()
    assert not gradient[[2, 5, 6, 7, 8]].any() and gradient[[0, 1, 3, 4]].abs().sum(1).gt(0).all()


@pytest.mark.parametrize("forward", ["apart", "joint"])
def test_prior_all_classes_in_memory_compete_by_the_number_of_samples_expected_of_them(forward: str) -> None:
    """Also those of which none is drawn, against the formula in float64."""
    method = parts(compete="prior", forward=forward, replay=4)  # type: ignore[arg-type]
    learner = Learner(mlp((4,), width=6), method, memory=40, average=0)
    shown: list[Batch] = []
    learner.training.register_view_hook(shown.append)
    for step, y in enumerate([[0, 0, 1, 1], [1, 2, 2, 2], [3, 4, 4, 5], [6, 0, 6, 6]]):
        held, before = learner.memory.class_counts.tolist(), copy.deepcopy(learner.net)
        shown.clear()
        learner.observe(samples(4, step).float(), y)
    new, old = shown
    weight = {c: 4 * n / sum(held) for c, n in enumerate(held)}
    for label in new.y.tolist():
        weight[label] = weight.get(label, 0) + 1
    assert set(weight) > {*new.y.tolist(), *old.y.tolist()}
    before.head.grow(7, 7, 6)
    before = before.double()
    new, old = (replace(each, x=each.x.double()) for each in (new, old))
    assert method.loss(before, new, old).item() == pytest.approx(
        share_lost(before, new, weight) + share_lost(before, old, weight), abs=1e-6
    )


def test_balanced_cross_entropy_at_extreme_values() -> None:
    logits = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 0.0]], dtype=torch.float64, requires_grad=True)
    loss = balanced_cross_entropy(logits, torch.tensor([0, 0]), torch.tensor([10**6, 1, 0]))
    assert loss.item() == pytest.approx((0 + 2e4 - math.log(1e6)) / 2)
    loss.backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None and logits.grad.isfinite().all()


def test_with_no_part_added_it_is_er_ace_bit_for_bit() -> None:
    both = [Learner(mlp((4,), width=6), method, memory=10, lr=0.1) for method in (ERACE(), parts())]
    for step, y in enumerate(Y * 3):
        for learner in both:
            learner.observe(samples(4, step), y)
    assert torch.equal(weights(both[0].net), weights(both[1].net))


def test_a_new_class_takes_the_next_spare_row() -> None:
    learner = Learner(mlp((4,), width=6), parts(spare=3), memory=10)
    for step, y in enumerate(Y):
        rows = learner.net.head.weight.detach().clone()
        learner.observe(samples(4, step).float(), y)
        seen = len(learner.classes)
        assert learner.net.seen == seen and learner.net.rows == seen + 3
        fresh = CosineHead()
        fresh.grow(seen + 3, seen + 3, 6)
        assert not torch.equal(learner.net.head.weight[seen:], fresh.weight[seen:])  # they have learned to be others
        assert step == 0 or not torch.equal(rows, learner.net.head.weight[: len(rows)])
    assert learner.predict_proba(samples(3, 9).float()).shape == (3, 5)


def test_spare_rows_grow_without_touching_those_there_are() -> None:
    learner = Learner(mlp((4,), width=6), parts(spare=3), memory=10, optimizer=_momentum)
    for step, y in enumerate(Y):
        learner.observe(samples(4, step).float(), y)
    before = learner.net.head.weight.detach().clone()
    state = learner.optimizer.state[learner.net.head.weight]["momentum_buffer"].clone()
    learner.remember(samples(2, 7).float(), [8, 9])
    head, rows = learner.net.head.weight, len(before)
    assert torch.equal(head[:rows], before) and len(head) == rows + 2
    fresh = CosineHead()
    fresh.grow(rows + 2, rows + 2, 6)
    assert torch.equal(head[rows:], fresh.weight[rows:])
    buffer = learner.optimizer.state[head]["momentum_buffer"]
    assert torch.equal(buffer[:rows], state) and not buffer[rows:].any()


def _momentum(parameters: object) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)  # type: ignore[arg-type]


def test_a_head_sized_in_advance_learns_the_same_with_spare_rows() -> None:
    grown, sized = (Learner(mlp((4,), width=6), parts(spare=3), memory=10, classes=n) for n in (0, 30))
    for step, y in enumerate(Y * 2):
        for learner in (grown, sized):
            learner.observe(samples(4, step).float(), y)
    rows = grown.net.rows
    assert torch.allclose(grown.net.head.weight, sized.net.head.weight[:rows], atol=1e-5)


def test_joint_batchnorm_sees_both_batches_as_one() -> None:
    torch.manual_seed(0)
    net = Net(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6)), CosineHead()).double().train()
    net.head.grow(3, 3, 6)
    new, old = batch_of([2, 1], 0), batch_of([0, 0, 1], 1)
    joint, twin = copy.deepcopy(net), copy.deepcopy(net)
    loss = parts(forward="joint").loss(joint, new, old)
    logits = twin(torch.cat([new.x, old.x]))
    expected = (
        -logits[:2, 1:].log_softmax(1)[[0, 1], [1, 0]].mean() - logits[2:].log_softmax(1)[[0, 1, 2], old.y].mean()
    )
    assert loss.item() == pytest.approx(expected.item(), abs=1e-9)
    assert int(joint.get_buffer("encoder.module.1.num_batches_tracked")) == 1
    assert torch.equal(
        joint.get_buffer("encoder.module.1.running_mean"), twin.get_buffer("encoder.module.1.running_mean")
    )
    assert loss.item() != pytest.approx(parts().loss(net, new, old).item(), abs=1e-3)


def test_running_statistics_of_replayed_samples_alone() -> None:
    torch.manual_seed(0)
    net = Net(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6)), CosineHead()).double().train()
    net.head.grow(3, 3, 6)
    new, old = batch_of([2, 1], 0), batch_of([0, 0, 1], 1)
    replayed, first, plain = (copy.deepcopy(net) for _ in range(3))
    loss = parts(forward="replay-statistics").loss(replayed, new, old)
    assert loss.item() == parts().loss(plain, new, old).item()
    x = old.x @ net.get_parameter("encoder.module.0.weight").T + net.get_parameter("encoder.module.0.bias")
    mean, variance = 0.1 * x.mean(0), 0.9 + 0.1 * x.var(0)
    assert torch.allclose(replayed.get_buffer("encoder.module.1.running_mean"), mean, atol=1e-12)
    assert torch.allclose(replayed.get_buffer("encoder.module.1.running_var"), variance, atol=1e-12)
    parts(forward="replay-statistics").loss(first, new)  # nothing to replay yet
    assert first.get_buffer("encoder.module.1.running_mean").any()
    assert replayed.get_submodule("encoder.module.1").momentum == 0.1


def test_class_means_answer_and_the_net_learns_the_same() -> None:
    by_net, by_means = (Learner(mlp((4,), width=12), parts(answer=a), memory=30, average=0) for a in ("net", "means"))
    for step in range(8):
        y = np.random.default_rng(step).integers(0, 5, 10).tolist()
        for learner in (by_net, by_means):
            learner.observe(3 * samples(10, step), y)
    pending = 3 * samples(60, 99).float().double()
    right = nearest(by_means.net, everything(by_means), pending)
    assert by_means.predict(pending) == [by_means.classes[c] for c in right] != by_net.predict(pending)
    assert torch.equal(weights(by_net.net), weights(by_means.net))
    with pytest.raises(InputError, match="cosine head"):
        by_means.similarity(pending)
    assert np.abs(by_net.similarity(pending)).max() <= 1 + 1e-6


def test_replayed_samples_keep_the_answers_of_the_average() -> None:
    """The gradient of one step is that of the loss and of KL(average ‖ net) on the replayed samples."""
    learner = Learner(mlp((4,), width=6), parts(distil=2.0), memory=30, average=0.9, lr=0.1)
    for step in range(6):
        learner.observe(samples(8, step).float(), [0, 1, 2, 3] * 2)
    net, average = copy.deepcopy(learner.net).double(), copy.deepcopy(learner.answering_net()).double()
    replayed: list[Batch] = []
    learner.training.register_view_hook(replayed.append)
    learner.observe(samples(8, 9).float(), [0, 1, 2, 3] * 2)
    new, old = (Batch(each.x.double(), each.y) for each in replayed)
    answers = average(old.x).softmax(1)
    assert not torch.allclose(answers, net(old.x).softmax(1), atol=1e-3)
    kept = (answers * (answers.log() - net(old.x).log_softmax(1))).sum(1).mean()
    (parts().loss(net, new, old) + 2 * kept).backward()
    for then, now in zip(net.parameters(), learner.net.parameters(), strict=True):
        assert then.grad is not None and torch.allclose(then - 0.1 * then.grad, now.double(), atol=1e-5)


def test_what_is_learned_from_the_average_needs_one() -> None:
    with pytest.raises(InputError, match="average must be above 0"):
        Learner(mlp((4,)), Holdfast(distil=1.0), average=0)
    without = Learner(mlp((4,)), Holdfast(), average=0)
    with pytest.raises(InputError, match="average must be above 0"):
        without.change(method=Holdfast(distil=1.0))
    assert without.method == Holdfast()
    averaged = Learner(mlp((4,)), Holdfast())
    averaged.change(method="holdfast:distil=1")
    assert averaged.method == Holdfast(distil=1.0)


def test_parts_that_exclude_each_other() -> None:
    with pytest.raises(InputError, match="spare must be 0"):
        parts(compete="prior", spare=2)


@pytest.mark.slow
@pytest.mark.parametrize("augmented", ["all", "share"])
@pytest.mark.parametrize("capacity", [20, 100, 10_000])
def test_samples_are_augmented_as_often_as_the_memory_has_let_one_go(augmented: str, capacity: int) -> None:
    learner = Learner(
        mlp((4,)),
        Holdfast(augmented=augmented),  # type: ignore[arg-type]
        memory=capacity,
        augment=lambda x, rng: x + 1000,
    )
    shown: list[list[bool]] = []
    learner.training.register_view_hook(lambda batch: shown[-1].extend((batch.x > 500).all(1).tolist()))
    expected, variance = 0.0, 0.0
    rng = np.random.default_rng(0)
    learner.clip_samples = math.inf
    for step in range(100):
        share = 1 - len(learner.memory) / max(1, learner.memory.offered) if augmented == "share" else 1.0
        shown.append([])
        learner.observe(rng.normal(size=(10, 4)).astype(np.float32), (np.arange(10) + step) % 3)
        expected += share * len(shown[-1])
        variance += share * (1 - share) * len(shown[-1])
    assert len(shown[0]) == 10 and all(len(each) == 20 for each in shown[1:])
    assert abs(sum(map(sum, shown)) - expected) <= 4 * math.sqrt(variance)
