"""A log of entries, each whole or as if it had never been written, each bound to those before it and to its learner.

    head    magic, the learner's id, the log's own salt, a checksum
    entry   mark, its place, its length, how much of the log was safe when it was written, a checksum of these,
            a checksum of the content that depends on all entries before it; the content

The last entry of a log that was closed is empty: it seals what stands before it.
"""

import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from holdfast.errors import CheckpointError, WriteError
from holdfast.storage.files import Appendix

MAGIC = b"holdfast log 2\0\0"
HEAD = struct.Struct("<16s16s16s8s")
MARK = b"held"
FRAME = struct.Struct("<4sQQQ8s16s")
SEAL = b""


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
        self._file = Appendix(path, identity.head, sync_every)

    @property
    def size(self) -> int:
        return self._file.size

    @property
    def failed(self) -> bool:
        """Whether an entry could not be written, so that no more can follow."""
        return self._file.failed

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

    def close(self) -> None:
        """When this returns, all entries are safe, unless there was an error before."""
        try:
            if not self.failed:
                self._file.make_safe()
                with suppress(WriteError):  # without a seal, less damage can be noticed later; nothing is lost
                    self.append(SEAL)
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


def read(path: Path, identity: Identity) -> list[bytes]:
    """All entries. What a crash left unfinished at the end is left out; damage to what was safe is an error."""
    try:
        whole = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    found, flaw = examined(whole, identity)
    if flaw is not None:
        raise CheckpointError(f"{path} {flaw}")
    return found


def examined(whole: bytes, identity: Identity) -> tuple[list[bytes], str | None]:
    """The entries up to the first that is not whole, and what is wrong if that cannot be the work of a crash."""
    if whole[: HEAD.size] != identity.head:
        return [], "is not the log that belongs to this learner"
    found: list[bytes] = []
    place, chain = HEAD.size, identity.salt
    sealed = False
    while (entry := _entry(whole, place, identity.salt, chain)) is not None:
        content, chain = entry
        sealed = content == SEAL
        found += [] if sealed else [content]
        place += FRAME.size + len(content)
    if place == len(whole):
        return found, None
    for where, stands_at, safe in _frames(whole, place, identity.salt):
        if where != stands_at:
            return found, f"is damaged at byte {where}: the entry there was written at byte {stands_at}"
        if safe > place:
            return found, f"is damaged at byte {place}: entries that were written after it are there"
    return found, f"is damaged at byte {place}: something follows its seal" if sealed else None


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


def _frames(whole: bytes, place: int, salt: bytes) -> Iterator[tuple[int, int, int]]:
    """Where frames of this log stand from here on, where each says that it stands, and how much was safe then.

    Looked at by their own checksum alone, so that this takes as long as reading, whatever the contents are.
    """
    while (place := whole.find(MARK, place)) >= 0:
        frame = whole[place : place + FRAME.size]
        if len(frame) == FRAME.size:
            _, stands_at, _, safe, check, _ = FRAME.unpack(frame)
            if check == _short(salt, frame[:28]):
                yield place, stands_at, safe
        place += 1


def _short(salt: bytes, fields: bytes) -> bytes:
    return blake2b(fields, digest_size=8, key=salt).digest()
