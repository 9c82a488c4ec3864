"""Memories of samples that can be told apart, and what is asked of all of them."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy.stats import chi2

from holdfast import Batch, Memory


def batch(y: list[int], first: int = 0) -> Batch:
    """Samples numbered from `first`, so that each can be recognised."""
    return Batch(torch.arange(first, first + len(y), dtype=torch.int32)[:, None], torch.tensor(y, dtype=torch.int64))


def everything(memory: Memory) -> Batch:
    return memory.at(np.arange(len(memory)))


def digest(memory: Memory) -> str:
    parts = [f"{name} {values.shape}".encode() + values.tobytes() for name, values in sorted(memory.state().items())]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def inclusion_p(counts: Sequence[int] | np.ndarray[Any, Any], runs: int, held: int) -> float:
    """The p-value of equal inclusion, where every run includes exactly `held` of the samples."""
    n, share = len(counts), held / len(counts)
    statistic = sum((count - runs * share) ** 2 for count in counts) / (runs * share * (1 - share)) * (n - 1) / n
    return float(chi2.sf(statistic, n - 1))
