"""Datasets by name, and what a dataset is."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from holdfast.datasets import cifar, embedded, mini_imagenet
from holdfast.datasets.adapted import batches, from_dataset
from holdfast.datasets.base import Dataset, from_arrays
from holdfast.errors import DataError, UnknownName

__all__ = ["LOADERS", "Dataset", "Row", "batches", "fingerprint", "from_arrays", "from_dataset", "listing", "load"]

LOADERS: dict[str, Callable[[Path], Dataset]] = {
    "fashion": lambda root: embedded.fashion(),
    "cifar10": cifar.cifar10,
    "cifar100": cifar.cifar100,
    "mini-imagenet": mini_imagenet.mini_imagenet,
}


class Row(NamedTuple):
    """A line of the listing. `status` is "present" or the command that gets the data."""

    name: str
    classes: int
    train: int
    test: int
    sample_shape: tuple[int, ...]
    status: str


def load(name: str, root: Path) -> Dataset:
    if name not in LOADERS:
        raise UnknownName("dataset", name, LOADERS)
    try:
        return LOADERS[name](root)
    except OSError as error:
        raise DataError(f"{name} cannot be read from {root}: {error}") from error


def listing(root: Path) -> list[Row]:
    classes = len(embedded.CLASSES)
    train, test = classes * embedded.TRAIN_PER_CLASS, classes * embedded.TEST_PER_CLASS
    mini = mini_imagenet.LAYOUT
    return [
        Row("fashion", classes, train, test, embedded.SAMPLE_SHAPE, "present"),
        *(
            Row(
                name=name,
                classes=layout.classes,
                train=sum(layout.train.values()),
                test=sum(layout.test.values()),
                sample_shape=cifar.SAMPLE_SHAPE,
                status=f"holdfast data get {name}" if _fault(layout, root) else "present",
            )
            for name, layout in cifar.LAYOUTS.items()
        ),
        Row(
            name=mini.name,
            classes=mini.classes,
            train=mini.classes * mini.train,
            test=mini.classes * mini.test,
            sample_shape=mini.sample_shape,
            status=f"holdfast data get {mini.name} --from PATH" if _fault(mini, root) else "present",
        ),
    ]


def _fault(layout: cifar.Layout | mini_imagenet.Layout, root: Path) -> str | None:
    try:
        return layout.fault(root)
    except OSError as error:
        raise DataError(f"{root} cannot be read: {error.strerror}") from error


def fingerprint(dataset: Dataset) -> str:
    """sha256 of the arrays with their shapes and types; the order of the samples counts."""
    whole = hashlib.sha256()
    for array in (dataset.train_x, dataset.train_y, dataset.test_x, dataset.test_y):
        whole.update(f"{array.dtype.str}{array.shape}".encode())
        whole.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return whole.hexdigest()
