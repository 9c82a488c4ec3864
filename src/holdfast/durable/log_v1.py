"""Logs that version 0.1.0 wrote, to be read once: the learner is written anew when they have been repeated."""

import struct
from collections.abc import Iterator
from hashlib import blake2b

from holdfast.durable.log import MOST_BYTES, MOST_MARKS, Flaw, Reading

MARK = b"held"
FRAME = struct.Struct("<4sQQ16s")  # mark, length, how much of the log was safe when this was written, checksum
MOST_LOOKS = 4  # at each byte behind the first entry that is not whole: nothing that was not made so needs more


def examined(whole: bytes) -> Reading:
    """The entries up to the first that is not whole, and what is wrong if that cannot be the work of a crash."""
    found: list[bytes] = []
    places: list[int] = []
    place = 0
    while (entry := _entry(whole, place)) is not None:
        found.append(entry[1])
        places.append(place)
        place += FRAME.size + len(entry[1])
    if len(whole) > MOST_BYTES or whole.count(MARK, place) > MOST_MARKS:
        return Reading(found, places, place, False, Flaw(place, "what follows only looks like entries"))
    behind = list(_entries_behind(whole, place + 1))
    if not any(safe > place for safe, _ in behind):
        return Reading(found, places, place, False)
    flaw = Flaw(place, "the entry there is not whole, and entries that were written after it are there")
    return Reading(found, places, place, False, flaw, [whole[place:], *(content for _, content in behind)])


def _entry(whole: bytes, place: int) -> tuple[int, bytes] | None:
    """How much was safe when the entry that begins here was written, and its content; None if there is none."""
    if len(whole) < place + FRAME.size:
        return None
    mark, length, safe, checksum = FRAME.unpack_from(whole, place)
    content = whole[place + FRAME.size : place + FRAME.size + length]
    if mark != MARK or len(content) != length or _checksum(content, safe) != checksum:
        return None
    return safe, content


def _entries_behind(whole: bytes, place: int) -> Iterator[tuple[int, bytes]]:
    left = MOST_LOOKS * len(whole)
    while (place := whole.find(MARK, place)) >= 0 and left > 0:
        length = int.from_bytes(whole[place + len(MARK) : place + len(MARK) + 8], "little")
        if length <= len(whole) - place - FRAME.size:
            left -= length
            if (entry := _entry(whole, place)) is not None:
                yield entry
        place += 1


def _checksum(content: bytes, safe: int) -> bytes:
    return blake2b(content, digest_size=16, salt=struct.pack("<Q", safe)).digest()
