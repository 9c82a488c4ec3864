"""Whether numbers are such that one can go on computing with them."""

from collections.abc import Iterable

import torch
from torch import Tensor

from holdfast.samples import is_dense

LARGEST = 2.0**63  # of a weight or statistic: the square of a larger one would be infinite
LARGE = 2.0**10  # rare in a net that is well; answers may be infinite from here on


def has_numbers(tensor: Tensor) -> bool:
    """Such as may become infinite."""
    return tensor.is_floating_point() and tensor.itemsize > 1 and is_dense(tensor) and tensor.numel() > 0


def numbers_of(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """Those that it keeps for each value of a parameter."""
    values = [value for state in optimizer.state.values() for value in state.values()]
    return [value for value in values if isinstance(value, Tensor) and value.ndim and has_numbers(value)]


def all_finite(tensors: Iterable[Tensor]) -> bool:
    return all_below(torch.inf, tensors)


def all_below(limit: float, tensors: Iterable[Tensor]) -> bool:
    """Whether every absolute value is below the limit; NaN is not.

    No value is beyond the Euclidean norm, which takes far less time than the maximum.
    """
    tensors = list(tensors)
    return _norms_below(limit, tensors, order=2) or _norms_below(limit, tensors, order=torch.inf)


def _norms_below(limit: float, tensors: list[Tensor], order: float) -> bool:
    norms = list(torch._foreach_norm(tensors, order)) if tensors else []
    return not norms or bool((torch.stack(norms) < limit).all())
