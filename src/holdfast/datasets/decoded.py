"""Decoded images, kept so that the next command does not decode them again."""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.storage import files

Images = NDArray[np.uint8]
MOST_BYTES = 4 << 30  # of everything that is kept; those that were not used for longest go first
CHECKSUM = 32


def kept(root: Path | None, sources: Sequence[Path], size: int, decode: Callable[[], Images]) -> Images:
    """What `decode` gives, taken from `root` if the files are those of the last time: same place, length and time.

    What is damaged there, or cannot be written, is decoded again: a cache has nothing to say.
    """
    if root is None:
        return decode()
    file = root / "decoded" / f"{_key(sources, size)}.images"
    images = _read(file, (len(sources), 3, size, size))
    if images is None:
        images = decode()
        if images.nbytes <= MOST_BYTES:
            with suppress(OSError):
                files.make_folder(file.parent)
                files.write(file, _checksum(images) + images.tobytes())
                _make_room(file)
    return images


def _key(sources: Sequence[Path], size: int) -> str:
    key = hashlib.sha256(f"{size}".encode())
    for path in sources:
        about = path.stat()
        key.update(f"\0{path}\0{about.st_size}\0{about.st_mtime_ns}".encode(errors="surrogateescape"))
    return key.hexdigest()[:32]


def _read(file: Path, shape: tuple[int, ...]) -> Images | None:
    try:
        if file.stat().st_size != CHECKSUM + np.prod(shape):
            return None
        content = np.fromfile(file, np.uint8)
        file.touch()
    except OSError:
        return None
    images = content[CHECKSUM:].reshape(shape)
    return images if _checksum(images) == content[:CHECKSUM].tobytes() else None


def _checksum(images: Images) -> bytes:
    return hashlib.sha256(images.data).digest()


def _make_room(newest: Path) -> None:
    others = [(each, each.stat()) for each in newest.parent.glob("*.images") if each != newest]
    room = MOST_BYTES - newest.stat().st_size
    for each, about in sorted(others, key=lambda other: -other[1].st_mtime_ns):
        room -= about.st_size
        if room < 0:
            each.unlink(missing_ok=True)
