"""A log of entries, each whole or as if it had never been written, each bound to those before it and to its learner.

    head    magic, the learner's id, the log's own salt, a checksum
    entry   mark, its place, its length, how much of the log was safe when it was written, a checksum of these,
            a checksum of the content that depends on all entries before it; the content

The last entry of a log that was closed is empty: it seals what stands before it.
"""

import os
import re
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path

from holdfast.errors import CheckpointError, WriteError
from holdfast.storage.files import Appendix

MAGIC = b"holdfast log 2\0\0"
HEAD = struct.Struct("<16s16s16s8s")
MARK = b"held"
FRAME = struct.Struct("<4sQQQ8s16s")
SEAL = b""
FULL = 2**26  # bytes from which on no entry follows; a single one has fewer
MOST_BYTES = 2 * FULL
LARGEST_ENTRY = FULL - 2 * FRAME.size  # with its frame, and the seal's
MOST_MARKS = 2**19  # more than entries that fit into a log: whoever wrote more of them wants to keep us busy


@dataclass(frozen=True, slots=True)
class Identity:
    """Of a log: whose it is, and which of all logs there have ever been."""

    learner: bytes
    salt: bytes

    @classmethod
    def new(cls, learner: bytes) -> "Identity":
        return cls(learner, os.urandom(16))

    @property
    def head(self) -> bytes:
        return HEAD.pack(MAGIC, self.learner, self.salt, _short(b"", MAGIC + self.learner + self.salt))


class Log:
    def __init__(self, path: Path, identity: Identity, sync_every: float) -> None:
        """A new one."""
        self._identity = identity
        self._chain = identity.salt
        self._is_sealed = False
        self._file = Appendix(path, identity.head, sync_every)

    @property
    def size(self) -> int:
        return self._file.size

    @property
    def failed(self) -> bool:
        """Whether no more can follow, because an entry could not be written or the last one is."""
        return self._file.failed or self._is_sealed

    @property
    def is_in_place(self) -> bool:
        """Whether the file is still there under its name."""
        return self._file.is_in_place

    @property
    def is_uncertain(self) -> bool:
        """Whether what could not be appended may be there all the same."""
        return self._file.is_uncertain

    def append(self, content: bytes) -> None:
        """When this returns, the entry is safe (with `sync_every` above 0: so many seconds later)."""
        frame, chain = framed(content, self._file.size, self._file.synced, self._identity.salt, self._chain)
        self._file.append(frame + content)
        self._chain = chain

    def end(self, size: int | None = None) -> None:
        """No more can follow; entries behind `size` are taken back."""
        self._file.end(size)

    def close(self) -> str | None:
        """When this returns, all entries are safe, unless there was an error before. Returns a line that says so."""
        try:
            if self.failed:
                return None
            self._file.make_safe()
            closing = closing_line(self._identity.salt, self.size)
            self._is_sealed = True
            with suppress(WriteError):  # without a seal, less damage can be noticed later; nothing is lost
                self.append(SEAL)
            return closing
        finally:
            self._file.close()

    def abandon(self) -> None:
        """Lets go of the file as it is."""
        self._file.close()


def framed(content: bytes, place: int, safe: int, salt: bytes, chain: bytes) -> tuple[bytes, bytes]:
    """What stands before a content, and what the next entry is chained to."""
    fields = struct.pack("<4sQQQ", MARK, place, len(content), safe)
    digest = blake2b(fields + content, digest_size=16, key=chain).digest()
    return fields + _short(salt, fields) + digest, digest


def identity_of(path: Path) -> Identity | None:
    """Of the log in a file; None if the file is something else."""
    if not path.is_file():  # a pipe would be waited for
        return None
    try:
        with path.open("rb") as file:
            head = file.read(HEAD.size)
        identity = Identity(*HEAD.unpack(head)[1:3])
    except (OSError, struct.error):
        return None
    return identity if identity.head == head else None


def closed(identity: Identity, entries: Iterable[bytes]) -> bytes:
    """The whole file of a log that holds these entries and was closed."""
    whole, chain = bytearray(identity.head), identity.salt
    for content in (*entries, SEAL):
        frame, chain = framed(content, len(whole), len(whole), identity.salt, chain)
        whole += frame + content
    return bytes(whole)


@dataclass(frozen=True, slots=True)
class Flaw:
    """Damage that no crash leaves; without an offset, of the file as a whole."""

    offset: int | None
    what: str

    def __str__(self) -> str:
        return self.what if self.offset is None else f"is damaged at byte {self.offset}: {self.what}"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a file holds as a log, up to the first entry that is not whole."""

    entries: list[bytes]
    places: list[int]  # where each of them begins
    end: int  # of the last whole entry, the seal included
    sealed: bool
    flaw: Flaw | None = None
    following: list[bytes] = field(default_factory=list)  # what stands behind the last whole entry, if there is a flaw

    def too_long(self) -> "Reading":
        """The same, of a file that is longer than a log can be, of which not all was looked at."""
        return replace(self, flaw=Flaw(self.end, f"it has more than the {MOST_BYTES} bytes that a log can have"))

    def cut_short(self, size: int) -> "Reading":
        """The same, of a log that is known to have been longer."""
        flaw = Flaw(self.end, f"it ends there, and was closed with {size} bytes before its seal")
        return replace(self, flaw=self.flaw or flaw)

    def sound(self, path: Path) -> list[bytes]:
        """The entries; damage is an error."""
        if self.flaw is not None:
            raise CheckpointError(f"{path} {self.flaw}; holdfast learner verify says more")
        return self.entries


def examined(whole: bytes, identity: Identity) -> Reading:
    """The entries up to the first that is not whole, and what is wrong if that cannot be the work of a crash."""
    found: list[bytes] = []
    places: list[int] = []
    place, chain, sealed = HEAD.size, identity.salt, False
    while (entry := _entry(whole, place, identity.salt, chain)) is not None:
        content, chain = entry
        sealed = content == SEAL
        if not sealed:
            found.append(content)
            places.append(place)
        place += FRAME.size + len(content)
    too_many = len(whole) > MOST_BYTES or whole.count(MARK, place) > MOST_MARKS
    frames = [] if too_many else list(_frames(whole, place, identity.salt))
    flaw = Flaw(place, "what follows only looks like entries") if too_many else None
    if sealed and place != len(whole):
        flaw = Flaw(place, "something follows its seal")
    for where, stands_at, _, safe in reversed(frames):
        if safe > place:
            flaw = Flaw(place, "the entry there is not whole, and entries that were written after it are there")
        if where != stands_at:
            what = "the entry there" if where == place else f"the entry there is not whole, and that at byte {where}"
            flaw = Flaw(place, f"{what} was written at byte {stands_at}")
    if whole[: HEAD.size] != identity.head:
        flaw = Flaw(0, "it is not the log that belongs to this learner")
    return Reading(found, places, place, sealed, flaw, _contents(whole, place, frames) if flaw else [])


def _contents(whole: bytes, place: int, frames: list[tuple[int, int, int, int]]) -> list[bytes]:
    """What may be left of the entries that begin here and behind; a seal is none."""
    behind = [(where + FRAME.size, where + FRAME.size + length) for where, _, length, _ in frames if length]
    first = min((where for where, *_ in frames), default=len(whole))
    return [whole[start:end] for start, end in ([(place, first)] if first > place else []) + behind]


def _entry(whole: bytes, place: int, salt: bytes, chain: bytes) -> tuple[bytes, bytes] | None:
    """The content of the entry that begins here, and what the next is chained to; None if there is none."""
    frame = whole[place : place + FRAME.size]
    if len(frame) < FRAME.size:
        return None
    _, _, length, safe, _, _ = FRAME.unpack(frame)
    content = whole[place + FRAME.size : place + FRAME.size + length]
    if len(content) != length:
        return None
    right, digest = framed(content, place, safe, salt, chain)
    return (content, digest) if right == frame else None


def _frames(whole: bytes, place: int, salt: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Where frames of this log stand from here on; where each says that it stands, its length, how much was safe.

    Looked at by their own checksum alone, so that this takes as long as reading, whatever the contents are.
    """
    while (place := whole.find(MARK, place)) >= 0:
        frame = whole[place : place + FRAME.size]
        if len(frame) == FRAME.size:
            _, stands_at, length, safe, check, _ = FRAME.unpack(frame)
            if check == _short(salt, frame[:28]):
                yield place, stands_at, length, safe
        place += 1


def closing_line(salt: bytes, size: int) -> str:
    """Says that the log of this salt was closed with so many bytes before its seal: from then on it is not shorter."""
    line = f"closed {salt.hex()} {size}"
    return f"{line} {_short(b'', line.encode()).hex()}\n"


def closed_size(line: str, salt: bytes) -> int:
    """How long the log of this salt has to be, as such a line says; 0 if it is damaged or says nothing of it."""
    match = re.fullmatch(r"closed ([0-9a-f]{32}) (\d{1,18}) [0-9a-f]{16}\n", line)
    size = int(match[2]) if match else 0
    return size if line == closing_line(salt, size) else 0


def _short(salt: bytes, fields: bytes) -> bytes:
    return blake2b(fields, digest_size=8, key=salt).digest()
