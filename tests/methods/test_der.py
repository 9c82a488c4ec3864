import copy
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from holdfast import Batch, Learner, Reservoir, mlp
from holdfast.memory.class_index import ClassIndex
from holdfast.methods import DER, DERPlusPlus, DERPlusPlusACE
from holdfast.nets import Net
from tests.methods.reference import (
    batch_of,
    cross_entropy,
    everything,
    gradient,
    grown,
    learner_of,
    logits_of,
    mean,
    net_of,
    samples,
    weights,
)

METHODS = [DER(alpha=0.3), DERPlusPlus(alpha=0.3, beta=0.6), DERPlusPlusACE(alpha=0.3, beta=0.6)]
every_method = pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)


def mean_squared_error(net: Net, batch: Batch) -> Tensor:
    """Mean over samples and seen classes of (logit now - logit then)², where a class unknown then had 0."""
    squares = []
    for now, then in zip(logits_of(net, batch.x), batch.extra["logits"], strict=True):
        squares += [(logit - (then[c] if c < len(then) else 0)) ** 2 for c, logit in enumerate(now)]
    return mean(squares)


def expected_loss(method: DER, net: Net, new: Batch, old: Batch | None, second: Batch | None) -> Tensor:
    loss = cross_entropy(net, new, new.y.tolist() if isinstance(method, DERPlusPlusACE) else None)
    if old is not None:
        loss = loss + method.alpha * mean_squared_error(net, old)
    if second is not None and isinstance(method, DERPlusPlus):
        loss = loss + method.beta * cross_entropy(net, second)
    return loss


@every_method
@pytest.mark.parametrize("width", [2, 5, 8], ids="logits of {} classes stored".format)
def test_loss_and_gradient_against_plain_loops(method: DER, width: int) -> None:
    """Five classes are seen; the memory keeps the logits of fewer (samples came early) or has room for more."""
    net, new, second = net_of(5), batch_of([3, 1, 3], 0), batch_of([4, 4, 1, 0, 2], 2)
    stored = 3 * torch.tensor(np.random.default_rng(9).standard_normal((4, width)))
    stored[:, 5:] = 0
    old = Batch(samples(4, 1), torch.tensor([0, 4, 1, 0]), {"logits": stored})
    recalled = {"old": old, "second": second} if isinstance(method, DERPlusPlus) else {"old": old}
    loss, extra = method.loss(net, new, **recalled)
    expected = expected_loss(method, net, new, old, second)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-9)
    assert torch.allclose(gradient(loss, net), gradient(expected, net), atol=1e-9)
    assert torch.allclose(extra["logits"], torch.stack([torch.stack(row) for row in logits_of(net, new.x)]), atol=1e-9)
    assert not extra["logits"].requires_grad


@every_method
def test_a_step_descends_the_loss_with_the_logits_the_samples_had(method: DER) -> None:
    """The memory holds no more than is replayed, so it is known what is drawn."""
    learner = learner_of(method, memory=8, lr=0.2)
    for step, y in enumerate([[0, 1, 0], [1, 2, 2], [3, 0, 3]]):
        held = everything(learner) if step else None
        net, new = grown(learner.net, len({*range(learner.net.seen), *y})), batch_of(y, step)
        new = Batch(new.x.float().double(), new.y)  # samples are kept in float32
        expected = weights(net) - 0.2 * gradient(expected_loss(method, net, new, held, held), net)
        learner.observe(new.x, y)
        assert torch.allclose(weights(learner.net), expected, atol=1e-9)


@pytest.mark.parametrize("sign", [1, -1], ids=["as it is", "augmented"])
def test_stored_logits_are_those_of_the_step_before_its_update(sign: int) -> None:
    """Of the augmented view, if there is augmentation; the sample itself is kept as it came."""
    expected: list[Tensor] = []
    x = torch.zeros(0)

    class Watched(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            with torch.no_grad():
                expected.append(learner.net(sign * x))
            super().step()

    encoder = mlp((4,), width=6)
    learner = Learner(
        encoder, DER(), memory=100, optimizer=lambda p: Watched(p, lr=0.5), augment=lambda x, rng: sign * x
    )
    for step, y in enumerate([[0, 1], [1, 2], [3, 4, 0]]):
        x = samples(len(y), step).float()
        learner.observe(x, y)
        assert not torch.allclose(learner.net(sign * x)[:, : expected[-1].shape[1]], expected[-1], atol=1e-3)
    held = everything(learner)
    assert torch.equal(held.x.float(), torch.cat([samples(n, i).float() for i, n in enumerate([2, 2, 3])]))
    assert [rows.shape[1] for rows in expected] == [2, 3, 5]
    for row, then in zip(held.extra["logits"], [row for rows in expected for row in rows], strict=True):
        assert torch.allclose(row[: len(then)], then, atol=1e-6)
        assert not row[len(then) :].any()


def numbered(n: int) -> Reservoir:
    memory = Reservoir(100)
    x = torch.arange(n, dtype=torch.float32)[:, None].expand(n, 4)
    memory.add(Batch(x, torch.zeros(n, dtype=torch.int64), {"logits": torch.zeros(n, 1)}), np.random.default_rng(0))
    return memory


def test_der_plus_plus_draws_twice_and_the_draws_know_nothing_of_each_other() -> None:
    memory, net, new = numbered(5), net_of(2), batch_of([1], 0)
    pairs: Counter[tuple[int, int]] = Counter()
    for seed in range(3000):
        drawn = DERPlusPlus(replay=1).recall(net, new, memory, np.random.default_rng(seed))
        pairs[int(drawn["old"].x[0, 0]), int(drawn["second"].x[0, 0])] += 1
    assert stats.chisquare([pairs[i, j] for i in range(5) for j in range(5)]).pvalue > 1e-3


def test_each_draw_has_the_size_of_the_replay_batch() -> None:
    memory, net, new = numbered(50), net_of(2), batch_of([1], 0)
    drawn = DERPlusPlus(replay=20).recall(net, new, memory, np.random.default_rng(0))
    assert {name: len(set(batch.x[:, 0].tolist())) for name, batch in drawn.items()} == {"old": 20, "second": 20}
    assert {*DER(replay=20).recall(net, new, memory, np.random.default_rng(0))} == {"old"}
    assert not DERPlusPlus().recall(net, new, Reservoir(5), np.random.default_rng(0))


@pytest.mark.parametrize("ace", [False, True], ids=["DER++", "DER++-ACE"])
def test_only_with_ace_old_classes_feel_nothing_of_the_incoming_batch(ace: bool) -> None:
    net = net_of(5)
    loss, _ = (DERPlusPlusACE() if ace else DERPlusPlus()).loss(net, batch_of([2, 4, 2, 4], 0))
    loss.backward()  # type: ignore[no-untyped-call]
    felt = net.head.weight.grad
    assert felt is not None
    assert felt.abs().sum(1).gt(0).tolist() == [not ace, not ace, True, not ace, True]


@pytest.mark.parametrize("good_calls", [0, 1], ids=["making room", "writing"])
def test_a_step_that_fails_takes_wider_logits_back(good_calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight logits instead of two: with this budget of bytes, two of the seven samples have to go."""
    learner = Learner(mlp((4,), width=6), DERPlusPlus(), memory=Reservoir(nbytes=450))
    learner.observe(samples(8, 0), [0, 1] * 4)
    calm, before = copy.deepcopy(learner), learner.state_hash()
    calls, add = iter(range(10)), ClassIndex.add

    def failing(self: ClassIndex, *args: Any) -> None:
        add(self, *args)
        if next(calls) == good_calls:
            raise OSError("injected")

    with monkeypatch.context() as patch:
        patch.setattr(ClassIndex, "add", failing)
        with pytest.raises(OSError, match="injected"):
            learner.observe(samples(6, 1), [2, 3, 4, 5, 6, 7])
    assert learner.state_hash() == before and learner.memory.capacity == 7
    for one in (learner, calm):
        one.observe(samples(6, 1), [2, 3, 4, 5, 6, 7])
    assert learner.state_hash() == calm.state_hash() and learner.memory.capacity == 5
