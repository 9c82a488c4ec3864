"""Losses as pure functions of tensors. Each is a mean over the batch."""

import torch
from torch import Tensor
from torch.nn import functional as F


def unit(x: Tensor) -> Tensor:
    """Rows divided by their norms.

    A zero row has no direction and stays zero, with a gradient of ordinary size.

    Args:
        x: rows of features, of shape (n, features).

    Returns:
        The rows with norm 1, of the same shape.
    """
    norm = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    return x / torch.where(norm > 0, norm, 1)


def squared_distances(x: Tensor, points: Tensor) -> Tensor:
    """Squared Euclidean distances of rows to points.

    Args:
        x: rows of features, of shape (n, features).
        points: of shape (m, features).

    Returns:
        Of shape (n, m).
    """
    if torch.compiler.is_compiling():  # how cdist computes depends on n, which an exported graph leaves open
        return (x[:, None] - points).square().sum(2)
    return torch.cdist(x, points).square()


def cross_entropy(logits: Tensor, y: Tensor, among: Tensor | None = None) -> Tensor:
    """Cross-entropy among some of the classes.

    L_ce(X, C) = -mean over x of log( exp(l_y) / Σ_{c in C} exp(l_c) ), where C are the classes in `among`.

    Args:
        logits: of shape (samples, classes).
        y: the class index of each sample. One outside of C has probability 0: the loss is infinite.
        among: the indices of the classes that compete, C; every column of `logits` if None.

    Returns:
        The mean over the batch, a tensor with one value.

    Examples:
        >>> import torch
        >>> logits = torch.tensor([[0.0, 0.0, 5.0]])
        >>> round(float(cross_entropy(logits, torch.tensor([0]), among=torch.tensor([0, 1]))), 4)
        0.6931
    """
    if among is not None:
        excluded = torch.ones(logits.shape[1], dtype=torch.bool, device=logits.device)
        excluded[among] = False
        logits = logits.masked_fill(excluded, -torch.inf)
    return F.cross_entropy(logits, y)


def balanced_cross_entropy(logits: Tensor, y: Tensor, counts: Tensor) -> Tensor:
    """Cross-entropy in which a class competes with the weight of its number of samples.

    -mean over x of log( n_y exp(l_y) / Σ_c n_c exp(l_c) ), where n_c is the number of samples of class c. A class
    without samples does not compete.

    Args:
        logits: of shape (samples, classes).
        y: the class index of each sample.
        counts: the number of samples of each class, n_c.

    Returns:
        The mean over the batch, a tensor with one value.
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
    """Supervised contrastive loss.

    L_1 = -mean over anchors i, then over P(i), of log( sim(p, i) / Σ_{all candidates n} sim(n, i) ), where
    sim(a, b) = exp(cos(a, b) / temperature) and P(i) are the candidates with the label of anchor i.

    Args:
        anchors: features of shape (anchors, features).
        anchor_y: the class index of each anchor.
        candidates: features of shape (candidates, features).
        candidate_y: the class index of each candidate.
        temperature: divides the cosines.
        without: marks pairs (anchor, candidate) that do not count, such as a sample and itself.

    Returns:
        The mean over the anchors that have a positive, a tensor with one value; 0 if none has.

    Examples:
        >>> import torch
        >>> features, y = torch.eye(2), torch.tensor([0, 1])
        >>> round(float(supcon(features, y, features, y, temperature=1.0)), 4)
        0.3133
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
    """Triplet loss on normalised features.

    The mean over anchors of max(0, ‖a - p‖ - ‖a - n‖ + margin).

    Args:
        anchors: features of shape (anchors, features).
        positives: features of the same shape, one row for each anchor.
        negatives: features of the same shape, one row for each anchor.
        margin: by how much the negative has to be further away.

    Returns:
        The mean, a tensor with one value; 0 without anchors.
    """
    to_positive, to_negative = (
        torch.linalg.vector_norm(unit(anchors) - unit(others), dim=1) for others in (positives, negatives)
    )
    return F.relu(to_positive - to_negative + margin).sum() / max(1, len(anchors))


def binary_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """A binary loss for each class, summed over classes.

    -mean over x of Σ_c t_c log σ(l_c) + (1 - t_c) log(1 - σ(l_c)).

    Args:
        logits: of shape (samples, classes).
        targets: of the same shape, between 0 and 1.

    Returns:
        The mean over the batch, a tensor with one value.
    """
    return F.binary_cross_entropy_with_logits(logits, targets, reduction="none").sum(1).mean()


def distillation(logits: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Keeps the answers of a teacher.

    T² · mean over x of KL(p ‖ q) with p = softmax(teacher / T) and q = softmax(logits / T).

    Args:
        logits: of shape (samples, classes).
        teacher: the teacher's logits, of the same shape.
        temperature: T.

    Returns:
        The mean over the batch, a tensor with one value.
    """
    target, answer = (F.log_softmax(part / temperature, dim=1) for part in (teacher, logits))
    return temperature**2 * F.kl_div(answer, target, reduction="batchmean", log_target=True)
