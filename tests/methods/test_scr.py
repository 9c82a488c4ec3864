import numpy as np
import pytest
import torch
from torch import Tensor

from holdfast import Batch, Learner, Reservoir, mlp
from holdfast.methods import SCR
from holdfast.nets import Net
from tests.methods.reference import batch_of, everything, gradient, learner_of, mean, nearest, net_of, samples, weights


def expected_supcon(net: Net, batches: list[Batch], temperature: float) -> Tensor:
    """Every view is an anchor; its candidates are all other views; an anchor without a positive does not count."""
    points = [point / point.square().sum().sqrt() for batch in batches for point in net(batch.x)]
    labels = [label for batch in batches for label in batch.y.tolist()]
    views, losses = range(len(points)), []
    for i in views:
        similarity = {j: ((points[i] * points[j]).sum() / temperature).exp() for j in views if j != i}
        everyone = len(similarity) * mean(similarity.values())
        if positives := [j for j in similarity if labels[j] == labels[i]]:
            losses.append(mean(-(similarity[p] / everyone).log() for p in positives))
    return mean(losses)


@pytest.mark.parametrize("temperature", [0.07, 0.5])
@pytest.mark.parametrize("replayed", [False, True], ids=["nothing replayed", "replay"])
@pytest.mark.parametrize("views", [1, 2])
def test_loss_and_gradient_against_plain_loops(views: int, replayed: bool, temperature: float) -> None:
    """Class 3 has one sample: it has a positive only in the second view."""
    net, new, old = net_of(4, "projection"), batch_of([0, 1, 0, 3], 0), batch_of([2, 1, 1, 2, 0], 1)
    batches = {"new": new, "old": old} if replayed else {"new": new}
    if views == 2:
        both = list(batches.values())
        batches["again"] = Batch(samples(sum(map(len, both)), 2), torch.cat([batch.y for batch in both]))
    loss = SCR(temperature=temperature).loss(net, **batches)
    expected = expected_supcon(net, list(batches.values()), temperature)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-9)
    assert torch.allclose(gradient(loss, net), gradient(expected, net), atol=1e-9)


def test_a_sample_is_not_its_own_rival() -> None:
    """Two views of one sample have nothing but each other."""
    net, one = net_of(1, "projection"), batch_of([0], 0)
    assert SCR().loss(net, one, again=one).item() == pytest.approx(0, abs=1e-12)


def memory_of(stored: Batch) -> Reservoir:
    memory = Reservoir(100)
    memory.add(stored, np.random.default_rng(0))
    return memory


@pytest.mark.parametrize("views", [1, 2])
def test_each_view_holds_every_incoming_and_every_replayed_sample_once(views: int) -> None:
    net, new, memory = net_of(3, "projection"), batch_of([0, 1], 0), memory_of(batch_of([2, 1, 0, 1, 2, 2], 1))
    recalled = SCR(views=views, replay=4).recall(net, new, memory, np.random.default_rng(0))  # type: ignore[arg-type]
    old = recalled["old"]
    assert len(old) == len({tuple(row) for row in old.x.tolist()}) == 4
    if views == 1:
        assert {*recalled} == {"old"}
    else:
        assert torch.equal(recalled["again"].x, torch.cat([new.x, old.x]))
        assert torch.equal(recalled["again"].y, torch.cat([new.y, old.y]))


def test_a_step_descends_the_loss() -> None:
    """The memory holds no more than is replayed. Without augmentation both views are the same."""
    learner = learner_of(SCR(replay=8, temperature=0.5), memory=8, lr=0.2)
    learner.observe(samples(3, 9), [0, 1, 0])
    for step, y in enumerate([[0, 1, 2], [2, 0, 3]]):
        new, held, net = batch_of(y, step), everything(learner), learner.net.frozen().requires_grad_(True)
        new = Batch(new.x.float().double(), new.y)
        loss = expected_supcon(net, [new, held] * 2, 0.5)
        expected = weights(net) - 0.2 * gradient(loss, net)
        learner.observe(new.x, y)
        assert torch.allclose(weights(learner.net), expected, atol=1e-9)


def test_with_augmentation_the_two_views_differ() -> None:
    through: list[Tensor] = []
    learner = Learner(
        mlp((4,), width=6),
        SCR(replay=3),
        memory=3,
        augment=lambda x, rng: x + torch.from_numpy(rng.standard_normal((len(x), 1))).to(x),
    )
    learner.observe(samples(3, 0), [0, 1, 0])
    learner.net.register_forward_pre_hook(lambda _, args: through.append(args[0]))
    x = samples(2, 1).float()
    learner.observe(x, [1, 2])
    new, old, again = through
    assert [len(view) for view in through] == [2, 3, 5]
    shifts = torch.cat([new, old])[:, 0] - again[:, 0]
    assert (shifts.abs() > 1e-3).all()
    spread = torch.cat([new, old]) - again - shifts[:, None]
    assert spread.abs().max() < 1e-5  # of the same samples in the same order, which only were shifted


def test_one_sample_alone_in_one_view_teaches_nothing() -> None:
    net = net_of(1, "projection")
    loss = SCR(views=1).loss(net, batch_of([0], 0))
    assert loss.item() == 0
    assert not gradient(loss, net).any()

    learner = learner_of(SCR(views=1))
    learner.observe(samples(1, 0), ["only"])
    before = weights(learner.net)
    learner.memory.clear()
    learner.observe(samples(1, 0), ["only"])
    assert (learner.step, len(learner.memory)) == (2, 1)
    assert torch.equal(weights(learner.net), before)
    assert learner.predict(samples(2, 1)) == ["only", "only"]


def test_encoder_and_projection_are_trained_and_do_not_grow_with_the_classes() -> None:
    learner = learner_of(SCR(temperature=0.5), lr=0.5)
    learner.observe(samples(4, 0), [0, 1, 0, 1])
    before = {name: p.detach().clone() for name, p in learner.net.named_parameters()}
    learner.observe(samples(6, 1), [2, 3, 4, 2, 3, 4])
    assert len(before) == 8
    for name, parameter in learner.net.named_parameters():
        assert parameter.shape == before[name].shape
        assert (parameter - before[name]).abs().max() > 1e-6, name
    assert learner.net(samples(1, 2)).shape == (1, 128)


def test_the_answer_is_the_nearest_mean_of_features_before_the_projection() -> None:
    learner = Learner(mlp((4,), width=12), SCR(temperature=0.5), memory=40, lr=0.05)
    for step in range(8):
        learner.observe(3 * samples(10, step), np.random.default_rng(step).integers(0, 5, 10).tolist())
    held, pending = learner.memory.at(np.arange(40)), 3 * samples(60, 99).float()
    expected = [learner.classes[c] for c in nearest(learner.net, held, pending)]
    assert learner.predict(pending) == expected and len(set(expected)) == 5
