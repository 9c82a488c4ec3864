"""CIFAR-10 and CIFAR-100 in the official binary layout: label bytes, then the R, G and B planes."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets.base import Dataset
from holdfast.errors import DataError, UnknownName

SAMPLE_SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32


@dataclass(frozen=True)
class Layout:
    """Where one of the two lies under a data root. Each part maps its files to their numbers of records."""

    name: str
    folder: str
    names_file: str
    classes: int
    label_bytes: int
    train: Mapping[str, int]
    test: Mapping[str, int]

    @property
    def record_bytes(self) -> int:
        return self.label_bytes + PIXELS

    @property
    def files(self) -> tuple[str, ...]:
        return (*self.train, *self.test, self.names_file)

    def fault(self, root: Path) -> str | None:
        """What is missing or of a wrong size, or None. Looks at no content."""
        folder = root / self.folder
        if not folder.is_dir():
            return f"{self.name} is not in {root}"
        for file in self.files:
            if not (folder / file).is_file():
                return f"{folder / file} is missing"
        for file, records in {**self.train, **self.test}.items():
            found, right = (folder / file).stat().st_size, records * self.record_bytes
            if found != right:
                return f"{folder / file} has {found} bytes where {right} are right"
        return None

    def class_names(self, root: Path) -> tuple[str, ...]:
        path = root / self.folder / self.names_file
        names = tuple(path.read_text(encoding="utf-8", errors="replace").split())
        if len(names) != self.classes:
            raise DataError(f"{path} names {len(names)} classes where {self.classes} are right")
        return names

    def part(self, root: Path, files: Mapping[str, int]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """The images and the labels; of CIFAR-100's two labels the fine one, which is the last."""
        x = np.empty((sum(files.values()), PIXELS), np.uint8)
        y = np.empty(len(x), np.int64)
        start = 0
        for file, count in files.items():
            path = root / self.folder / file
            records = np.fromfile(path, np.uint8).reshape(count, self.record_bytes)
            x[start : start + count] = records[:, self.label_bytes :]
            y[start : start + count] = labels = records[:, self.label_bytes - 1]
            if (highest := labels.max()) >= self.classes:
                raise DataError(f"{path} has the label {highest} where {self.classes - 1} is the highest")
            start += count
        return x.reshape(-1, *SAMPLE_SHAPE), y

    def read(self, root: Path) -> Dataset:
        if fault := self.fault(root):
            raise DataError(f"{fault}: run `holdfast data get {self.name}`")
        classes = self.class_names(root)
        return Dataset(self.name, classes, *self.part(root, self.train), *self.part(root, self.test))


LAYOUTS = {
    "cifar10": Layout(
        name="cifar10",
        folder="cifar-10-batches-bin",
        names_file="batches.meta.txt",
        classes=10,
        label_bytes=1,
        train={f"data_batch_{i}.bin": 10_000 for i in range(1, 6)},
        test={"test_batch.bin": 10_000},
    ),
    "cifar100": Layout(
        name="cifar100",
        folder="cifar-100-binary",
        names_file="fine_label_names.txt",
        classes=100,
        label_bytes=2,
        train={"train.bin": 50_000},
        test={"test.bin": 10_000},
    ),
}


def layout(name: str) -> Layout:
    if name not in LAYOUTS:
        raise UnknownName("dataset", name, LAYOUTS)
    return LAYOUTS[name]


def cifar10(root: Path) -> Dataset:
    return layout("cifar10").read(root)


def cifar100(root: Path) -> Dataset:
    return layout("cifar100").read(root)
