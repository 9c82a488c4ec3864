"""Losses as pure functions of tensors. Each is a mean over the batch."""

import torch
from torch import Tensor
from torch.nn import functional as F


def cross_entropy(logits: Tensor, y: Tensor, among: Tensor | None = None) -> Tensor:
    """L_ce(X, C) = -mean over x of log( exp(l_y) / Σ_{c in C} exp(l_c) ), C = `among` (sorted class indices).

    Without `among`, C is every column of `logits`.
    """
    if among is None:
        return F.cross_entropy(logits, y)
    return F.cross_entropy(logits.index_select(1, among), torch.searchsorted(among, y))


def supcon(anchors: Tensor, anchor_y: Tensor, candidates: Tensor, candidate_y: Tensor, temperature: float) -> Tensor:
    """L_1 = -mean over anchors i, then over P(i), of log( sim(p, i) / Σ_{all candidates n} sim(n, i) ).

    sim(a, b) = exp(cos(a, b) / temperature); P(i) are the candidates with the label of anchor i.
    Anchors without a positive do not count; if none is left the loss is 0.
    """
    cosine = F.normalize(anchors, dim=1) @ F.normalize(candidates, dim=1).T
    log_share = F.log_softmax(cosine / temperature, dim=1)
    positive = anchor_y[:, None] == candidate_y
    count = positive.sum(1)
    per_anchor = -(log_share * positive).sum(1) / count.clamp(min=1)
    return per_anchor.sum() / (count > 0).sum().clamp(min=1)


def triplet(anchors: Tensor, positives: Tensor, negatives: Tensor, margin: float) -> Tensor:
    """mean over anchors of max(0, ‖a - p‖ - ‖a - n‖ + margin), all features normalised; 0 without anchors."""
    if len(anchors) == 0:
        return anchors.sum()
    anchors, positives, negatives = (F.normalize(f, dim=1) for f in (anchors, positives, negatives))
    return F.triplet_margin_loss(anchors, positives, negatives, margin=margin)
