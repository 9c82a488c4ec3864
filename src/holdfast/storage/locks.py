"""Who is at work on what. A lock ends with its process, however that ends, and tells others which process it is."""

import hashlib
import os
import platform
import re
import struct
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

from holdfast.errors import InputError, InUse, WriteError

MOST_BYTES = 300  # that say who has a lock
NOBODY = 0  # instead of a process
FLOCK = "qqihh" if sys.platform == "darwin" else "hhqqi"


class NameLocks:
    """Locks on names, as locks on single bytes of one file. They hold between processes, not inside one.

    Where the system has no such locks (Windows), nothing is locked and nothing refused.
    """

    def __init__(self, file: Path) -> None:
        self._file = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)

    def __enter__(self) -> "NameLocks":
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
                raise InUse(title, holder if holder > 0 else None)  # those of other containers have no number here
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


class FolderLock:
    """Held on a folder itself: there is no file to remove, and reading or copying the folder does not free it.

    Where folders cannot be locked (some network file systems), it is on the file that says who has it. Where the
    system has no such locks (Windows), nothing is refused.
    """

    NAME = "lock"
    held = False

    def __init__(self, folder: Path, title: str) -> None:
        self._name = folder / self.NAME
        try:
            self._path, self._handle = self._take(folder)
        except BlockingIOError:
            raise InUse(title, *self._holder()) from None
        except OSError as error:
            raise WriteError(f"{folder} cannot be locked: {error.strerror}") from error
        self.held = True
        try:
            _HELD.add(self)
        except BaseException:
            self.release()
            raise

    def sign(self) -> None:
        """Lets others know who has it, in a file whose loss does no harm; not over a file of somebody else's."""
        self._write(os.getpid(), signature(self._name.parent)[1])

    def sign_off(self, closing: str | None = None) -> None:
        """Lets others know that nobody has it, and how its log was closed."""
        self._write(NOBODY, signature(self._name.parent)[1] if closing is None else closing)

    def _write(self, pid: int, closing: str) -> None:
        with suppress(OSError):
            if self.is_in_place and (not self._name.exists() or self.is_signature(self._name)):
                self._name.write_text(signed(pid, closing))

    @classmethod
    def is_signature(cls, file: Path) -> bool:
        """Whether it is such a file; that of earlier versions is empty."""
        if file.name != cls.NAME or file.is_symlink() or not file.is_file() or file.stat().st_size > MOST_BYTES:
            return False
        return re.fullmatch(rb"(\d+ \S*\n(closed \w+ \d+ \w+\n)?)?", file.read_bytes()) is not None

    @property
    def is_in_place(self) -> bool:
        """Whether what is locked is still what is there."""
        try:
            return self._handle is None or os.path.samestat(os.stat(self._path), os.fstat(self._handle))
        except OSError:
            return False

    def release(self) -> None:
        """In this process. A process that was forked from the one that took it only closes its copy."""
        if self.held:
            self.held = False
            if self._handle is not None:
                os.close(self._handle)
            _HELD.discard(self)

    def __del__(self) -> None:
        """An interrupt may come before anybody has it who could release it."""
        try:  # noqa: SIM105
            self.release()
        except Exception:  # where Python ends, `suppress` and `os` may be gone
            pass

    def _take(self, folder: Path) -> tuple[Path, int | None]:
        if os.name != "posix":
            return folder, None
        try:
            return folder, _flocked(folder, os.O_RDONLY)
        except BlockingIOError:
            raise
        except OSError:
            return self._name, _flocked(self._name, os.O_RDWR | os.O_CREAT)

    def _holder(self) -> tuple[int | None, str]:
        """Its process and machine. Who has just taken it may not have said so yet."""
        for _ in range(20):
            if (signed := holder(self._name.parent)) is not None:
                return signed
            time.sleep(0.02)
        return None, ""


def signed(pid: int, closing: str) -> str:
    return f"{pid} {platform.node()}\n{closing}"


def signature(folder: Path) -> tuple[str, str]:
    """The two lines of the file that says who has a folder and how its log was closed; empty where there are none."""
    file = folder / FolderLock.NAME
    with suppress(OSError):
        if FolderLock.is_signature(file):
            first, _, second = file.read_text().partition("\n")
            return first, second
    return "", ""


def refuse_files_of_a_learner(path: Path) -> None:
    """What is written to such a file would take the place of what a learner in that folder has acknowledged."""
    path = Path(os.path.realpath(path))
    is_kept = path.parent.name == "kept" and path.name.isdecimal()
    folder = path.parent.parent if is_kept else path.parent
    if not is_kept and not re.fullmatch(r"learner|lock|log\.\d+", path.name):
        return
    if FolderLock.is_signature(folder / FolderLock.NAME):
        raise InputError(f"{path} is a file of the learner that lives in {folder}: write to another place")


def holder(folder: Path) -> tuple[int, str] | None:
    """The process that has signed for a folder, if it is alive, and its machine if that is another one.

    Nothing is locked to find out. On another machine nobody can tell whether it is alive.
    """
    with suppress(ValueError):
        pid, host = signature(folder)[0].split()
        elsewhere = host != platform.node()
        if int(pid) != NOBODY and (elsewhere or _is_alive(int(pid))):
            return int(pid), host if elsewhere else ""
    return None


def user(folder: Path) -> tuple[int, str] | None:
    """As `holder`, but a signature does not count on this machine where the system can tell what is locked (Linux)."""
    signed = holder(folder)
    try:
        fields = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        inode = str(folder.stat().st_ino)
    except OSError:
        return signed
    pids = [int(field[4]) for field in fields if field[1] == "FLOCK" and field[5].rpartition(":")[2] == inode]
    return (pids[0], "") if pids else signed if signed and signed[1] else None


def _flocked(path: Path, flags: int) -> int:
    import fcntl

    handle = os.open(path, flags, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def _let_go_after_fork() -> None:
    """A lock that a child has open as well would outlive the parent."""
    for lock in list(_HELD):
        lock.release()


_HELD: "WeakSet[FolderLock]" = WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_after_fork)
