"""A log of entries, each of them whole or as if it had never been written."""

import hashlib
import struct
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import CheckpointError
from holdfast.files import Appendix

MARK = b"held"
FRAME = struct.Struct("<4sQQ16s")  # mark, length, how much of the log was safe when this was written, checksum


class Log:
    def __init__(self, path: Path, sync_every: float) -> None:
        """A new one in place of whatever is there."""
        self._file = Appendix(path, sync_every)

    @property
    def size(self) -> int:
        return self._file.size

    @property
    def failed(self) -> bool:
        """Whether an entry could not be written, so that no more can follow."""
        return self._file.failed

    def append(self, content: bytes) -> None:
        """When this returns, the entry is safe (with `sync_every` above 0: so many seconds later)."""
        self._file.append(framed(content, self._file.synced))

    def spoil(self) -> None:
        """What was appended does not count: no more can follow."""
        self._file.spoil()

    def close(self) -> None:
        self._file.close()


def framed(content: bytes, safe: int) -> bytes:
    """An entry as it stands in the file."""
    return FRAME.pack(MARK, len(content), safe, _checksum(content, safe)) + content


def read(path: Path) -> list[bytes]:
    """All entries. What a crash left unfinished at the end is left out; damage to what was safe is an error."""
    try:
        return entries(path.read_bytes())
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    except CheckpointError as error:
        raise CheckpointError(f"{path} {error}") from error


def entries(whole: bytes) -> list[bytes]:
    found: list[bytes] = []
    place = 0
    while (entry := _entry(whole, place)) is not None:
        found.append(entry[1])
        place += FRAME.size + len(entry[1])
    if any(safe > place for safe in _safe_marks(whole, place + 1)):
        raise CheckpointError(f"is damaged at byte {place}: entries that were written after it are there")
    return found


def _entry(whole: bytes, place: int) -> tuple[int, bytes] | None:
    """How much was safe when the entry that begins here was written, and its content; None if there is none."""
    if len(whole) < place + FRAME.size:
        return None
    mark, length, safe, checksum = FRAME.unpack_from(whole, place)
    content = whole[place + FRAME.size : place + FRAME.size + length]
    if mark != MARK or len(content) != length or _checksum(content, safe) != checksum:
        return None
    return safe, content


def _safe_marks(whole: bytes, place: int) -> Iterator[int]:
    while (place := whole.find(MARK, place)) >= 0:
        if (entry := _entry(whole, place)) is not None:
            yield entry[0]
        place += 1


def _checksum(content: bytes, safe: int) -> bytes:
    return hashlib.blake2b(content, digest_size=16, salt=struct.pack("<Q", safe)).digest()
