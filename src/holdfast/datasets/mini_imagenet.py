"""Split MiniImageNet: 100 classes of 600 images, which may not be handed on: users bring their own.

Kept as raw pixels, class after class. The classes have one order, whatever they come from. Of each class the first
images are for the test, the others to train on, unless they come in folders that say otherwise.
"""

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets.base import Dataset
from holdfast.datasets.folder import ImagesOfClass, images_in, pixels, visible
from holdfast.datasets.lists import images_of_lists
from holdfast.datasets.progress import progress
from holdfast.errors import DataError

PARTS = ("train", "val", "test")  # of the few-shot split, in which each has classes of its own, or of another one
TRAIN_FILE, TEST_FILE, NAMES_FILE, SUMS_FILE = "train.bin", "test.bin", "classes.txt", "SHA256SUMS"
SUMMED = (TRAIN_FILE, TEST_FILE, NAMES_FILE)
Folders = dict[str, dict[str, Path]]  # by part and class


@dataclass(frozen=True)
class Layout:
    """Where it lies under a data root, and how much there is of it."""

    name: str = "mini-imagenet"
    folder: str = "mini-imagenet"
    classes: int = 100
    train: int = 500  # images a class
    test: int = 100
    side: int = 84

    @property
    def sample_shape(self) -> tuple[int, int, int]:
        return 3, self.side, self.side

    @property
    def parts(self) -> dict[str, int]:
        """How many images of a class each file holds."""
        return {TRAIN_FILE: self.train, TEST_FILE: self.test}

    @property
    def to_bring(self) -> str:
        lists = ", ".join(f"{part}.csv" for part in PARTS)
        parts = f"in train/ and val/ or test/ if you have split them, {self.train} and {self.test} of each class"
        return f"a folder with images/ and {lists}, or one with {self.classes} class folders of images ({parts})"

    def fault(self, root: Path) -> str | None:
        """What is missing or of a wrong size, or None. Looks at no content."""
        folder = root / self.folder
        if not folder.is_dir():
            return f"{self.name} is not in {root}"
        for file in (*SUMMED, SUMS_FILE):
            if not (folder / file).is_file():
                return f"{folder / file} is missing"
        for file, images in self.parts.items():
            found, right = (folder / file).stat().st_size, self.classes * images * int(np.prod(self.sample_shape))
            if found != right:
                return f"{folder / file} has {found} bytes where {right} are right"
        return None

    def read(self, root: Path) -> Dataset:
        if fault := self.fault(root):
            raise DataError(f"{fault}: run `holdfast data get {self.name} --from PATH`")
        path = root / self.folder / NAMES_FILE
        classes = tuple(path.read_text(encoding="utf-8", errors="replace").removesuffix("\n").split("\n"))
        if len(classes) != self.classes:
            raise DataError(f"{path} names {len(classes)} classes where {self.classes} are right")
        train, test = (self._part(root, file, images) for file, images in self.parts.items())
        return Dataset(self.name, classes, *train, *test)

    def _part(self, root: Path, file: str, images: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Mapped, not read: it is there at once, and processes share it."""
        shape = (self.classes * images, *self.sample_shape)
        x = np.memmap(root / self.folder / file, np.uint8, mode="c", shape=shape)
        return np.asarray(x), np.repeat(np.arange(self.classes), images)

    def verify(self, root: Path) -> dict[str, str]:
        """The sha256 of each file, after they were found to be what was written."""
        folder = root / self.folder
        try:
            self.read(root)
            written = (folder / SUMS_FILE).read_text(encoding="utf-8", errors="replace").splitlines()
            found = sums(folder)
        except OSError as error:
            raise DataError(f"{self.name} cannot be read from {root}: {error}") from error
        for file, digest in found.items():
            if f"{digest}  {file}" not in written:
                raise DataError(f"{self.name} in {root} is damaged: {file} is not what was written into it")
        return found

    def bring(self, source: Path | None, root: Path, say: Callable[[str], None]) -> str:
        """Decode all images into a folder under `root`; returns where they came from."""
        if source is None:
            command = f"`holdfast data get {self.name} --from PATH`"
            why = "as its images may not be redistributed"
            raise DataError(f"{self.name} cannot be downloaded, {why}: {command} takes {self.to_bring}")
        try:
            images = self.find(source)
        except OSError as error:
            raise DataError(f"{source} cannot be read: {error}") from error
        folder = root / self.folder
        folder.mkdir()
        (folder / NAMES_FILE).write_text("\n".join(images) + "\n", encoding="utf-8", errors="replace")
        self._decode(images, folder, say)
        lines = [f"{digest}  {file}\n" for file, digest in sums(folder).items()]
        (folder / SUMS_FILE).write_text("".join(lines), encoding="utf-8")
        return str(source)

    def find(self, source: Path) -> ImagesOfClass:
        """The images of each class, with nothing missing and nothing left over."""
        if not source.is_dir():
            raise DataError(f"{source} is not a folder: give {self.to_bring}")
        lists = [source / f"{part}.csv" for part in PARTS]
        if any(map(Path.exists, lists)):
            found = images_of_lists(lists, source / "images")
        elif is_split(parts := folders_of_parts(source)):
            found = self._as_split(parts, source)
        else:
            found = {name: images_in(folder) for of_part in parts.values() for name, folder in of_part.items()}
        if len(found) != self.classes:
            raise DataError(f"{source} has {len(found)} classes where {self.classes} are right: give {self.to_bring}")
        for name, images in found.items():
            if len(images) != self.train + self.test:
                raise DataError(
                    f"the class {name!r} of {source} has {len(images)} images where {self.train + self.test} are right"
                )
        return {name: found[name] for name in in_order(found)}

    def _as_split(self, parts: Folders, source: Path) -> ImagesOfClass:
        """Those for the test first."""
        held_out = "test" if "test" in parts else "val"
        found = {}
        for name in dict.fromkeys(name for of_part in parts.values() for name in of_part):
            images = {part: images_in(of_part[name]) for part, of_part in parts.items() if name in of_part}
            test = images.pop(held_out, [])
            train = [path for of_part in images.values() for path in of_part]
            if (len(train), len(test)) != (self.train, self.test):
                raise DataError(
                    f"the class {name!r} of {source} has {len(train)} images to train on and {len(test)} in "
                    f"{held_out}/, where {self.train} and {self.test} are right"
                )
            found[name] = test + train
        return found

    def _decode(self, images: ImagesOfClass, folder: Path, say: Callable[[str], None]) -> None:
        total = self.classes * (self.train + self.test)
        say(f"decoding {total} images")
        with (
            (folder / TRAIN_FILE).open("wb") as train,
            (folder / TEST_FILE).open("wb") as test,
            progress(self.name, total) as advance,
        ):
            for of_class in images.values():
                for i, path in enumerate(of_class):
                    (test if i < self.test else train).write(pixels(path, self.side).tobytes())
                    advance(1)


LAYOUT = Layout()


def mini_imagenet(root: Path) -> Dataset:
    return LAYOUT.read(root)


def folders_of_parts(source: Path) -> Folders:
    """The class folders of train, val and test, as far as they are there, or of the source itself."""
    parts = {part: source / part for part in PARTS if (source / part).is_dir()} or {"": source}
    return {part: {each.name: each for each in visible(path) if each.is_dir()} for part, path in parts.items()}


def is_split(parts: Folders) -> bool:
    """Into images to train on and to test on. In the few-shot split no class is in two parts."""
    names = [name for of_part in parts.values() for name in of_part]
    return len(set(names)) < len(names)


def in_order(names: Collection[str]) -> Collection[str]:
    """The classes of MiniImageNet as it has them, others as they come."""
    text = (resources.files("holdfast.datasets") / "mini_imagenet_classes.txt").read_text(encoding="utf-8")
    known = [name for line in text.splitlines() if not line.startswith("#") for name in line.split()]
    return known if set(known) == set(names) else names


def sums(folder: Path) -> dict[str, str]:
    """The sha256 of each file."""
    found = {}
    for name in SUMMED:
        with (folder / name).open("rb") as file:
            found[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found
