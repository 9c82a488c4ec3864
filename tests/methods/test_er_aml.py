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
                assert negative < 100
    expected = {0, 1, 2, 3, 4} if (negatives, fetch) == ("all", "anywhere") else {0, 1, 2}
    assert negative_classes == expected


def test_draws_are_uniform_over_incoming_and_memory() -> None:
    stored = [0, 1, 1, 3, 2, 0, 4]
    draws = [t for seed in range(3000) for t in fetched(ERAML(), memory_of(stored), seed)]
    for anchor in range(6):
        positives = Counter(p for a, p, _ in draws if a == anchor)
        negatives = Counter(n for a, _, n in draws if a == anchor)
        everyone = [*range(6), *range(100, 107)]
        allowed_p = [s for s in everyone if s != anchor and label_of(s, stored) == Y[anchor]]
        allowed_n = [s for s in everyone if label_of(s, stored) in {0, 1, 2} - {Y[anchor]}]
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


def unit(vector: list[float]) -> list[float]:
    return [v / math.hypot(*vector) for v in vector]


def cosine(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(unit(a), unit(b), strict=True))


def reference_supcon(f: Any, anchors: list[int], candidates: list[int], y: list[int], tau: float) -> float:
    total = 0.0
    for a in anchors:
        denominator = sum(math.exp(cosine(f[c], f[a]) / tau) for c in candidates)
        positives = [c for c in candidates if y[c] == y[a]]
        total -= sum(math.log(math.exp(cosine(f[p], f[a]) / tau) / denominator) for p in positives) / len(positives)
    return total / len(anchors)


def reference_triplet(f: Any, anchors: list[int], positives: list[int], negatives: list[int], margin: float) -> float:
    def distance(a: int, b: int) -> float:
        return math.dist(unit(f[a]), unit(f[b]))

    triplets = zip(anchors, positives, negatives, strict=True)
    return sum(max(0.0, distance(a, p) - distance(a, n) + margin) for a, p, n in triplets) / len(anchors)


@pytest.mark.parametrize(
    ("metric", "fetch"), list(itertools.product(["supcon", "triplet"], ["anywhere", "incoming-first"]))
)
def test_loss_against_plain_loops(metric: Any, fetch: Any) -> None:
    method = ERAML(metric=metric, fetch=fetch, temperature=0.2, margin=0.2)
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

    features = net.features(torch.cat([new.x, pairs.x])).tolist()
    labels = torch.cat([new.y, pairs.y]).tolist()
    where = [pairs.extra[name].tolist() for name in ("anchor", "positive", "negative")]
    if metric == "supcon":
        incoming = 0.2 / 0.07 * reference_supcon(features, where[0], where[1] + where[2], labels, 0.2)
    else:
        incoming = 2 * reference_triplet(features, where[0], where[1], where[2], 0.2)
    prototypes = net.head.weight.tolist()
    replay = 0.0
    for f, label in zip(net.features(old.x).tolist(), old.y.tolist(), strict=True):
        logits = [cosine(f, w) / 0.1 for w in prototypes]
        replay += (math.log(sum(map(math.exp, logits))) - logits[label]) / len(old)
    assert method.loss(net, new, **recalled).item() == pytest.approx(incoming + replay, abs=1e-6)


def test_without_any_pair_the_incoming_loss_is_zero_and_the_step_still_counts() -> None:
    learner = Learner(mlp((4,), width=8), ERAML(), memory=10)
    before = [p.clone() for p in learner.net.encoder.parameters()]
    learner.observe(np.ones((1, 4)), ["only"])
    after: list[Tensor] = list(learner.net.encoder.parameters())
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert (learner.step, len(learner.memory)) == (1, 1)
