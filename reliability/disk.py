"""A disk that crashes, is full or fails at a chosen operation, under `holdfast.storage.files` and SQLite alike."""

import errno
import io
import os
import random
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from holdfast.storage import files
from reliability.content import Content
from reliability.vfs import SQLiteThrough


@dataclass(frozen=True)
class Fault:
    at: int  # number of the operation, from 1
    kind: int = errno.EIO  # or another number
    part: float = 0.0  # how much is done of what is to be written
    crash: bool = False  # nothing after it happens, either
    lasts: bool = False  # all after it fail as well, until the disk is mended


def crash(at: int, part: float = 0.0) -> Fault:
    return Fault(at, part=part, crash=True)


FOLDER = Content()
Names = dict[Path, Content | None]


class FaultyDisk:
    """What programs do inside is numbered. Nothing is really synced: what survives a power loss is decided here."""

    def __init__(self, folder: Path, fault: Fault | None = None, short: random.Random | None = None) -> None:
        """With `short`, some files take only a part of what is written to them, and say so."""
        self.operations = 0
        self.writes: set[int] = set()  # the operations that can be done in part
        self.struck = False
        self._folder = folder
        self._fault = fault
        self._short = short
        self._names: Names = {path: _load(path) for path in folder.rglob("*") if not path.name.endswith("-shm")}
        self._synced_names = self._names.copy()
        self._new_names: list[Names] = []
        self._handles: dict[int, Path] = {}
        self._patches = ExitStack()

    def __enter__(self) -> "FaultyDisk":
        ours = {"open": self._open_there, "fsync": self._fsync, "mkdir": self._mkdir}
        ours |= {"replace": self._replace, "unlink": self._unlink, "write": self._write, "ftruncate": self._ftruncate}
        self._patches.enter_context(patch.object(files, "os", SimpleNamespace(**(vars(os) | ours))))
        self._patches.enter_context(patch.object(files, "open", self._open, create=True))
        self._patches.enter_context(SQLiteThrough(self))
        return self

    def __exit__(self, *_: object) -> None:
        self._patches.close()

    def mend(self) -> None:
        self._fault = None

    def lose_power(self, rng: random.Random, kept: float | None = None) -> None:
        """Changes that were not synced are dropped, garbled or torn, in any combination; some share is kept."""
        kept = rng.random() if kept is None else kept
        names = self._synced_names.copy()
        for change in self._new_names:
            if rng.random() < kept:
                names |= change
        shutil.rmtree(self._folder)
        self._folder.mkdir()
        for path, content in sorted(names.items()):
            if content is FOLDER and path.parent.exists():
                path.mkdir()
            elif content is not None and path.parent.exists():  # otherwise it is lost with its folder
                path.write_bytes(content.after_power_loss(rng, kept))

    def create(self, path: Path) -> None:
        self._operation()
        if (there := self._names.get(path)) is not None:
            there.since.append((0, None))
        else:
            self._rename({path: Content()})

    def write(self, path: Path, offset: int, data: bytes, put: Callable[[bytes], object]) -> None:
        failure = self._failure()
        self.writes.add(self.operations)
        if failure:
            data = data[: int(len(data) * failure.part)]
        if data:
            put(data)
            self._content(path).since.append((offset, data))
        if failure:
            raise failure

    def truncate(self, path: Path, size: int) -> None:
        self._operation()
        self._content(path).since.append((size, None))

    def sync(self, path: Path) -> None:
        self._operation()
        self._content(path).sync()

    def sync_folder(self, folder: Path) -> None:
        self._operation()
        for change in self._new_names:
            self._synced_names |= {path: content for path, content in change.items() if path.parent == folder}
        self._new_names = [change for change in self._new_names if all(path.parent != folder for path in change)]

    def delete(self, path: Path) -> None:
        self._operation()
        self._rename({path: None})

    def taken(self, data: bytes) -> bytes:
        """How much of it a file takes at once."""
        return data if self._short is None else data[: self._short.randint(1, max(1, len(data)))]

    def _failure(self) -> "_Failure | None":
        self.operations += 1
        fault = self._fault
        if fault and self.operations == fault.at:
            self.struck = True
            return _Failure(fault.kind, fault.part)
        if fault and self.struck and (fault.crash or fault.lasts):
            return _Failure(fault.kind, 0)
        return None

    def _operation(self) -> None:
        if failure := self._failure():
            raise failure

    def _content(self, path: Path) -> Content:
        content = self._names[path]
        assert content is not None
        return content

    def _rename(self, change: Names) -> None:
        self._names |= change
        self._new_names.append(change)

    def _open(self, path: Path, mode: str) -> io.BufferedWriter:
        assert mode in ("wb", "xb")
        self.create(path)
        file = _File(path, self)
        self._handles[file.fileno()] = path
        return io.BufferedWriter(file)

    def _open_there(self, path: Path, flags: int) -> int:
        """A folder, or a file to append to."""
        handle = os.open(path, flags)
        self._handles[handle] = path
        return handle

    def _write(self, handle: int, data: Any) -> int:
        end, taken = os.fstat(handle).st_size, self.taken(bytes(data))
        self.write(self._handles[handle], end, taken, lambda part: os.write(handle, part))
        return len(taken)

    def _ftruncate(self, handle: int, size: int) -> None:
        self.truncate(self._handles[handle], size)
        os.ftruncate(handle, size)

    def _fsync(self, handle: int) -> None:
        path = self._handles[handle]
        (self.sync_folder if path.is_dir() else self.sync)(path)

    def _mkdir(self, folder: Path) -> None:
        self._operation()
        os.mkdir(folder)
        self._rename({folder: FOLDER})

    def _replace(self, source: Path, target: Path) -> None:
        self._operation()
        os.replace(source, target)
        self._rename({target: self._names[source], source: None})

    def _unlink(self, path: Path) -> None:
        self._operation()
        os.unlink(path)
        self._rename({path: None})


class _File(io.FileIO):
    def __init__(self, path: Path, disk: FaultyDisk) -> None:
        super().__init__(path, "wb")
        self._path = path
        self._disk = disk

    def write(self, data: Any) -> int:
        taken = self._disk.taken(bytes(data))
        self._disk.write(self._path, self.tell(), taken, super().write)
        return len(taken)


class _Failure(OSError):
    def __init__(self, kind: int, part: float) -> None:
        super().__init__(kind, os.strerror(kind))
        self.part = part


def _load(path: Path) -> Content:
    return FOLDER if path.is_dir() else Content(bytearray(path.read_bytes()))
