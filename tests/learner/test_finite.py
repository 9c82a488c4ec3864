"""Whether all values are below a limit, whatever the quickest way to find out says."""

import math

import pytest
import torch

from holdfast.learner.finite import LARGEST, all_below, all_finite

MOST = torch.finfo(torch.float32).max


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_one_value_that_is_not_finite_is_found(value: float, dtype: torch.dtype) -> None:
    tensors = [torch.zeros(5, dtype=dtype), torch.ones(3, 4, dtype=dtype)]
    assert all_finite(tensors) and all_below(LARGEST, tensors)
    tensors[1][2, 3] = value
    assert not all_finite(tensors) and not all_below(LARGEST, tensors)


def test_large_values_whose_squares_are_infinite_are_finite() -> None:
    assert all_finite([torch.full((100,), MOST)])
    assert all_finite([torch.full((100,), torch.finfo(torch.float16).max, dtype=torch.float16)])


def test_values_are_below_a_limit_although_their_norm_is_not() -> None:
    assert all_below(LARGEST, [torch.full((1000,), LARGEST / 2)])
    assert not all_below(LARGEST, [torch.tensor([0.0, -LARGEST])])


def test_nothing_is_finite() -> None:
    assert all_finite([]) and all_below(1.0, iter(()))
