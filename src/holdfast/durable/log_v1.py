"""Logs that version 0.1.0 wrote, to be read once: the learner is written anew when they have been repeated."""

import struct
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from holdfast.errors import CheckpointError

MARK = b"held"
FRAME = struct.Struct("<4sQQ16s")  # mark, length, how much of the log was safe when this was written, checksum


def read(path: Path) -> list[bytes]:
    """All entries. What a crash left unfinished at the end is left out; damage to what was safe is an error."""
    try:
        whole = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    found: list[bytes] = []
    place = 0
    while (entry := _entry(whole, place)) is not None:
        found.append(entry[1])
        place += FRAME.size + len(entry[1])
    if any(safe > place for safe in _safe_marks(whole, place + 1)):
        raise CheckpointError(f"{path} is damaged at byte {place}: entries that were written after it are there")
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
    return blake2b(content, digest_size=16, salt=struct.pack("<Q", safe)).digest()
