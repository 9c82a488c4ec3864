"""A folder of class folders of images."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets.base import Dataset
from holdfast.datasets.decoded import kept
from holdfast.datasets.progress import progress
from holdfast.errors import DataError, InputError

SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"})
TEST_EVERY = 6
TRAIN = ("train", "training")
TEST = ("test", "testing")
VALIDATION = ("val", "valid", "validation")

ImagesOfClass = dict[str, list[Path]]


def folder(path: str | Path, size: int = 32, cache: Path | None = None) -> Dataset:
    """A folder of images for each class, or `train` and `test` (or `val`) folders of such folders.

    Where there is nothing to test on, every sixth image of a class is taken for it. Images become RGB of size×size:
    centre-cropped to a square, then scaled. What was done about both is in the dataset's notes. Decoded images are
    kept in `cache`, if one is given, until the files change.
    """
    path = Path(path).resolve()
    if size < 1:
        raise InputError(f"size is {size}; an image needs at least 1 pixel a side")
    if not path.is_dir():
        raise DataError(f"{path} is not a folder: give one that holds a folder of images for each class")
    train, test, note = parts(path)
    classes = tuple(train)
    resized = f"images are cropped to squares and scaled to {size} × {size} pixels (option size)"
    x, y = read(train, classes, size, cache)
    return Dataset(path.name, classes, x, y, *read(test, classes, size, cache), (note, resized))


def parts(path: Path) -> tuple[ImagesOfClass, ImagesOfClass, str]:
    """What to train on, what to test on, and a sentence about it."""
    halves = {each.name.lower(): each for each in visible(path) if each.is_dir() and not has_images(each)}
    trains = [halves[name] for name in TRAIN if name in halves]
    if not trains:
        train, test = split(images_of_classes(path))
        return train, test, f"every sixth image of a class is for testing: {path} has no train and test folders"
    tests = [halves[name] for name in (*TEST, *VALIDATION) if name in halves]
    if not tests:
        train, test = split(images_of_classes(trains[0]))
        return train, test, f"every sixth image of a class is for testing: {path} has no folder test or val"
    train, test = images_of_classes(trains[0]), images_of_classes(tests[0])
    require_same_classes(trains[0], train, tests[0], test)
    unused = "".join(f", {each.name} is not used" for each in tests[1:])
    return train, test, f"training on {trains[0].name}, testing on {tests[0].name}{unused}"


def images_of_classes(path: Path) -> ImagesOfClass:
    folders = [each for each in visible(path) if each.is_dir()]
    if not folders:
        raise DataError(f"{path} has no class folders: it must hold a folder of images for each class")
    return {each.name: images_in(each) for each in folders}


def images_in(path: Path) -> list[Path]:
    images = [each for each in visible(path) if each.suffix.lower() in SUFFIXES and each.is_file()]
    if not images:
        kinds = ", ".join(sorted(suffix[1:] for suffix in SUFFIXES))
        raise DataError(f"the class folder {path} has no images: it must hold at least one of {kinds}")
    return images


def visible(path: Path) -> list[Path]:
    try:
        return sorted(each for each in path.iterdir() if not each.name.startswith("."))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error


def has_images(path: Path) -> bool:
    return any(each.suffix.lower() in SUFFIXES for each in visible(path))


def require_same_classes(train_path: Path, train: ImagesOfClass, test_path: Path, test: ImagesOfClass) -> None:
    for name in sorted(train.keys() ^ test.keys()):
        has, lacks = (train_path, test_path) if name in train else (test_path, train_path)
        raise DataError(f"{has} has the class {name!r}, which {lacks} has not: both need it")


def split(images: ImagesOfClass) -> tuple[ImagesOfClass, ImagesOfClass]:
    for each in images.values():
        if len(each) < 2:
            raise DataError(f"{each[0].parent} has 1 image: at least 2 are needed, one to train on and one to test on")
    train = {name: [p for i, p in enumerate(each) if i % TEST_EVERY] for name, each in images.items()}
    test = {name: each[::TEST_EVERY] for name, each in images.items()}
    return train, test


def read(
    images: ImagesOfClass, classes: tuple[str, ...], size: int, cache: Path | None = None
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    paths = [path for name in classes for path in images[name]]
    x = kept(cache, paths, size, lambda: decoded(paths, size))
    return x, np.repeat(np.arange(len(classes)), [len(images[name]) for name in classes])


def decoded(paths: Sequence[Path], size: int) -> NDArray[np.uint8]:
    x = np.empty((len(paths), 3, size, size), np.uint8)
    with progress("decoding images", len(paths)) as advance:
        for row, path in zip(x, paths, strict=True):
            row[:] = pixels(path, size)
            advance(1)
    return x


def pixels(path: Path, size: int) -> NDArray[np.uint8]:
    from holdfast import images  # which loads Pillow

    return images.fitted(images.read(path), size, size)
