import itertools
import math
from collections import Counter
from typing import Any, Literal

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from holdfast import ERAML, Batch, Learner, Reservoir, mlp
from holdfast.nets import CosineHead, Net

Y = [0, 0, 1, 0, 1, 2]  # the incoming batch: class 2 has one sample, so no positive of its own


def sample(number: int, label: int) -> list[float]:
    """A sample that tells which one it is."""
    return [float(number), float(label), 1.0, -1.0]


def batch_of(labels: list[int], first: int = 0) -> Batch:
    rows = [sample(first + i, label) for i, label in enumerate(labels)]
    return Batch(torch.tensor(rows), torch.tensor(labels))


def memory_of(labels: list[int]) -> Reservoir:
    memory = Reservoir(100)
    memory.add(batch_of(labels, first=100), np.random.default_rng(0))
    return memory


def fetched(method: ERAML, memory: Reservoir, seed: int) -> list[tuple[int, int, int]]:
    """(anchor, positive, negative) by sample number."""
    new = batch_of(Y)
    pairs = method.recall(Net(mlp((4,)), CosineHead()), new, memory, np.random.default_rng(seed)).get("pairs")
    if pairs is None:
        return []
    number = torch.cat([new.x, pairs.x])[:, 0].long()
    columns = (number[pairs.extra[name]].tolist() for name in ("anchor", "positive", "negative"))
    return list(zip(*columns, strict=True))


def label_of(number: int, stored: list[int]) -> int:
    return Y[number] if number < 100 else stored[number - 100]


@pytest.mark.parametrize("fetch", ["anywhere", "incoming-first"])
@pytest.mark.parametrize("negatives", ["incoming", "all"])
def test_positives_share_the_class_and_negatives_do_not(
    fetch: Literal["anywhere", "incoming-first"], negatives: Literal["incoming", "all"]
) -> None:
    stored = [0, 1, 2, 3, 3, 2, 4]
    method = ERAML(fetch=fetch, negatives=negatives)
    negative_classes = set()
    for seed in range(100):
        triplets = fetched(method, memory_of(stored), seed)
        assert [anchor for anchor, _, _ in triplets] == list(range(6))
        for anchor, positive, negative in triplets:
            assert positive != anchor
            assert label_of(positive, stored) == Y[anchor]
            assert label_of(negative, stored) != Y[anchor]
            negative_classes.add(label_of(negative, stored))
            if fetch == "incoming-first":
                assert (positive < 100) == (Y[anchor] != 2)
                assert negative < 100 or negatives == "all"
    assert negative_classes == ({0, 1, 2, 3, 4} if negatives == "all" else {0, 1, 2})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "from_batch_first", "negative_classes"),
    [(ERAML(), False, {0, 1, 2}), (ERAML(negatives="all", fetch="incoming-first"), True, {0, 1, 2, 3, 4})],
    ids=["the method", "all negatives, incoming first"],
)
def test_draws_are_uniform_over_incoming_and_memory(
    method: ERAML, from_batch_first: bool, negative_classes: set[int]
) -> None:
    """Of all negatives none comes first: those in the batch would be of its classes only."""
    stored = [0, 1, 1, 3, 2, 0, 4]
    draws = [t for seed in range(3000) for t in fetched(method, memory_of(stored), seed)]
    for anchor in range(6):
        positives = Counter(p for a, p, _ in draws if a == anchor)
        negatives = Counter(n for a, _, n in draws if a == anchor)
        everyone = [*range(6), *range(100, 107)]
        allowed_p = [s for s in everyone if s != anchor and label_of(s, stored) == Y[anchor]]
        if from_batch_first:
            allowed_p = [s for s in allowed_p if s < 6] or allowed_p
        allowed_n = [s for s in everyone if label_of(s, stored) in negative_classes - {Y[anchor]}]
        for counts, allowed in ((positives, allowed_p), (negatives, allowed_n)):
            assert set(counts) == set(allowed)
            if len(allowed) > 1:
                assert stats.chisquare([counts[s] for s in allowed]).pvalue > 1e-4


def test_an_anchor_without_a_pair_is_left_out() -> None:
    assert [anchor for anchor, _, _ in fetched(ERAML(), Reservoir(10), 0)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("fetch", ["anywhere", "incoming-first"])
def test_how_many_images_are_forwarded(fetch: Literal["anywhere", "incoming-first"]) -> None:
    """Two classes with several samples each, as on Split CIFAR-10: incoming-first costs what ER costs."""
    new = batch_of([0, 1] * 5)
    method = ERAML(fetch=fetch)
    pairs = method.recall(Net(mlp((4,)), CosineHead()), new, memory_of([0, 1, 2]), np.random.default_rng(0))["pairs"]
    assert len(pairs.x) == (20 if fetch == "anywhere" else 0)


def test_negatives_from_the_batch_are_not_forwarded_again() -> None:
    new, method = batch_of([0, 1] * 5), ERAML(negatives="all", fetch="incoming-first")
    pairs = method.recall(Net(mlp((4,)), CosineHead()), new, memory_of([2, 3] * 5), np.random.default_rng(0))["pairs"]
    from_memory = pairs.extra["negative"] >= len(new)
    assert 0 < from_memory.sum() < 10
    assert len(pairs.x) == from_memory.sum() and pairs.y.ge(2).all()


def unit(vector: list[float]) -> list[float]:
    return [v / math.hypot(*vector) for v in vector]


def cosine(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(unit(a), unit(b), strict=True))


def reference_supcon(
    f: Any, anchors: list[int], candidates: list[int], y: list[int], *, tau: float, x: Tensor, own: bool
) -> float:
    """`own`: samples that equal the anchor count, too."""
    total = 0.0
    for a in anchors:
        counting = [c for c in candidates if own or not torch.equal(x[c], x[a])]
        denominator = sum(math.exp(cosine(f[c], f[a]) / tau) for c in counting)
        positives = [c for c in counting if y[c] == y[a]]
        total -= sum(math.log(math.exp(cosine(f[p], f[a]) / tau) / denominator) for p in positives) / len(positives)
    return total / len(anchors)


def reference_triplet(f: Any, anchors: list[int], positives: list[int], negatives: list[int], margin: float) -> float:
    def distance(a: int, b: int) -> float:
        return math.dist(unit(f[a]), unit(f[b]))

    triplets = zip(anchors, positives, negatives, strict=True)
    return sum(max(0.0, distance(a, p) - distance(a, n) + margin) for a, p, n in triplets) / len(anchors)


@pytest.mark.parametrize(
    ("metric", "fetch", "positives"),
    list(itertools.product(["supcon", "triplet"], ["anywhere", "incoming-first"], ["others", "released"])),
)
def test_loss_against_plain_loops(metric: Any, fetch: Any, positives: Any) -> None:
    method = ERAML(metric=metric, fetch=fetch, positives=positives, temperature=0.2, margin=0.2)
    net = Net(mlp((4,), width=6), CosineHead()).double()
    net.head.grow(4, 4, 6, torch.optim.SGD(net.parameters(), lr=0.1))
    new = Batch(torch.randn(6, 4, generator=torch.Generator().manual_seed(0)).double(), torch.tensor(Y))
    memory = Reservoir(10)
    stored = Batch(
        torch.randn(5, 4, generator=torch.Generator().manual_seed(1)).double(), torch.tensor([0, 1, 2, 2, 3])
    )
    memory.add(stored, np.random.default_rng(0))
    recalled = method.recall(net, new, memory, np.random.default_rng(3))
    old, pairs = recalled["old"], recalled["pairs"]

    forwarded = torch.cat([new.x, pairs.x])
    features = net.features(forwarded).tolist()
    labels = torch.cat([new.y, pairs.y]).tolist()
    where = [pairs.extra[name].tolist() for name in ("anchor", "positive", "negative")]
    if metric == "supcon":
        own, candidates = positives == "released", where[1] + where[2]
        incoming = 0.2 / 0.07 * reference_supcon(features, where[0], candidates, labels, tau=0.2, x=forwarded, own=own)
    else:
        incoming = 2 * reference_triplet(features, where[0], where[1], where[2], 0.2)
    prototypes = net.head.weight.tolist()
    replay = 0.0
    for f, label in zip(net.features(old.x).tolist(), old.y.tolist(), strict=True):
        logits = [cosine(f, w) / 0.1 for w in prototypes]
        replay += (math.log(sum(map(math.exp, logits))) - logits[label]) / len(old)
    assert method.loss(net, new, **recalled).item() == pytest.approx(incoming + replay, abs=1e-6)


@pytest.mark.parametrize("fetch", ["anywhere", "incoming-first"])
def test_a_sample_is_not_its_own_positive(fetch: Any) -> None:
    """Two samples of a class fetch each other, so each is among what was fetched for the batch."""
    net = Net(mlp((4,), width=6), CosineHead()).double()
    new = Batch(torch.randn(3, 4, generator=torch.Generator().manual_seed(0)).double(), torch.tensor([0, 0, 1]))
    losses = []
    for method in (ERAML(fetch=fetch, weight=1.0), ERAML(fetch=fetch, weight=1.0, positives="released")):
        recalled = method.recall(net, new, Reservoir(10), np.random.default_rng(0))
        losses.append(method.loss(net, new, **recalled).item())
    f = net.features(new.x).tolist()
    near = [[math.exp(cosine(f[a], f[b]) / 0.2) for b in range(3)] for a in range(3)]
    others = [-math.log(near[a][b] / (near[a][b] + 2 * near[a][2])) for a, b in ((0, 1), (1, 0))]
    assert losses[0] == pytest.approx(sum(others) / 2, abs=1e-6)
    assert abs(losses[1] - losses[0]) > 0.01


def test_without_any_pair_the_incoming_loss_is_zero_and_the_step_still_counts() -> None:
    learner = Learner(mlp((4,), width=8), ERAML(), memory=10)
    before = [p.clone() for p in learner.net.encoder.parameters()]
    learner.observe(np.ones((1, 4)), ["only"])
    after: list[Tensor] = list(learner.net.encoder.parameters())
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert (learner.step, len(learner.memory)) == (1, 1)
