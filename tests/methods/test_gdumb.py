import math
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from holdfast import Batch, Learner, Reservoir, mlp
from holdfast.errors import InputError
from holdfast.memory import ClassBalanced
from holdfast.methods import GDumb
from holdfast.methods.gdumb import share_of_lr
from holdfast.nets import Net
from holdfast.seeds import generator
from tests.methods.reference import cross_entropy, everything, learner_of, samples

LABELS = [[0, 1, 0, 1, 0], [2, 0, 2, 1, 2], [3, 3, 0, 3, 1]]


def taught(method: GDumb, memory: int = 11, encoder: nn.Module | None = None) -> Learner:
    learner = Learner(mlp((4,), width=6) if encoder is None else encoder, method, memory=memory)
    for step, y in enumerate(LABELS):
        learner.observe(samples(len(y), step), y)
    return learner


def test_observing_changes_no_weight() -> None:
    learner = Learner(
        nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6)),
        GDumb(),
        memory=11,
        optimizer=lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1),
    )
    learner.observe(samples(5, 0), LABELS[0])
    before = {name: tensor.clone() for name, tensor in learner.net.state_dict().items()}
    for step, y in enumerate(LABELS[1:]):
        learner.observe(samples(len(y), step), y)
    for name, tensor in learner.net.state_dict().items():
        assert torch.equal(tensor[:2] if name.startswith("head.") else tensor, before[name]), name
    assert learner.net.seen == 4 and len(learner.memory) == 11


def train_by_hand(learner: Learner, method: GDumb, lr: float) -> list[Tensor]:
    """SGD with momentum, weight decay and a bound on the gradient's norm, number by number, on the memory alone."""
    net, held = learner.net.frozen().requires_grad_(True), everything(learner)
    parameters = list(net.parameters())
    velocity = [torch.zeros_like(p) for p in parameters]
    rng = generator(learner.seed, "query", learner.step)
    shares = [0.1, 1.0, 1.0, 0.505, 1.0, 0.855017856687341]
    clipped = 0
    for turn in range(method.rounds):
        order = rng.permutation(len(held))
        for start in range(0, len(held), method.batch):
            rows = order[start : start + method.batch]
            loss = cross_entropy(net, Batch(held.x[rows], held.y[rows]))
            gradients = torch.autograd.grad(loss, parameters)
            norm = math.sqrt(sum(float(g.square().sum()) for g in gradients))
            clipped += norm > method.clip
            with torch.no_grad():
                for p, v, g in zip(parameters, velocity, gradients, strict=True):
                    push = g * min(1.0, method.clip / norm) + method.weight_decay * p
                    v.mul_(method.momentum).add_(push)
                    p.sub_(lr * shares[turn] * v)
    assert clipped > 0
    return [p.detach() for p in parameters]


def test_the_answering_net_is_trained_on_the_memory_alone() -> None:
    """Eleven samples in batches of four, six passes; the bound on the gradient's norm is met at times."""
    method = GDumb(rounds=6, batch=4, weight_decay=0.01, clip=0.8)
    learner = learner_of(method, memory=11, lr=0.3)
    for step, y in enumerate(LABELS):
        learner.observe(samples(len(y), step), y)
    expected = train_by_hand(learner, method, 0.3)
    answering = learner.answering_net()
    for p, e in zip(answering.parameters(), expected, strict=True):
        assert torch.allclose(p, e, atol=1e-5)
    pending = samples(20, 9).float()
    with torch.no_grad():
        assert learner.predict(pending) == [learner.classes[c] for c in answering(pending).argmax(1).tolist()]
    assert not answering.training


def test_what_is_held_is_learned() -> None:
    """Three samples for each of four classes, with fewer passes than usual."""
    learner = taught(GDumb(rounds=64), memory=12, encoder=mlp((4,), width=64))
    held = learner.memory.at(np.arange(12))
    assert learner.predict(held.x) == [learner.classes[c] for c in held.y.tolist()]


SHARES = {
    0: 0.1,
    1: 1.0,
    2: 1.0,
    3: 0.505,
    4: 1.0,
    7: 0.01 + 0.495 * (1 - math.sqrt(0.5)),
    255: 0.01 + 0.495 * (1 - math.cos(math.pi / 128)),
}


@pytest.mark.parametrize(("turn", "share"), SHARES.items())
def test_the_learning_rate_of_a_pass(turn: int, share: float) -> None:
    assert share_of_lr(turn) == pytest.approx(share, rel=1e-12)


def test_the_learning_rate_is_that_of_cosines_with_warm_restarts() -> None:
    sgd = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(sgd, T_0=1, T_mult=2, eta_min=0.01)
    for turn in range(1, 256):
        assert share_of_lr(turn) == pytest.approx(schedule.get_last_lr()[0], abs=1e-9)
        sgd.step()
        schedule.step()


def test_defaults_are_those_of_the_method() -> None:
    assert GDumb() == GDumb(query="end", rounds=256, batch=16, momentum=0.9, weight_decay=1e-6, clip=10.0)


def dropping() -> nn.Module:
    return nn.Sequential(mlp((4,), width=6), nn.Dropout(0.5))


def test_the_same_question_has_the_same_answer() -> None:
    """Asked twice, asked of another learner with the same past, and whatever torch's generator was up to."""
    pending, method = samples(20, 9), GDumb(rounds=5, batch=4)
    one, other = taught(method, encoder=dropping()), taught(method, encoder=dropping())
    first = one.predict_proba(pending)
    torch.manual_seed(99)
    state = torch.get_rng_state()
    assert np.array_equal(one.predict_proba(pending), first)
    assert np.array_equal(other.predict_proba(pending), first)
    assert torch.equal(torch.get_rng_state(), state)


def test_questions_change_nothing() -> None:
    method = GDumb(rounds=3)
    asked, calm = Learner(dropping(), method, memory=11), Learner(dropping(), method, memory=11)
    for step, y in enumerate(LABELS):
        for learner in (asked, calm):
            learner.observe(samples(len(y), step), y)
        asked.predict(samples(5, 9))
        assert asked.state_hash() == calm.state_hash()
    assert np.array_equal(asked.predict_proba(samples(5, 9)), calm.predict_proba(samples(5, 9)))


def test_a_net_is_trained_once_for_each_state_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[int] = []
    original = GDumb.loss

    def watched(self: GDumb, net: Net, new: Batch, old: Batch | None = None) -> Tensor:
        trained.append(len(new))
        return original(self, net, new, old)

    monkeypatch.setattr(GDumb, "loss", watched)
    learner = taught(GDumb(rounds=2, batch=100))
    for _ in range(3):
        learner.predict(samples(2, 9))
    assert trained == [11, 11]
    learner.observe(samples(2, 3), [0, 1])
    learner.predict(samples(2, 9))
    assert trained == [11] * 4


@pytest.mark.parametrize(("query", "anytime"), [("end", False), ("retrain", True)])
def test_only_with_retraining_it_answers_at_any_time(query: Literal["end", "retrain"], anytime: bool) -> None:
    assert GDumb(query=query).anytime is anytime


def test_its_memory_is_class_balanced() -> None:
    assert isinstance(taught(GDumb()).memory, ClassBalanced)
    with pytest.raises(InputError, match="ClassBalanced"):
        Learner(mlp((4,)), GDumb(), memory=Reservoir(10))


def test_without_room_for_samples_there_is_no_answer() -> None:
    with pytest.raises(InputError, match="memory"):
        taught(GDumb(), memory=0).predict(samples(1, 0))
