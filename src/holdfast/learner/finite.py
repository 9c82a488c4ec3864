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
    """Whether every absolute value is below the limit; NaN is not."""
    return largest(tensors) < limit


@torch.no_grad()
def largest(tensors: Iterable[Tensor]) -> float:
    """The largest absolute value; NaN if there is one."""
    norms = list(torch._foreach_norm(tensors, torch.inf)) if (tensors := list(tensors)) else []
    return float(torch.stack(norms).max()) if norms else 0.0
