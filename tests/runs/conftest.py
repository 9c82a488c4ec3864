from pathlib import Path

import numpy as np
import pytest

from holdfast.datasets.base import Dataset


@pytest.fixture
def npz(blobs: Dataset, tmp_path: Path) -> str:
    """A small stream of one's own."""
    file = tmp_path / "blobs.npz"
    np.savez(file, train_x=blobs.train_x, train_y=blobs.train_y, test_x=blobs.test_x, test_y=blobs.test_y)
    return f"arrays:{file}"
