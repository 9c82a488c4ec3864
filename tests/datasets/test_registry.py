import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from holdfast.datasets import fingerprint, listing, load
from holdfast.datasets.embedded import fashion
from holdfast.errors import UnknownName

WriteCifar = Callable[[Path, str], Path]


def test_datasets_load_by_name(tmp_path: Path, write_cifar: WriteCifar) -> None:
    write_cifar(tmp_path, "cifar10")
    write_cifar(tmp_path, "cifar100")
    for name in ("fashion", "cifar10", "cifar100"):
        assert load(name, tmp_path).name == name


def test_an_unknown_name_says_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match=r"did you mean 'cifar100'\? there are fashion, cifar10, cifar100"):
        load("cifar1000", tmp_path)


def test_the_listing_says_what_is_there_and_how_to_get_the_rest(tmp_path: Path) -> None:
    assert [tuple(row) for row in listing(tmp_path)] == [
        ("fashion", 10, 5000, 1000, (1, 28, 28), "present"),
        ("cifar10", 10, 50000, 10000, (3, 32, 32), "holdfast data get cifar10"),
        ("cifar100", 100, 50000, 10000, (3, 32, 32), "holdfast data get cifar100"),
        ("mini-imagenet", 100, 50000, 10000, (3, 84, 84), "holdfast data get mini-imagenet --from PATH"),
    ]


def test_the_listing_sees_what_was_brought(tmp_path: Path, write_cifar: WriteCifar) -> None:
    write_cifar(tmp_path, "cifar10")
    statuses = {row.name: row.status for row in listing(tmp_path)}
    assert statuses["cifar10"] == "present"
    assert statuses["cifar100"] != "present"


def test_the_listing_tells_the_facts_of_the_embedded_data(tmp_path: Path) -> None:
    row, dataset = listing(tmp_path)[0], fashion()
    assert (row.classes, row.train, row.test) == (10, len(dataset.train_x), len(dataset.test_x))
    assert row.sample_shape == dataset.sample_shape


def test_the_fingerprint_tells_data_apart() -> None:
    dataset = fashion()
    pixel, label = dataset.train_x.copy(), dataset.test_y.copy()
    pixel[0, 0, 14, 14] = ~pixel[0, 0, 14, 14]
    label[0] = (label[0] + 1) % 10
    variants = [
        dataset,
        replace(dataset, train_x=pixel),
        replace(dataset, test_y=label),
        replace(dataset, train_x=dataset.train_x[::-1], train_y=dataset.train_y[::-1]),
        replace(dataset, **{part: getattr(dataset, part).astype(np.float32) for part in ("train_x", "test_x")}),
    ]
    assert len({fingerprint(each) for each in variants}) == len(variants)
    assert fingerprint(dataset) == fingerprint(fashion())


def test_importing_the_datasets_imports_nothing_heavy() -> None:
    program = """
import sys, holdfast
before = {*sys.modules}
import holdfast.datasets.arrays, holdfast.datasets.folder, holdfast.datasets.get
print({"torch", "PIL", "rich", "urllib.request"} & {*sys.modules} - before)
"""
    result = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert result.stdout.strip() == "set()"
