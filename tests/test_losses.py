import math
from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pytorch_metric_learning.distances import LpDistance
from pytorch_metric_learning.losses import SupConLoss, TripletMarginLoss
from pytorch_metric_learning.reducers import MeanReducer
from torch import Tensor

from holdfast.losses import cross_entropy, supcon, triplet

Vector = Sequence[float]
seeds = st.integers(0, 2**32 - 1)


def draw(seed: int, *shape: int, scale: float = 1.0, dtype: torch.dtype = torch.float64) -> Tensor:
    return (scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)).to(dtype)


def labels(seed: int, n: int, classes: int) -> Tensor:
    return torch.randint(classes, (n,), generator=torch.Generator().manual_seed(seed))


def log_sum_exp(values: Vector) -> float:
    top = max(values)
    return top + math.log(math.fsum(math.exp(value - top) for value in values))


def unit(vector: Vector) -> list[float]:
    norm = math.sqrt(math.fsum(v * v for v in vector))
    return [v / norm if norm else 0.0 for v in vector]


def distance(a: Vector, b: Vector) -> float:
    return math.sqrt(math.fsum((u - v) ** 2 for u, v in zip(unit(a), unit(b), strict=True)))


def cosine(a: Vector, b: Vector) -> float:
    return math.fsum(u * v for u, v in zip(unit(a), unit(b), strict=True))


def expected_cross_entropy(logits: Tensor, y: Tensor, among: Sequence[int]) -> float:
    total = 0.0
    for row, label in zip(logits.double().tolist(), y.tolist(), strict=True):
        total -= row[label] - log_sum_exp([row[c] for c in among])
    return total / len(y)


def expected_supcon(anchors: Tensor, anchor_y: Tensor, candidates: Tensor, candidate_y: Tensor, tau: float) -> float:
    losses = []
    for anchor, label in zip(anchors.double().tolist(), anchor_y.tolist(), strict=True):
        similarities = [cosine(candidate, anchor) / tau for candidate in candidates.double().tolist()]
        positive = [s for s, other in zip(similarities, candidate_y.tolist(), strict=True) if other == label]
        if positive:
            everything = log_sum_exp(similarities)
            losses.append(math.fsum(everything - s for s in positive) / len(positive))
    return math.fsum(losses) / len(losses) if losses else 0.0


def expected_triplet(anchors: Tensor, positives: Tensor, negatives: Tensor, margin: float) -> float:
    rows = zip(*(t.double().tolist() for t in (anchors, positives, negatives)), strict=True)
    losses = [max(0.0, distance(a, p) - distance(a, n) + margin) for a, p, n in rows]
    return math.fsum(losses) / len(losses) if losses else 0.0


@given(n=st.integers(1, 12), classes=st.integers(1, 8), seed=seeds, scale=st.sampled_from([0.1, 1.0, 30.0, 1e4]))
def test_cross_entropy_is_the_mean_over_samples_among_all_classes(
    n: int, classes: int, seed: int, scale: float
) -> None:
    logits, y = draw(seed, n, classes, scale=scale), labels(seed, n, classes)
    assert cross_entropy(logits, y).item() == pytest.approx(
        expected_cross_entropy(logits, y, range(classes)), rel=1e-6, abs=1e-6
    )


@given(n=st.integers(1, 12), among=st.sets(st.integers(0, 9), min_size=1).map(sorted), seed=seeds)
def test_cross_entropy_among_some_classes_leaves_the_others_out(n: int, among: list[int], seed: int) -> None:
    logits = draw(seed, n, 10).requires_grad_()
    rivals = torch.tensor(among)
    y = rivals[labels(seed, n, len(among))]
    loss = cross_entropy(logits, y, among=rivals)
    assert loss.item() == pytest.approx(expected_cross_entropy(logits.detach(), y, among), rel=1e-6, abs=1e-6)

    loss.backward()  # type: ignore[no-untyped-call]
    outside = sorted(set(range(10)) - set(among))
    assert logits.grad is not None
    assert not logits.grad[:, outside].any()
    assert len(among) == 1 or logits.grad[:, among].any(dim=0).all()


@given(n=st.integers(1, 12), classes=st.integers(1, 8), seed=seeds)
def test_among_all_classes_changes_no_bit(n: int, classes: int, seed: int) -> None:
    logits, y = draw(seed, n, classes, dtype=torch.float32), labels(seed, n, classes)
    assert torch.equal(cross_entropy(logits, y, among=torch.arange(classes)), cross_entropy(logits, y))


@given(
    n=st.integers(1, 8),
    m=st.integers(1, 12),
    features=st.integers(1, 6),
    classes=st.integers(1, 4),
    tau=st.sampled_from([1e-3, 0.07, 0.1, 0.2, 5.0]),
    seed=seeds,
)
def test_supcon_is_the_mean_over_anchors_with_a_positive(  # noqa: PLR0917
    n: int, m: int, features: int, classes: int, tau: float, seed: int
) -> None:
    anchors, candidates = draw(seed, n, features), draw(seed + 1, m, features, scale=7)
    anchor_y, candidate_y = labels(seed, n, classes), labels(seed + 1, m, classes)
    expected = expected_supcon(anchors, anchor_y, candidates, candidate_y, tau)
    assert supcon(anchors, anchor_y, candidates, candidate_y, tau).item() == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(n=st.integers(0, 10), features=st.integers(1, 8), margin=st.sampled_from([0.1, 0.2, 1.0, 3.0]), seed=seeds)
def test_triplet_is_the_mean_over_anchors(n: int, features: int, margin: float, seed: int) -> None:
    anchors, positives, negatives = (draw(seed + i, n, features, scale=10**i) for i in range(3))
    expected = expected_triplet(anchors, positives, negatives, margin)
    assert triplet(anchors, positives, negatives, margin).item() == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(tau=st.sampled_from([0.07, 0.1, 0.2]), seed=seeds)
@settings(max_examples=30)
def test_supcon_agrees_with_metric_learning(tau: float, seed: int) -> None:
    anchors, candidates = draw(seed, 6, 5), draw(seed + 1, 10, 5)
    anchor_y, candidate_y = labels(seed, 6, 3), torch.arange(10) % 3  # every anchor has a positive and a negative
    reference = SupConLoss(temperature=tau, reducer=MeanReducer())
    expected = reference(anchors, anchor_y, ref_emb=candidates, ref_labels=candidate_y)
    assert supcon(anchors, anchor_y, candidates, candidate_y, tau).item() == pytest.approx(expected.item(), rel=1e-6)


@given(margin=st.sampled_from([0.05, 0.2, 1.0]), seed=seeds)
@settings(max_examples=30)
def test_triplet_agrees_with_metric_learning(margin: float, seed: int) -> None:
    anchors, positives, negatives = (draw(seed + i, 6, 5) for i in range(3))
    rows = torch.arange(6)
    reference = TripletMarginLoss(margin=margin, distance=LpDistance(), reducer=MeanReducer())
    expected = reference(
        anchors,
        indices_tuple=(rows, rows, rows + 6),
        ref_emb=torch.cat([positives, negatives]),
        ref_labels=torch.arange(12),
        labels=rows,
    )
    assert triplet(anchors, positives, negatives, margin).item() == pytest.approx(expected.item(), abs=1e-6)


LOSSES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "cross-entropy": lambda a, b, c: cross_entropy(a, torch.tensor([0, 2, 4, 2])),
    "cross-entropy among": lambda a, b, c: cross_entropy(a, torch.tensor([0, 2, 4, 2]), among=torch.tensor([0, 2, 4])),
    "supcon": lambda a, b, c: supcon(a, torch.tensor([0, 1, 2, 1]), b, torch.tensor([0, 1, 1, 0]), 0.2),
    "triplet": lambda a, b, c: triplet(a, b, c, 0.7),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_those_of_the_loss(name: str) -> None:
    inputs = tuple(draw(i, 4, 5).requires_grad_() for i in range(3))
    used = inputs[: {"supcon": 2, "triplet": 3}.get(name, 1)]
    assert torch.autograd.gradcheck(lambda *x: LOSSES[name](*x, *inputs[len(x) :]), used)


@pytest.mark.parametrize("among", [None, [0, 1]])
@pytest.mark.parametrize(("label", "expected"), [(0, 0.0), (1, 2e4)])
def test_cross_entropy_at_the_ends_of_the_range(among: list[int] | None, label: int, expected: float) -> None:
    logits = torch.tensor([[1e4, -1e4, -1e4]], requires_grad=True)
    loss = cross_entropy(logits, torch.tensor([label]), among=None if among is None else torch.tensor(among))
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == expected
    assert logits.grad is not None and logits.grad.isfinite().all()


@pytest.mark.parametrize("among", [None, [1]])
def test_a_class_without_rival_costs_nothing(among: list[int] | None) -> None:
    logits = torch.tensor([[5.0], [-3.0]]) if among is None else torch.tensor([[5.0, -3.0], [1e4, 7.0]])
    logits.requires_grad_()
    y = torch.full((2,), logits.shape[1] - 1)
    loss = cross_entropy(logits, y, among=None if among is None else torch.tensor(among))
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == 0
    assert logits.grad is not None and not logits.grad.any()


def test_supcon_with_a_tiny_temperature() -> None:
    """Opposite vectors differ by 2 / 1e-3 in the exponent: exp overflows float32, the loss must not."""
    anchor = torch.tensor([[3.0, 0.0]], requires_grad=True)
    candidates = torch.tensor([[-1.0, 0.0], [2.0, 0.0]])
    far = supcon(anchor, torch.tensor([0]), candidates, torch.tensor([0, 1]), 1e-3)
    near = supcon(anchor, torch.tensor([1]), candidates, torch.tensor([0, 1]), 1e-3)
    far.backward()  # type: ignore[no-untyped-call]
    assert far.item() == pytest.approx(2000) and near.item() == 0
    assert anchor.grad is not None and anchor.grad.isfinite().all()


def test_zero_vectors_have_cosine_zero_to_everything() -> None:
    anchors, candidates = torch.zeros(2, 3, requires_grad=True), torch.cat([torch.zeros(1, 3), torch.eye(3)])
    loss = supcon(anchors, torch.tensor([0, 1]), candidates, torch.tensor([0, 1, 0, 1]), 0.1)
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == pytest.approx(math.log(4), abs=1e-6)
    assert anchors.grad is not None and anchors.grad.abs().max() < 100


def test_triplet_of_zero_vectors() -> None:
    zero = torch.zeros(2, 3, requires_grad=True)
    loss = triplet(zero, zero, torch.eye(3)[:2], 1.5)  # distances 0 and 1
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == pytest.approx(0.5, abs=1e-6)
    assert zero.grad is not None and zero.grad.abs().max() < 100


def test_supcon_without_any_positive_is_zero_and_has_no_gradient() -> None:
    anchors = draw(0, 3, 4).requires_grad_()
    loss = supcon(anchors, torch.tensor([0, 1, 2]), draw(1, 5, 4), torch.full((5,), 7), 0.1)
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == 0
    assert anchors.grad is not None and not anchors.grad.any()


def test_an_anchor_without_positive_does_not_count() -> None:
    anchors, candidates, candidate_y = draw(0, 2, 4), draw(1, 5, 4), torch.tensor([0, 0, 7, 7, 7])
    alone = supcon(anchors[:1], torch.tensor([0]), candidates, candidate_y, 0.1)
    both = supcon(anchors, torch.tensor([0, 1]), candidates, candidate_y, 0.1)
    assert both.item() == pytest.approx(alone.item(), rel=1e-12)


def test_supcon_of_one_class_still_compares_its_members() -> None:
    anchors, candidates = draw(0, 3, 4), draw(1, 5, 4)
    loss = supcon(anchors, torch.zeros(3), candidates, torch.zeros(5), 0.1).item()
    assert loss == pytest.approx(expected_supcon(anchors, torch.zeros(3), candidates, torch.zeros(5), 0.1), rel=1e-9)
    assert loss > math.log(5)


def test_triplet_without_anchors_is_zero_and_can_be_learned_from() -> None:
    nothing = draw(0, 0, 4).requires_grad_()
    loss = triplet(nothing, nothing, nothing, 0.2)
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == 0


@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-5), (torch.bfloat16, 2**-6)])
def test_what_precision_costs(dtype: torch.dtype, close: float) -> None:
    logits, y = draw(0, 10, 5, scale=5, dtype=dtype), labels(0, 10, 5)
    a, p, n = (draw(i, 10, 32, dtype=dtype) for i in range(3))
    pairs = (a, labels(1, 10, 3), torch.cat([p, n]), labels(2, 20, 3), 0.1)
    assert cross_entropy(logits, y).item() == pytest.approx(expected_cross_entropy(logits, y, range(5)), rel=close)
    assert supcon(*pairs).item() == pytest.approx(expected_supcon(*pairs), rel=close)
    assert triplet(a, p, n, 0.5).item() == pytest.approx(expected_triplet(a, p, n, 0.5), rel=close)


def test_a_positive_that_equals_its_anchor_has_distance_zero() -> None:
    anchors = draw(0, 3, 640)
    assert triplet(anchors, anchors.clone(), -anchors, 2.5).item() == pytest.approx(0.5, abs=1e-6)


def test_a_margin_of_zero_asks_for_the_order_only() -> None:
    anchors, positives, negatives = (draw(i, 3, 4) for i in range(3))
    expected = expected_triplet(anchors, positives, negatives, 0.0)
    assert triplet(anchors, positives, negatives, 0.0).item() == pytest.approx(expected, abs=1e-6)
