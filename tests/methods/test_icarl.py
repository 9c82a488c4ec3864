import copy
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from holdfast import Batch, Learner, mlp
from holdfast.batch import Task
from holdfast.errors import InputError
from holdfast.methods import ICaRL
from holdfast.nets import Net
from tests.methods.reference import (
    batch_of,
    below,
    everything,
    gradient,
    grown,
    learner_of,
    logits_of,
    mean,
    nearest,
    net_of,
    samples,
    weights,
)


def sigmoid(logit: Tensor) -> Tensor:
    return 1 / (1 + (-logit).exp())


def yes_or_no(net: Net, x: Tensor, targets: list[list[float]]) -> Tensor:
    """-mean over samples of Σ_c t_c log σ(l_c) + (1 - t_c) log(1 - σ(l_c))"""
    losses = []
    for row, target in zip(logits_of(net, x), targets, strict=True):
        shares = [(sigmoid(logit), t) for logit, t in zip(row, target, strict=True)]
        terms = [t * share.log() + (1 - t) * (1 - share).log() for share, t in shares]
        losses.append(-len(terms) * mean(terms))
    return mean(losses)


def expected_loss(net: Net, new: Batch, old: Batch | None = None, teacher: Net | None = None) -> Tensor:
    loss = yes_or_no(net, new.x, [[float(c == y) for c in range(net.seen)] for y in new.y.tolist()])
    if old is None or teacher is None:
        return loss
    with torch.no_grad():
        answers = [[float(sigmoid(logit)) for logit in row] for row in logits_of(teacher, old.x)]
    return loss + yes_or_no(net, old.x, [row + [0.0] * (net.seen - len(row)) for row in answers])


@pytest.mark.parametrize("known", [2, 3, 5], ids="the teacher knows {} of 5 classes".format)
def test_loss_and_gradient_against_plain_loops(known: int) -> None:
    net, teacher, old = net_of(5, seed=1), net_of(known, seed=2).frozen(), batch_of([0, 1, 1, 0], 1)
    new = batch_of([3, 4, 3], 0, Task(1, (0, known), teacher))
    alone, both = expected_loss(net, new), expected_loss(net, new, old, teacher)
    for loss, expected in ((ICaRL().loss(net, new), alone), (ICaRL().loss(net, new, old), both)):
        assert loss.item() == pytest.approx(expected.item(), abs=1e-6)
        assert torch.allclose(gradient(loss, net), gradient(expected, net), atol=1e-9)


def test_without_distillation_replayed_samples_have_their_labels() -> None:
    net, old, new = net_of(5, seed=1), batch_of([0, 1, 1, 2], 1), batch_of([3, 4, 3], 0, Task(1, (0, 3)))
    loss = ICaRL(distil=False).loss(net, new, old)
    expected = expected_loss(net, new) + expected_loss(net, old)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-6)
    assert torch.allclose(gradient(loss, net), gradient(expected, net), atol=1e-9)


def test_without_distillation_there_is_no_teacher() -> None:
    learner = learner_of(ICaRL(distil=False))
    learner.observe(samples(4, 0), [0, 1, 0, 1], task=0)
    learner.observe(samples(4, 1), [2, 3, 2, 3], task=1)
    assert learner.task is not None and learner.task.start == 2 and learner.task.teacher is None


def test_the_loss_is_a_sum_over_classes_and_a_mean_over_samples() -> None:
    net = net_of(5)
    with torch.no_grad():
        for parameter in net.head.parameters():
            parameter.zero_()
    assert ICaRL().loss(net, batch_of([0, 3, 3, 1], 0)).item() == pytest.approx(5 * np.log(2), abs=1e-6)


def test_a_step_descends_the_loss_towards_the_net_of_the_last_switch() -> None:
    """The memory holds no more than is replayed; of that, only samples of earlier tasks' classes."""
    learner, teacher, start = learner_of(ICaRL(replay=12), memory=12, lr=0.2), None, 0
    stream = [(0, [0, 1, 0]), (0, [1, 0, 0]), (1, [2, 3, 2]), (1, [3, 2, 4]), (2, [5, 5, 5]), (2, [5, 0, 5])]
    for step, (task, y) in enumerate(stream):
        if learner.task is not None and learner.task.id != task:
            teacher, start = copy.deepcopy(learner.net), learner.net.seen
        earlier = below(everything(learner), start)
        net, new = grown(learner.net, len({*range(learner.net.seen), *y})), batch_of(y, step)
        new = Batch(new.x.float().double(), new.y)
        expected = weights(net) - 0.2 * gradient(expected_loss(net, new, earlier, teacher), net)
        learner.observe(new.x, y, task=task)
        assert torch.allclose(weights(learner.net), expected, atol=1e-9)


def teacher_of(learner: Learner) -> Net | None:
    return None if learner.task is None else learner.task.teacher


def test_the_teacher_is_the_net_at_the_last_switch_and_stays_so() -> None:
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU())
    learner = Learner(encoder, ICaRL(), memory=20)
    learner.observe(samples(6, 0), [0, 1] * 3, task=0)
    assert teacher_of(learner) is None
    for task in (1, 2):
        at_switch = {name: tensor.clone() for name, tensor in learner.net.state_dict().items()}
        for step in range(3):
            learner.observe(samples(6, 10 * task + step), [2 * task, 2 * task + 1] * 3, task=task)
            teacher = teacher_of(learner)
            assert teacher is not None and not teacher.training and teacher.seen == 2 * task
            assert teacher.state_dict().keys() == at_switch.keys()
            for name, tensor in teacher.state_dict().items():
                assert torch.equal(tensor, at_switch[name]), name
            assert not any(p.requires_grad for p in teacher.parameters())
        assert not torch.equal(
            learner.net.state_dict()["encoder.module.0.weight"], at_switch["encoder.module.0.weight"]
        )


def taught(memory: int = 40, classes: int = 5) -> Learner:
    learner = Learner(mlp((4,), width=12), ICaRL(), memory=memory, lr=0.05)
    for step in range(8):
        y = np.random.default_rng(step).integers(0, classes, 10).tolist()
        learner.observe(3 * samples(10, step), y, task=0)
    return learner


def test_the_answer_is_the_nearest_mean_of_normalised_features() -> None:
    learner, pending = taught(), 3 * samples(60, 99).float()
    held = learner.memory.at(np.arange(len(learner.memory)))
    expected = [learner.classes[c] for c in nearest(learner.net, held, pending)]
    assert learner.predict(pending) == expected
    assert [learner.predict(x[None])[0] for x in pending] == expected
    assert len(set(expected)) == 5
    assert expected != [learner.classes[c] for c in nearest(learner.net, held, pending, normalise=False)]


def test_a_class_without_a_sample_in_memory_is_never_answered() -> None:
    learner, pending = taught(memory=3, classes=9), 3 * samples(200, 99)
    held = {learner.classes[c] for c in learner.memory.at(np.arange(3)).y.tolist()}
    assert len(learner.classes) == 9
    assert set(learner.predict(pending)) == held
    probabilities = learner.predict_proba(pending)
    absent = [c for c, label in enumerate(learner.classes) if label not in held]
    assert not probabilities[:, absent].any()
    assert np.allclose(probabilities.sum(1), 1, atol=1e-6)


def test_class_means_are_computed_once_for_each_state_of_the_learner() -> None:
    learner = taught()
    with patch.object(ICaRL, "predictor", autospec=True, side_effect=ICaRL.predictor) as made:
        for _ in range(3):
            learner.predict(samples(7, 0))
            learner.predict_proba(samples(7, 1))
        assert made.call_count == 1
        learner.observe(samples(2, 0), [0, 1], task=0)
        learner.predict(samples(7, 0))
        learner.predict(samples(7, 0))
        assert made.call_count == 2


def test_class_means_follow_the_net_and_the_memory() -> None:
    learner, pending = taught(), 3 * samples(60, 99).float()
    learner.predict(pending)
    for step in range(3):
        learner.observe(3 * samples(10, 50 + step), [0, 1, 2, 3, 4] * 2, task=0)
        held = learner.memory.at(np.arange(len(learner.memory)))
        assert learner.predict(pending) == [learner.classes[c] for c in nearest(learner.net, held, pending)]


def test_without_room_for_samples_there_is_no_answer() -> None:
    with pytest.raises(InputError, match="memory"):
        taught(memory=0).predict(samples(1, 0))
