"""Losses as pure functions of tensors. Each is a mean over the batch."""

import torch
from torch import Tensor
from torch.nn import functional as F


def unit(x: Tensor) -> Tensor:
    """Rows divided by their norms. A zero row has no direction and stays zero, with a gradient of ordinary size."""
    norm = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    return x / torch.where(norm > 0, norm, 1)


def cross_entropy(logits: Tensor, y: Tensor, among: Tensor | None = None) -> Tensor:
    """L_ce(X, C) = -mean over x of log( exp(l_y) / Σ_{c in C} exp(l_c) ), C = the class indices in `among`.

    Without `among`, C is every column of `logits`. A label outside of C has probability 0: the loss is infinite.
    """
    if among is not None:
        excluded = torch.ones(logits.shape[1], dtype=torch.bool, device=logits.device)
        excluded[among] = False
        logits = logits.masked_fill(excluded, -torch.inf)
    return F.cross_entropy(logits, y)


def balanced_cross_entropy(logits: Tensor, y: Tensor, counts: Tensor) -> Tensor:
    """-mean over x of log( n_y exp(l_y) / Σ_c n_c exp(l_c) ), n_c the samples of class c in `counts`.

    A class without samples does not compete.
    """
    return F.cross_entropy(logits + counts.to(logits).log(), y)


def supcon(
    anchors: Tensor,
    anchor_y: Tensor,
    candidates: Tensor,
    candidate_y: Tensor,
    temperature: float,
    *,
    without: Tensor | None = None,
) -> Tensor:
    """L_1 = -mean over anchors i, then over P(i), of log( sim(p, i) / Σ_{all candidates n} sim(n, i) ).

    sim(a, b) = exp(cos(a, b) / temperature); P(i) are the candidates with the label of anchor i. `without` marks
    (anchor, candidate) pairs that do not count, as a sample and itself. Anchors without a positive do not count;
    if none is left the loss is 0.
    """
    similarity = unit(anchors) @ unit(candidates).T / temperature
    positive = anchor_y[:, None] == candidate_y
    if without is not None:
        similarity = similarity.masked_fill(without.to(similarity.device), torch.finfo(similarity.dtype).min)
        positive = positive & ~without.to(positive.device)
    log_share = torch.where(positive, F.log_softmax(similarity, dim=1), 0)
    count = positive.sum(1)
    per_anchor = -log_share.sum(1) / count.clamp(min=1)
    return per_anchor.sum() / (count > 0).sum().clamp(min=1)


def triplet(anchors: Tensor, positives: Tensor, negatives: Tensor, margin: float) -> Tensor:
    """mean over anchors of max(0, ‖a - p‖ - ‖a - n‖ + margin), all features normalised; 0 without anchors."""
    to_positive, to_negative = (
        torch.linalg.vector_norm(unit(anchors) - unit(others), dim=1) for others in (positives, negatives)
    )
    return F.relu(to_positive - to_negative + margin).sum() / max(1, len(anchors))


def binary_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """-mean over x of Σ_c t_c log σ(l_c) + (1 - t_c) log(1 - σ(l_c)), targets t between 0 and 1."""
    return F.binary_cross_entropy_with_logits(logits, targets, reduction="none").sum(1).mean()


def distillation(logits: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """T² · mean over x of KL(p ‖ q), p = softmax(teacher / T), q = softmax(logits / T)."""
    target, answer = (F.log_softmax(part / temperature, dim=1) for part in (teacher, logits))
    return temperature**2 * F.kl_div(answer, target, reduction="batchmean", log_target=True)
