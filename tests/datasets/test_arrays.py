import io
from pathlib import Path
from typing import Any
from zipfile import ZipFile

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


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_images_with_channels_last_get_them_first_and_a_note_says_so(tmp_path: Path, kind: type) -> None:
    x: Any = np.arange(4 * 9 * 8 * 3).reshape(4, 9, 8, 3).astype(kind)
    np.savez(tmp_path / "a.npz", **arrays(train_x=x, test_x=x[:2]))
    dataset = npz(tmp_path / "a.npz")
    assert dataset.sample_shape == (3, 9, 8) and (dataset.test_x == x[:2].transpose(0, 3, 1, 2)).all()
    assert dataset.notes == ("the channels of images came last and were put first",)
    first: Any = np.zeros((4, 3, 9, 8), kind)
    np.savez(tmp_path / "b.npz", **arrays(train_x=first, test_x=first[:2]))
    assert npz(tmp_path / "b.npz").sample_shape == (3, 9, 8) and not npz(tmp_path / "b.npz").notes


def test_a_table_may_be_of_whole_numbers(tmp_path: Path) -> None:
    x = np.arange(12).reshape(4, 3)
    np.savez(tmp_path / "a.npz", **arrays(train_x=x, test_x=x[:2]))
    dataset = npz(tmp_path / "a.npz")
    assert dataset.train_x.dtype == np.float32 and (dataset.train_x == x).all()


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
        ({"test_y": np.eye(2)}, r"test_y is float64 of shape \(2, 2\); it must hold one label per sample"),
        ({"test_x": np.empty((0, 3, 2, 2)), "test_y": np.empty(0)}, "test_x is empty"),
        ({"train_y": [9, 7]}, "4 samples but 2 labels"),
        ({"train_y": [7, 7]}, "train set of a: 4 samples but 2 labels"),
        ({"test_y": [9, 5]}, "test_y has the label 5, which train_y does not have"),
        ({"test_x": np.zeros((2, 5))}, "they must be alike"),
        ({"test_x": np.zeros((2, 3, 2, 2), np.uint8)}, "they must be alike"),
        ({"train_x": np.zeros((4, 3, 8, 8), np.int64)}, r"train_x is int64 .* images from 0 to 255 are x.astype"),
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


def with_header(shape: tuple[int, ...], dtype: str, content: bytes) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"shape": shape, "fortran_order": False, "descr": dtype})
    return file.getvalue() + content


@pytest.mark.parametrize(
    "member",
    [
        with_header((10**15, 3), "<f4", bytes(48)),
        with_header((4, 10**300), "<f4", bytes(48)),
        with_header((4, 3), "<f4", bytes(47)),
        with_header((4, 3), "<f4", bytes(49)),
        with_header((4, -3), "<f4", bytes(48)),
        with_header((10**15,), "<U0", b""),
    ],
)
def test_an_array_that_is_not_as_large_as_it_says_is_refused_before_memory_is_taken(
    tmp_path: Path, member: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, **{name: array for name, array in arrays().items() if name != "train_x"})
    with ZipFile(path, "a") as file:
        file.writestr("train_x.npy", member)
    monkeypatch.setattr(np.lib.npyio.NpzFile, "__getitem__", lambda *_: pytest.fail("memory would be taken"))
    with pytest.raises(DataError, match=r"a\.npz: train_x is damaged"):
        npz(path)


def test_a_small_file_that_unpacks_to_gigabytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, **arrays(train_x=np.zeros((4, 100_000), np.float32)))
    monkeypatch.setattr("holdfast.datasets.arrays.SMALL", 1_000_000)
    with pytest.raises(DataError, match="train_x would unpack to 1,600,128 bytes, but the file has only"):
        npz(path)
    np.savez(path, **arrays(train_x=np.zeros((4, 100_000), np.float32), test_x=np.zeros((2, 100_000), np.float32)))
    assert len(npz(path).train_x) == 4


def test_an_encrypted_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, **arrays())
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x03\x04") + 6] |= 1  # the flag before the first member
    content[content.index(b"PK\x01\x02") + 8] |= 1  # and in the directory
    path.write_bytes(content)
    with pytest.raises(DataError, match="is damaged"):
        npz(path)


def test_a_single_array_is_not_even_read(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(with_header((10**15, 3), "<f4", b""))
    with pytest.raises(DataError, match="is a single array"):
        npz(tmp_path / "a.npy")
