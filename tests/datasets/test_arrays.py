from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.datasets.arrays import npz
from holdfast.errors import DataError, InputError


def arrays(**changed: Any) -> dict[str, Any]:
    x = np.arange(4 * 12, dtype=np.float32).reshape(4, 3, 2, 2)
    return {"train_x": x, "train_y": [7, 7, 3, 9], "test_x": x[:2], "test_y": [9, 7]} | changed


def test_the_arrays_are_the_dataset(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", **arrays())
    dataset = npz(tmp_path / "mine.npz")
    assert dataset.name == "mine"
    assert dataset.classes == ("7", "3", "9")
    assert dataset.test_y.tolist() == [2, 0]
    assert dataset.train_x.dtype == np.float32
    assert (dataset.train_x == arrays()["train_x"]).all()


def test_labels_may_be_strings(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", **arrays(train_y=["cat", "dog", "cat", "eel"], test_y=["dog", "cat"]))
    assert npz(tmp_path / "a.npz").classes == ("cat", "dog", "eel")


def test_missing_arrays_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", train_x=[1], train_y=[1], labels=[1])
    with pytest.raises(DataError, match=r"lacks test_x, test_y; it has train_x, train_y, labels"):
        npz(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"train_y": np.array([{}, [], 1, "x"], object)}, "train_y is an array of objects"),
        ({"train_x": np.array(["a", "b", "c", "d"])}, "train_x is <U1 of shape"),
        ({"train_x": np.array(3.0)}, r"train_x is float64 of shape \(\)"),
        ({"test_y": np.eye(2)}, r"test_y is float64 of shape \(2, 2\); it must hold one label a sample"),
        ({"test_x": np.empty((0, 3, 2, 2)), "test_y": np.empty(0)}, "test_x is empty"),
        ({"train_y": [9, 7]}, "4 samples but 2 labels"),
        ({"test_y": [9, 5]}, "test_y has the label 5, which train_y does not have"),
        ({"test_x": np.zeros((2, 5))}, "they must be alike"),
        ({"test_x": np.zeros((2, 3, 2, 2), np.uint8)}, "they must be alike"),
        ({"train_x": np.zeros((4, 3), np.int64)}, "train_x is int64 .* it must hold uint8 or float"),
        ({"train_x": np.full((4, 3), np.nan)}, "train_x has values that are NaN"),
    ],
)
def test_arrays_that_cannot_be_a_dataset_are_refused(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays(**changed))
    with pytest.raises((DataError, InputError), match=message):
        npz(tmp_path / "a.npz")


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04 and no zip", b"\x80\x04N."])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"is not an \.npz file"):
        npz(tmp_path / "a.npz")


def test_damage_inside_the_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, **arrays())
    content = bytearray(path.read_bytes())
    content[200] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(DataError, match="train_x is damaged"):
        npz(path)


def test_a_single_array_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3))
    with pytest.raises(DataError, match="is a single array"):
        npz(tmp_path / "a.npy")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nothing\.npz is not a file"):
        npz(tmp_path / "nothing.npz")
