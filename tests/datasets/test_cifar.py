from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from holdfast.datasets.cifar import cifar10, cifar100
from holdfast.errors import DataError

WriteCifar = Callable[[Path, str], Path]


def test_cifar10_keeps_labels_planes_and_order_of_the_official_records(tmp_path: Path, write_cifar: WriteCifar) -> None:
    folder = write_cifar(tmp_path, "cifar10")
    dataset = cifar10(tmp_path)
    record = np.fromfile(folder / "data_batch_2.bin", np.uint8)[:3073]
    assert dataset.train_y[4] == record[0]
    assert (dataset.train_x[4] == record[1:].reshape(3, 32, 32)).all()
    assert dataset.train_x.shape == (20, 3, 32, 32)
    assert dataset.test_x.shape == (6, 3, 32, 32)
    assert dataset.train_x.dtype == np.uint8
    assert dataset.train_y.dtype == np.int64
    assert dataset.classes[:2] == ("airplane", "automobile")


def test_cifar100_has_the_fine_labels(tmp_path: Path, write_cifar: WriteCifar) -> None:
    records = np.fromfile(write_cifar(tmp_path, "cifar100") / "test.bin", np.uint8).reshape(5, 3074)
    dataset = cifar100(tmp_path)
    assert (dataset.test_y == records[:, 1]).all()
    assert (dataset.test_x.reshape(5, -1) == records[:, 2:]).all()
    assert len(dataset.classes) == 100


@pytest.mark.parametrize("load", [cifar10, cifar100])
def test_absent_data_name_the_command_that_gets_them(load: Callable[[Path], object], tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"run `holdfast data get {load.__name__}`"):
        load(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path, write_cifar: WriteCifar) -> None:
    (write_cifar(tmp_path, "cifar10") / "data_batch_3.bin").unlink()
    with pytest.raises(DataError, match=r"data_batch_3\.bin is missing.*holdfast data get cifar10"):
        cifar10(tmp_path)


def test_a_truncated_file_is_named_with_the_right_size(tmp_path: Path, write_cifar: WriteCifar) -> None:
    path = write_cifar(tmp_path, "cifar10") / "test_batch.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"test_batch\.bin has 18437 bytes where 18438 are right"):
        cifar10(tmp_path)


def test_a_label_beyond_the_classes_is_refused(tmp_path: Path, write_cifar: WriteCifar) -> None:
    path = write_cifar(tmp_path, "cifar10") / "test_batch.bin"
    path.write_bytes(b"\x0a" + path.read_bytes()[1:])
    with pytest.raises(DataError, match=r"test_batch\.bin has the label 10 where 9 is the highest"):
        cifar10(tmp_path)


def test_a_wrong_number_of_class_names_is_refused(tmp_path: Path, write_cifar: WriteCifar) -> None:
    (write_cifar(tmp_path, "cifar10") / "batches.meta.txt").write_text("airplane\n")
    with pytest.raises(DataError, match="names 1 classes where 10 are right"):
        cifar10(tmp_path)
