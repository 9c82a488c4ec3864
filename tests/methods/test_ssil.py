import math
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pytest
import torch
from torch import Tensor

from holdfast import Batch, Learner, mlp
from holdfast.batch import Task
from holdfast.learner.state import pack
from holdfast.methods import SSIL
from holdfast.nets import Net
from tests.methods.reference import (
    batch_of,
    below,
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

Distil = Literal[False, "rehearsal", "incoming+rehearsal"]
FORMS: tuple[Distil, ...] = (False, "rehearsal", "incoming+rehearsal")
STARTS = (0, 2, 3)  # tasks of classes (0, 1), (2) and, at present, (3, 4)


def softmax(logits: list[Tensor], temperature: float) -> list[Tensor]:
    powers = [(logit / temperature).exp() for logit in logits]
    return [power / (len(powers) * mean(powers)) for power in powers]


def expected_distillation(net: Net, teacher: Net, x: Tensor, starts: tuple[int, ...], temperature: float) -> Tensor:
    """Σ over earlier tasks of the mean over samples of Σ_c p_c log(p_c / q_c), p the teacher's."""
    with torch.no_grad():
        then = logits_of(teacher, x)
    now = logits_of(net, x)
    total = torch.zeros((), dtype=torch.float64)
    for start, stop in pairwise(starts):
        divergences = []
        for row_then, row_now in zip(then, now, strict=True):
            p, q = softmax(row_then[start:stop], temperature), softmax(row_now[start:stop], temperature)
            divergences.append(len(p) * mean(a * (a / b).log() for a, b in zip(p, q, strict=True)))
        total = total + mean(divergences)
    return total


def expected_loss(net: Net, new: Batch, old: Batch | None, distil: Distil, temperature: float = 2.0) -> Tensor:
    task = new.task
    assert task is not None
    loss = cross_entropy(net, new, {*range(task.start, net.seen), *new.y.tolist()})
    if old is not None:
        loss = loss + cross_entropy(net, old, range(task.start))
        if distil:
            assert task.teacher is not None
            x, factor = (old.x, 1.0) if distil == "rehearsal" else (torch.cat([new.x, old.x]), temperature**2)
            loss = loss + factor * expected_distillation(net, task.teacher, x, task.starts, temperature)
    return loss


@pytest.mark.parametrize("temperature", [2.0, 0.7], ids=["T = 2", "T = 0.7"])
@pytest.mark.parametrize("distil", FORMS)
@pytest.mark.parametrize("incoming", [[3, 4, 3], [4, 4], [4, 1, 3]], ids=["the task", "one class", "an earlier class"])
def test_loss_and_gradient_against_plain_loops(incoming: list[int], distil: Distil, temperature: float) -> None:
    net, old = net_of(5, seed=1), batch_of([0, 2, 1, 1], 1)
    teacher = net_of(3, seed=2).frozen() if distil else None
    new = batch_of(incoming, 0, Task(2, STARTS, teacher))
    method = SSIL(distil=distil, temperature=temperature)
    for replayed in (None, old):
        loss, expected = method.loss(net, new, replayed), expected_loss(net, new, replayed, distil, temperature)
        assert loss.item() == pytest.approx(expected.item(), abs=1e-9)
        assert torch.allclose(gradient(loss, net), gradient(expected, net), atol=1e-9)


def test_distillation_is_off_unless_asked_for_and_then_at_temperature_2() -> None:
    assert SSIL() == SSIL(distil=False, temperature=2.0)


def test_incoming_and_replayed_samples_do_not_touch_each_others_classes() -> None:
    new = batch_of([3, 4, 3], 0, Task(2, STARTS))
    touched = []
    for old in (None, batch_of([0, 2, 1, 1], 1)):
        net = net_of(5)
        SSIL().loss(net, new, old).backward()  # type: ignore[no-untyped-call]
        assert net.head.weight.grad is not None
        touched.append(net.head.weight.grad)
    assert touched[0].abs().sum(1).gt(0).tolist() == [False, False, False, True, True]
    assert (touched[1] - touched[0]).abs().sum(1).gt(0).tolist() == [True, True, True, False, False]


@pytest.mark.parametrize("distil", FORMS[1:])
def test_distillation_is_zero_for_the_teacher_itself_and_pulls_towards_it(distil: Distil) -> None:
    net, old = net_of(5, seed=1), batch_of([0, 2, 1, 1], 1)
    new = batch_of([3, 4, 3], 0, Task(2, STARTS, net.frozen()))
    plain = Batch(new.x, new.y, task=Task(2, STARTS))
    with_itself = SSIL(distil=distil).loss(net, new, old).item()
    assert with_itself == pytest.approx(SSIL().loss(net, plain, old).item(), abs=1e-12)
    other = Batch(new.x, new.y, task=Task(2, STARTS, net_of(3, seed=2).frozen()))
    assert SSIL(distil=distil).loss(net, other, old).item() > with_itself + 1e-3


@pytest.mark.parametrize("distil", FORMS)
def test_a_step_descends_the_loss(distil: Distil) -> None:
    """The memory holds no more than is replayed; of that, only samples of earlier tasks' classes."""
    learner = learner_of(SSIL(distil=distil, replay=12), memory=12, lr=0.2)
    task = Task(0, (0,))
    stream = [(0, [0, 1, 0]), (0, [1, 0, 0]), (1, [2, 3, 2]), (1, [3, 2, 4]), (2, [5, 6, 5]), (2, [5, 0, 6])]
    for step, (number, y) in enumerate(stream):
        if number != task.id:
            task = Task(number, (*task.starts, learner.net.seen), learner.net.frozen() if distil else None)
        earlier = below(everything(learner), task.start)
        net, new = grown(learner.net, len({*range(learner.net.seen), *y})), batch_of(y, step)
        new = Batch(new.x.float().double(), new.y, task=task)
        expected = weights(net) - 0.2 * gradient(expected_loss(net, new, earlier, distil), net)
        learner.observe(new.x, y, task=number)
        assert torch.allclose(weights(learner.net), expected, atol=1e-9)


@pytest.mark.parametrize("distil", FORMS)
def test_a_teacher_is_kept_only_for_distillation(distil: Distil) -> None:
    learner = learner_of(SSIL(distil=distil))
    learner.observe(samples(4, 0), [0, 1, 0, 1], task=0)
    at_switch = weights(learner.net)
    learner.observe(samples(4, 1), [2, 3, 2, 3], task=1)
    learner.observe(samples(4, 2), [2, 3, 2, 3], task=1)
    assert learner.task is not None
    teacher = learner.task.teacher
    assert (teacher is not None) == bool(distil)
    assert teacher is None or torch.equal(weights(teacher), at_switch)


@pytest.mark.parametrize("distil", FORMS)
def test_classes_and_tasks_that_come_back_keep_the_loss_finite(distil: Distil) -> None:
    learner = learner_of(SSIL(distil=distil))
    stream = [(0, [0, 1, 0]), (1, [2, 3, 2]), (1, [0, 2, 1]), (0, [0, 1, 1]), (0, [1, 4, 0]), (2, [0, 0, 0])]
    for step, (task, y) in enumerate(stream):
        learner.observe(samples(3, step), y, task=task)  # a loss that is not finite is an error
    assert learner.step == 6 and all(math.isfinite(p) for p in learner.predict_proba(samples(5, 9)).ravel())


def test_the_text_distils_on_replayed_samples_only() -> None:
    """The teacher's answers on incoming samples change nothing."""
    net, old = net_of(5, seed=1), batch_of([0, 2, 1, 1], 1)
    losses = []
    for seed in (2, 3):
        new = batch_of([3, 4, 3], seed, Task(2, STARTS, net_of(3, seed=2).frozen()))
        plain = Batch(new.x, new.y, task=Task(2, STARTS))
        losses.append((SSIL(distil="rehearsal").loss(net, new, old) - SSIL().loss(net, plain, old)).item())
    assert losses[0] == pytest.approx(losses[1], abs=1e-12) and losses[0] > 1e-3


def test_a_learner_from_before_it_had_two_forms_distils_on_both(tmp_path: Path) -> None:
    learner = learner_of(SSIL(distil="incoming+rehearsal"))
    assert pack(learner)[1]["method"]["options"]["distil"] is True  # as it was written then
    learner = Learner(mlp((4,)), SSIL(distil="incoming+rehearsal"))
    learner.save(tmp_path / "learner")
    assert Learner.load(tmp_path / "learner").method == SSIL(distil="incoming+rehearsal")
