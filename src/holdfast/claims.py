"""Who is at work on what. A claim ends with its process, however that ends, and tells others which process it is."""

import hashlib
import os
import struct
import sys
from collections.abc import Mapping
from pathlib import Path

from holdfast.errors import InUse, WriteError

_HELD_HERE: dict[Path, int] = {}  # the process's own claims: locks do not hold inside one process
FLOCK = "qqihh" if sys.platform == "darwin" else "hhqqi"


class Claims:
    """Claims on names, as locks on single bytes of one file. They hold between processes, not inside one.

    Where the system has no such locks (Windows), nothing is claimed and nothing refused.
    """

    def __init__(self, file: Path) -> None:
        self._file = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)

    def __enter__(self) -> "Claims":
        return self

    def __exit__(self, *how: object) -> None:
        os.close(self._file)

    def take(self, titles: Mapping[str, str]) -> None:
        """All names, or none, and the error says by its title which one is taken and by whom."""
        taken: list[int] = []
        for name, title in titles.items():
            place = int.from_bytes(hashlib.sha256(name.encode()).digest()[:7])
            holder = self._lock(place)
            if holder is not None:
                for mine in taken:
                    self._unlock(mine)
                raise InUse(title, holder)
            taken.append(place)

    def _lock(self, place: int) -> int | None:
        """None, or the process that has it."""
        if os.name != "posix":
            return None
        import fcntl

        while True:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
                return None
            except (BlockingIOError, PermissionError):
                pid = self._holder(place)
                if pid is not None:
                    return pid

    def _holder(self, place: int) -> int | None:
        import fcntl

        lock = {"type": fcntl.F_WRLCK, "whence": os.SEEK_SET, "start": place, "len": 1, "pid": 0}
        order = ("start", "len", "pid", "type", "whence") if sys.platform == "darwin" else tuple(lock)
        answer = struct.unpack(FLOCK, fcntl.fcntl(self._file, fcntl.F_GETLK, struct.pack(FLOCK, *map(lock.get, order))))
        found = dict(zip(order, answer, strict=True))
        return None if found["type"] == fcntl.F_UNLCK else int(found["pid"])

    def _unlock(self, place: int) -> None:
        if os.name == "posix":
            import fcntl

            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, place)


class Claim:
    """On one thing as a whole, against other processes and against others in this one."""

    def __init__(self, file: Path, title: str) -> None:
        self._file = file.resolve()
        if _HELD_HERE.get(self._file) == os.getpid():  # after a fork it is the parent's
            raise InUse(title, os.getpid())
        try:
            self._claims = Claims(self._file)
        except OSError as error:
            raise WriteError(f"{file} cannot be written: {error.strerror}") from error
        try:
            self._claims.take({"": title})
        except BaseException:
            self._claims.__exit__()
            raise
        _HELD_HERE[self._file] = os.getpid()
        self.held = True

    def release(self) -> None:
        if self.held:
            self.held = False
            del _HELD_HERE[self._file]
            self._claims.__exit__()
