"""An update with a memory of a million images against one with a memory of 200."""

import numpy as np
import torch
from numpy.typing import NDArray

from bench.ratio import Ratio, ratio, seconds
from holdfast import ERACE, ERAML, Batch, Learner, Method, mlp

SHAPE = (3, 32, 32)
CHUNK = 10_000
Images = NDArray[np.uint8]


def filled(method: Method, capacity: int, samples: Images) -> Learner:
    """A learner whose memory is full, of ten classes."""
    learner = Learner(mlp(SHAPE), method, memory=capacity, lr=0.01)
    learner.observe(samples[:10], list(range(10)))
    batch, rng = Batch(torch.from_numpy(samples), torch.arange(CHUNK) % 10), np.random.default_rng(0)
    while learner.memory.offered < capacity:
        learner.memory.add(batch, rng)
    return learner


def bench() -> list[Ratio]:
    samples = np.random.default_rng(0).integers(0, 256, (CHUNK, *SHAPE), np.uint8)
    y = list(range(10))
    rows = []
    for method in (ERACE(), ERAML()):
        small, large = (filled(method, capacity, samples) for capacity in (200, 1_000_000))
        times = seconds(
            {
                "small": lambda small=small: small.observe(samples[:10], y),  # type: ignore[misc]
                "large": lambda large=large: large.observe(samples[:10], y),  # type: ignore[misc]
            },
            rounds=500,
        )
        name = type(method).__name__
        rows.append(Ratio(f"{name} update with a memory of 1,000,000 / 200", ratio(times, "large", "small"), 1.1))
    return rows
