"""The files of a durable learner as they are at one moment, read without a lock while another process may learn."""

import os
import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from holdfast.durable import log, log_v1
from holdfast.durable.log import Flaw, Identity, Reading
from holdfast.errors import CheckpointError, InputError
from holdfast.storage import checkpoint
from holdfast.storage.locks import signature

LEARNER = "learner"
LOG = re.compile(r"log\.(\d{1,18})")
MOST_LOGS = 10**15  # larger numbers are not ours
LEFT_BEHIND = re.compile(r"\.(learner|log\.\d+)\.([0-9a-f]{16}|\d+)")  # by a writer that was killed
KEPT = "kept"  # the folder of earlier checkpoints
BEFORE_REPAIR = "before-repair-"  # how folders begin that keep what was repaired
TRIES = 1000  # each has found that the learner was written anew meanwhile


@dataclass(frozen=True, slots=True)
class Place:
    """Which file has the log, and which log it has to be; None for one of version 0.1.0, which says nothing of it."""

    name: str
    identity: Identity | None

    @classmethod
    def of(cls, manifest: checkpoint.Manifest) -> "Place":
        if "log" not in manifest:
            raise CheckpointError("was written by Learner.save: Learner.load(file) reads it, a folder needs its own")
        where = manifest["log"]
        if isinstance(where, int):
            return cls(f"log.{where}", None)
        identity = Identity(bytes.fromhex(where["learner"]), bytes.fromhex(where["salt"]))
        if not LOG.fullmatch(name := where["file"]) or {len(identity.learner), len(identity.salt)} != {16}:
            raise CheckpointError(f"names an impossible log: {where}")
        return cls(name, identity)

    @classmethod
    def free(cls, folder: Path, learner: bytes) -> "Place":
        """For the next log of this learner."""
        numbers = [int(match[1]) for file in folder.iterdir() if (match := LOG.fullmatch(file.name))]
        last = max((number for number in numbers if number < MOST_LOGS), default=0)
        return cls(f"log.{last + 1}", Identity.new(learner))

    def is_of_this_learner(self, file: Path) -> bool:
        """Whether a file is a log that says so."""
        if not LOG.fullmatch(file.name):
            return False
        identity = log.identity_of(file)
        return identity is not None and self.identity is not None and identity.learner == self.identity.learner

    def as_json(self) -> dict[str, str]:
        assert self.identity is not None
        return {"file": self.name, "learner": self.identity.learner.hex(), "salt": self.identity.salt.hex()}


@dataclass(frozen=True)
class Snapshot:
    """A checkpoint, whole and undamaged, and the log that belongs to it, in whatever state that is."""

    folder: Path
    size: int  # of the checkpoint, in bytes
    tensors: dict[str, Tensor]
    manifest: checkpoint.Manifest
    place: Place
    log: bytes | Flaw = b""  # no more than a log can have, and one byte; the flaw: why it cannot be read
    closing: str = ""  # what the signature says of how the log was closed

    @cached_property
    def reading(self) -> Reading:
        if isinstance(self.log, Flaw):
            return Reading([], [], 0, False, self.log)
        identity = self.place.identity
        reading = log_v1.examined(self.log) if identity is None else log.examined(self.log, identity)
        if len(self.log) > log.MOST_BYTES:
            return reading.too_long()
        if identity is None:
            return reading
        size = log.closed_size(self.closing, identity.salt)
        return reading.cut_short(size) if reading.end < size else reading

    @property
    def log_bytes(self) -> bytes:
        return b"" if isinstance(self.log, Flaw) else self.log

    @property
    def log_file(self) -> Path:
        return self.folder / self.place.name

    def serialized(self, **more: Any) -> bytes:
        """The checkpoint, with `more` in its manifest."""
        return checkpoint.pack(self.tensors, {**self.manifest, **more})


def take(folder: Path, *, settled: bool = False) -> Snapshot:
    """What is there now: nothing that was acknowledged before is missing.

    A change that is only just being acknowledged may be in it. With `settled` it is synced first, and what could not
    be written, so that it was taken back, is left out.
    """
    file = folder / LEARNER
    refuse_saved(folder)
    if not file.is_file():
        raise InputError(f"there is no learner in {folder}")
    for _ in range(TRIES):
        before = stamp(file)
        found = read(folder, file)
        closing = signature(folder)[1]  # before the log, which may be closed after it was read
        content = _content(found.log_file, settled)
        if not isinstance(content, Flaw) or stamp(file) == before:
            return replace(found, log=content, closing=closing)
    raise CheckpointError(f"{folder} is being rewritten faster than it can be read")


def refuse_saved(path: Path) -> None:
    """The file of a learner where the folder of one is wanted."""
    if checkpoint.begins_as_one(path):
        raise InputError(
            f"{path} is the file of a learner, not its folder: holdfast learner adopt {path} FOLDER, or holdfast.adopt "
            "in Python, makes a folder of it"
        )


def read(folder: Path, file: Path) -> Snapshot:
    """A checkpoint of the learner in a folder, without what was done since."""
    content = checkpoint.content_of(file)
    with checkpoint.naming(file):
        tensors, manifest = checkpoint.unpack(content)
        with checkpoint.distrust("and its manifest"):
            return Snapshot(folder, len(content), tensors, manifest, Place.of(manifest))


def _content(file: Path, settled: bool) -> bytes | Flaw:
    if file.exists() and not file.is_file():
        return Flaw(None, "is not a file")
    try:
        with file.open("rb") as opened:
            content = opened.read(log.MOST_BYTES + 1)
            if settled and os.name == "posix":
                os.fsync(opened.fileno())
            return content[: os.fstat(opened.fileno()).st_size]
    except FileNotFoundError:
        return Flaw(None, "is missing")
    except OSError as error:
        return Flaw(None, f"cannot be read: {error.strerror}")


def stamp(file: Path) -> object:
    """Another one whenever the file is replaced or written to."""
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


def is_left_behind(file: Path) -> bool:
    return LEFT_BEHIND.fullmatch(file.name) is not None and file.is_file()
