"""The losses of iCaRL, SS-IL and SCR. Cross-entropy, plain SupCon and triplets are in test_losses.py."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from holdfast.losses import binary_cross_entropy, distillation, supcon
from tests.test_losses import cosine, draw, labels, log_sum_exp, seeds

temperatures = st.sampled_from([0.5, 1.0, 2.0, 10.0])


def targets(seed: int, *shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def pairs(seed: int, n: int, m: int) -> Tensor:
    return torch.rand(n, m, generator=torch.Generator().manual_seed(seed)) < 0.3


def expected_binary(logits: Tensor, wanted: Tensor) -> float:
    total = 0.0
    for row, answers in zip(logits.tolist(), wanted.tolist(), strict=True):
        for logit, t in zip(row, answers, strict=True):
            yes = 1 / (1 + math.exp(-logit))
            total -= t * math.log(yes) + (1 - t) * math.log(1 - yes)
    return total / len(logits)


def expected_distillation(logits: Tensor, teacher: Tensor, temperature: float) -> float:
    total = 0.0
    for now, then in zip(logits.tolist(), teacher.tolist(), strict=True):
        log_q = [logit / temperature - log_sum_exp([other / temperature for other in now]) for logit in now]
        log_p = [logit / temperature - log_sum_exp([other / temperature for other in then]) for logit in then]
        total += sum(math.exp(p) * (p - q) for p, q in zip(log_p, log_q, strict=True))
    return temperature**2 * total / len(logits)


def expected_supcon(  # noqa: PLR0917
    anchors: Tensor, anchor_y: Tensor, candidates: Tensor, candidate_y: Tensor, tau: float, without: Tensor
) -> float:
    losses = []
    for i, anchor in enumerate(anchors.tolist()):
        allowed = [j for j in range(len(candidates)) if not without[i, j]]
        similarity = {j: cosine(candidates[j].tolist(), anchor) / tau for j in allowed}
        if positive := [j for j in allowed if candidate_y[j] == anchor_y[i]]:
            everything = log_sum_exp(list(similarity.values()))
            losses.append(math.fsum(everything - similarity[j] for j in positive) / len(positive))
    return math.fsum(losses) / len(losses) if losses else 0.0


@given(n=st.integers(1, 12), classes=st.integers(1, 8), seed=seeds, scale=st.sampled_from([0.1, 1.0, 5.0]))
def test_binary_cross_entropy_is_a_sum_over_classes_and_a_mean_over_samples(
    n: int, classes: int, seed: int, scale: float
) -> None:
    logits, wanted = draw(seed, n, classes, scale=scale), targets(seed, n, classes)
    expected = expected_binary(logits, wanted)
    assert binary_cross_entropy(logits, wanted).item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(n=st.integers(1, 12), classes=st.integers(1, 8), seed=seeds, temperature=temperatures)
def test_distillation_is_the_divergence_from_teacher_to_student(
    n: int, classes: int, seed: int, temperature: float
) -> None:
    logits, teacher = draw(seed, n, classes, scale=3), draw(seed + 1, n, classes, scale=3)
    expected = expected_distillation(logits, teacher, temperature)
    assert distillation(logits, teacher, temperature).item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_distillation_asks_for_what_the_teacher_says_not_the_other_way_round() -> None:
    logits, teacher = draw(0, 4, 5, scale=3), draw(1, 4, 5, scale=3)
    there, back = expected_distillation(logits, teacher, 2.0), expected_distillation(teacher, logits, 2.0)
    assert abs(there - back) > 0.1
    assert distillation(logits, teacher, 2.0).item() == pytest.approx(there, rel=1e-9)


@given(classes=st.integers(1, 8), seed=seeds, temperature=temperatures, shift=st.sampled_from([0.0, 7.0, -1e3]))
def test_a_student_that_agrees_costs_nothing(classes: int, seed: int, temperature: float, shift: float) -> None:
    """Logits that differ by a constant say the same."""
    logits = draw(seed, 4, classes).requires_grad_()
    loss = distillation(logits, logits.detach() + shift, temperature)
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == pytest.approx(0, abs=1e-9)
    assert logits.grad is not None and logits.grad.abs().max() < 1e-9


def test_the_gradient_of_distillation_keeps_its_size_as_the_temperature_rises() -> None:
    """That is what T² is for: at high temperature it is (logits - teacher) / classes, centred, per sample."""
    logits, teacher = draw(0, 1, 5).requires_grad_(), draw(1, 1, 5)
    (gradient,) = torch.autograd.grad(distillation(logits, teacher, 1e4), logits)
    difference = logits.detach() - teacher
    assert torch.allclose(gradient, (difference - difference.mean()) / 5, atol=1e-3)


@given(
    n=st.integers(1, 8),
    m=st.integers(1, 10),
    features=st.integers(1, 6),
    classes=st.integers(1, 4),
    tau=st.sampled_from([1e-3, 0.07, 0.2, 5.0]),
    seed=seeds,
)
def test_pairs_that_do_not_count_are_neither_positives_nor_rivals(  # noqa: PLR0917
    n: int, m: int, features: int, classes: int, tau: float, seed: int
) -> None:
    anchors, candidates = draw(seed, n, features), draw(seed + 1, m, features, scale=7)
    anchor_y, candidate_y, without = labels(seed, n, classes), labels(seed + 1, m, classes), pairs(seed, n, m)
    loss = supcon(anchors, anchor_y, candidates, candidate_y, tau, without=without)
    expected = expected_supcon(anchors, anchor_y, candidates, candidate_y, tau, without)
    assert loss.item() == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_excluding_a_candidate_for_everyone_is_leaving_it_out() -> None:
    points, y, without = draw(0, 6, 4), torch.tensor([0, 1, 0, 1, 2, 0]), torch.zeros(6, 6, dtype=torch.bool)
    without[:, 2] = True
    rest = [0, 1, 3, 4, 5]
    there = supcon(points, y, points, y, 0.1, without=without)
    assert there.item() == pytest.approx(supcon(points, y, points[rest], y[rest], 0.1).item(), rel=1e-12)


def test_excluding_nothing_changes_no_bit() -> None:
    pool = (draw(0, 4, 5), labels(0, 4, 3), draw(1, 7, 5), labels(1, 7, 3), 0.1)
    assert torch.equal(supcon(*pool, without=torch.zeros(4, 7, dtype=torch.bool)), supcon(*pool))


def test_a_pair_that_does_not_count_has_no_gradient() -> None:
    """Candidate 2 counts for no anchor; anchor 3 has no candidate left."""
    anchors, candidates = draw(0, 4, 5).requires_grad_(), draw(1, 6, 5).requires_grad_()
    without = torch.zeros(4, 6, dtype=torch.bool)
    without[:, 2] = without[3] = True
    loss = supcon(anchors, torch.tensor([0, 1, 0, 1]), candidates, torch.arange(6) % 2, 0.1, without=without)
    loss.backward()  # type: ignore[no-untyped-call]
    assert anchors.grad is not None and candidates.grad is not None
    assert anchors.grad.any(dim=1).tolist() == [True, True, True, False]
    assert candidates.grad.any(dim=1).tolist() == [True, True, False, True, True, True]


SELF = torch.eye(4, dtype=torch.bool)
LOSSES: dict[str, Callable[[Tensor], Tensor]] = {
    "binary cross-entropy": lambda x: binary_cross_entropy(x, targets(0, 4, 5)),
    "distillation": lambda x: distillation(x, draw(1, 4, 5), 2.0),
    "supcon without self": lambda x: supcon(
        x, torch.tensor([0, 1, 1, 0]), x, torch.tensor([0, 1, 1, 0]), 0.2, without=SELF
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_those_of_the_loss(name: str) -> None:
    assert torch.autograd.gradcheck(LOSSES[name], (draw(0, 4, 5).requires_grad_(),))


def learned(loss: Tensor, of: Tensor) -> Tensor:
    (gradient,) = torch.autograd.grad(loss, of)
    assert loss.isfinite() and gradient.isfinite().all()
    return gradient


@pytest.mark.parametrize(("logit", "target", "expected"), [(1e4, 1, 0), (1e4, 0, 1e4), (-1e4, 0, 0), (-1e4, 1, 1e4)])
def test_binary_cross_entropy_at_the_ends_of_the_range(logit: float, target: float, expected: float) -> None:
    logits = torch.full((2, 3), logit, requires_grad=True)
    loss = binary_cross_entropy(logits, torch.full((2, 3), float(target)))
    assert loss.item() == 3 * expected
    assert torch.allclose(learned(loss, logits), torch.full((2, 3), (float(logit > 0) - target) / 2))


@pytest.mark.parametrize("temperature", [1e-3, 1.0, 2.0, 1e3])
def test_distillation_at_the_ends_of_the_range(temperature: float) -> None:
    """Where the softmax is all or nothing, T² · KL is T · (difference of logits)."""
    ends = torch.tensor([[1e4, -1e4, 0.0]])
    logits = ends.clone().requires_grad_()
    agreeing, opposed = distillation(logits, ends, temperature), distillation(logits, -ends, temperature)
    assert agreeing.item() == pytest.approx(0, abs=1e-6)
    assert opposed.item() == pytest.approx(temperature * 2e4, rel=1e-3)
    assert learned(agreeing, logits).abs().max() < 1e-6 * max(temperature, 100)
    assert torch.allclose(learned(opposed, logits), temperature * torch.tensor([[1.0, -1.0, 0.0]]), rtol=1e-3, atol=0.1)


def test_a_task_of_one_class_has_nothing_to_distil() -> None:
    logits = torch.tensor([[1e4], [-3.0]], requires_grad=True)
    loss = distillation(logits, torch.tensor([[-1e4], [5.0]]), 2.0)
    assert loss.item() == 0
    assert not learned(loss, logits).any()


@pytest.mark.parametrize("tau", [1e-3, 0.07])
def test_supcon_without_self_at_a_tiny_temperature(tau: float) -> None:
    """The one positive is opposite, the one rival is near: 2 / τ is far beyond what exp can hold."""
    points = torch.tensor([[1.0, 0.0], [-2.0, 0.0], [3.0, 0.0]], requires_grad=True)
    y, without = torch.tensor([0, 0, 1]), torch.eye(3, dtype=torch.bool)
    loss = supcon(points, y, points, y, tau, without=without)
    expected = expected_supcon(points.detach(), y, points.detach(), y, tau, without)
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    learned(loss, points)


def test_supcon_without_self_of_zero_vectors() -> None:
    """They have cosine 0 to everything: all rivals are alike."""
    points = torch.zeros(4, 3, requires_grad=True)
    y = torch.tensor([0, 0, 1, 1])
    loss = supcon(points, y, points, y, 1e-3, without=SELF)
    assert loss.item() == pytest.approx(math.log(3), abs=1e-6)
    learned(loss, points)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_supcon_with_everything_excluded_is_zero_and_has_no_gradient(dtype: torch.dtype) -> None:
    points = draw(0, 3, 4, dtype=dtype).requires_grad_()
    loss = supcon(points, torch.zeros(3), points, torch.zeros(3), 0.1, without=torch.ones(3, 3, dtype=torch.bool))
    assert loss.item() == 0
    assert not learned(loss, points).any()
