import json
import os
import signal
from collections.abc import Callable
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # read when torch is imported; torch.set_num_threads is for one thread alone

os.environ.setdefault("HOLDFAST_PRECISION", "float32")  # what is tested does not depend on what works here

import numpy as np
import pytest
from hypothesis import settings

from holdfast.datasets.base import Dataset
from holdfast.streams import Stream, split

signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it may be ignored, by children too

# The same examples every time, and no failure because the machine is busy.
settings.register_profile("steady", derandomize=True, deadline=None, database=None)
# Other examples every time, and more of them, for `make reliability`; a failure prints what repeats it.
settings.register_profile("random", deadline=None, database=None, max_examples=1000, print_blob=True)
settings.load_profile("steady")


@pytest.fixture
def blobs() -> Dataset:
    """Six well separated classes of 8-dimensional vectors."""
    rng = np.random.default_rng(0)
    centres = 3 * rng.standard_normal((6, 8))
    train_y, test_y = np.repeat(np.arange(6), 40), np.repeat(np.arange(6), 20)
    train_x, test_x = ((centres[y] + rng.standard_normal((len(y), 8))).astype(np.float32) for y in (train_y, test_y))
    return Dataset("blobs", tuple("abcdef"), train_x, train_y, test_x, test_y)


@pytest.fixture
def stream(blobs: Dataset) -> Stream:
    return split(blobs, tasks=3)


@pytest.fixture
def same() -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What must be the same in two records of one run: everything but how long it took and who asked for it."""

    def without_times(record: dict[str, Any]) -> dict[str, Any]:
        plain: dict[str, Any] = json.loads(json.dumps(record))
        return {key: value for key, value in plain.items() if key not in ("seconds", "train_seconds", "command")}

    return without_times
