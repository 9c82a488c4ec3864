from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.datasets.integrity import content_hash, verify
from holdfast.errors import DataError

WriteCifar = Callable[[Path, str], Path]


@given(st.permutations(range(6)))
def test_the_content_hash_knows_no_order(order: list[int]) -> None:
    x = np.arange(6 * 12, dtype=np.uint8).reshape(6, 3, 2, 2)
    y = np.array([0, 1, 2, 0, 1, 2])
    assert content_hash(x[order], y[order]) == content_hash(x, y)


def test_the_content_hash_knows_which_label_belongs_to_which_sample() -> None:
    x = np.arange(2 * 12, dtype=np.uint8).reshape(2, 3, 2, 2)
    assert content_hash(x, np.array([0, 1])) != content_hash(x, np.array([1, 0]))


@pytest.mark.parametrize(
    ("file", "part"), [("data_batch_5.bin", "training samples"), ("test_batch.bin", "test samples")]
)
def test_one_changed_pixel_is_found(tmp_path: Path, write_cifar: WriteCifar, file: str, part: str) -> None:
    path = write_cifar(tmp_path, "cifar10") / file
    assert part in verify("cifar10", tmp_path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"cifar10 in .* is damaged: its {part} hash to"):
        verify("cifar10", tmp_path)


def test_changed_class_names_are_found(tmp_path: Path, write_cifar: WriteCifar) -> None:
    path = write_cifar(tmp_path, "cifar10") / "batches.meta.txt"
    path.write_text(path.read_text().replace("cat", "cow"))
    with pytest.raises(DataError, match="its class names hash to"):
        verify("cifar10", tmp_path)
