from pathlib import Path

import numpy as np
import pytest

from holdfast.datasets.base import Dataset
from holdfast.runs.spec import RunSpec
from holdfast.runs.store import Store

SLOW = """
import time
from holdfast import ERACE

class Slow(ERACE):
    def loss(self, net, new, old=None):
        time.sleep(0.02)
        return super().loss(net, new, old)
"""


@pytest.fixture
def npz(blobs: Dataset, tmp_path: Path) -> str:
    """A small stream of one's own."""
    file = tmp_path / "blobs.npz"
    np.savez(file, train_x=blobs.train_x, train_y=blobs.train_y, test_x=blobs.test_x, test_y=blobs.test_y)
    return f"arrays:{file}"


@pytest.fixture
def slow(npz: str, tmp_path: Path) -> RunSpec:
    """A run of two to three seconds."""
    file = tmp_path / "slow.py"
    file.write_text(SLOW)
    return RunSpec(stream=f"{npz}:batch=2", method=f"{file}:Slow", memory=4, eval_every=7)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "runs.sqlite")
    store.open()
    return store
