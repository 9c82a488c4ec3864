"""The one way files are written: whole or not at all."""

import errno
import os
import secrets
import shutil
import stat
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from holdfast.errors import InputError, WriteError
from holdfast.storage.locks import refuse_files_of_a_learner

STDOUT = Path("-")
DATABASE = b"SQLite format 3\0"  # begins like this
OF_DATABASE = {"": "", "-wal": "", "-shm": "", "-journal": "", ".claims": ".sqlite"}  # how files beside it end


def write(path: Path, content: bytes) -> None:
    """Replaces `path`, or the file that a link there leads to; when this returns, the content survives a power loss.

    What is no file, such as a pipe or a device, stays what it is and is written to.
    """
    try:
        if _is_stream(path):
            with open(path, "wb") as stream:
                stream.write(content)
        else:
            _replace(Path(os.path.realpath(path)) if path.is_symlink() else path, content)
    except OSError as error:
        raise WriteError(f"{path} cannot be written: {error.strerror}") from error


def output(path: Path, content: bytes) -> None:
    """Writes a file that is named on the command line: - is stdout, and stdout under another name is not replaced."""
    if not is_stdout(path):
        check_output(path)
        write(path, content)
        return
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise  # nobody reads any more: not our failure
    except OSError as error:
        raise WriteError(f"stdout cannot be written: {error.strerror}") from error


def check_output(path: Path) -> None:
    """An InputError if what is there must not be replaced by the output of a command."""
    refuse_files_of_a_learner(path)
    name = os.path.realpath(path)
    if any(name.endswith(end) and _is_database(name.removesuffix(end) + main) for end, main in OF_DATABASE.items()):
        raise InputError(f"{path} is a file of a database, such as a store of runs: write to another place")


def _is_database(name: str) -> bool:
    with suppress(OSError):
        if os.path.isfile(name) and os.path.getsize(name) >= len(DATABASE):
            with open(name, "rb") as file:
                return file.read(len(DATABASE)) == DATABASE
    return False


def make_folder(folder: Path) -> None:
    """With those above it; when this returns, they survive a power loss."""
    missing = [each for each in (folder, *folder.parents) if not each.is_dir()]
    try:
        for each in reversed(missing):
            with suppress(FileExistsError):  # another process was faster
                os.mkdir(each)
            _sync_folder(each.parent)
    except OSError as error:
        raise WriteError(f"{folder} cannot be made: {error.strerror}") from error


def write_folder(folder: Path, contents: Mapping[str, bytes]) -> None:
    """A new folder with these files, whole or not at all; when this returns, it survives a power loss."""
    partial = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}")
    make_folder(folder.parent)
    try:
        os.mkdir(partial)
        for name, content in contents.items():
            _replace(partial / name, content)
        os.rename(partial, folder)
        _sync_folder(folder.parent)
    except OSError as error:
        raise WriteError(f"{folder} cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def remove(path: Path) -> None:
    try:
        os.unlink(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise WriteError(f"{path} cannot be removed: {error.strerror}") from error


def rename(path: Path, to: Path) -> None:
    """Within its folder; when this returns, it survives a power loss."""
    try:
        os.replace(path, to)
        _sync_folder(path.parent)
    except OSError as error:
        raise WriteError(f"{path} cannot be renamed: {error.strerror}") from error


class Appendix:
    """A new file that only grows.

    What cannot be appended whole is cut off again, if the disk allows it; nothing more is appended after an error.
    """

    def __init__(self, path: Path, beginning: bytes, sync_every: float = 0.0) -> None:
        """With `sync_every` seconds above 0, a power loss may take what was appended in the last so many seconds."""
        self._path = path
        self._sync_every = sync_every
        self._error: OSError | None = None
        self._lock = threading.Lock()
        self._due: SimpleQueue[None] = SimpleQueue()  # in C, unlike an Event, whose lock an interrupt could leave taken
        self._ends: SimpleQueue[None] = SimpleQueue()
        self._syncs = self._closed = False
        self.size = self.synced = len(beginning)
        self.is_uncertain = False  # whether something may stand behind its end that was to be cut off
        write(path, beginning)
        try:
            self._handle = os.open(path, os.O_WRONLY | os.O_APPEND)
        except OSError as error:
            raise self._failed(error) from error

    @property
    def failed(self) -> bool:
        return self._error is not None

    @property
    def is_in_place(self) -> bool:
        """Whether it is still the file under its name."""
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._handle))
        except OSError:
            return False

    def append(self, content: bytes) -> None:
        with self._lock:
            if self._error is not None:
                raise self._failed(self._error) from self._error
            before = self.size
            try:
                self._write(content)
                self.size += len(content)
                if not self._sync_every:
                    self._sync()
            except BaseException as error:
                self._cut_back(before)
                if isinstance(error, OSError):
                    raise self._failed(error) from error
                raise
        if self._sync_every:
            self._sync_later()

    def end(self, size: int | None = None) -> None:
        """Nothing more is appended; what stands behind `size` is cut off, as if it had never been appended."""
        with self._lock:
            if not self._closed:
                self._cut_back(self.size if size is None else size)

    def make_safe(self) -> None:
        """What was appended survives a power loss when this returns."""
        with self._lock:
            try:
                if self._error is None and self.synced < self.size:
                    self._sync()
            except OSError as error:
                raise self._failed(error) from error

    def close(self) -> None:
        with self._lock, suppress(OSError):
            self._error = self._error or OSError(errno.EBADF, "it is closed")
            if not self._closed:  # after that, the number may be another file's
                self._closed = True
                os.close(self._handle)
        self._ends.put(None)
        self._due.put(None)

    def __del__(self) -> None:
        """Nobody else has it; in a process that was forked, the lock may be taken for ever."""
        try:
            if not self._closed:
                os.close(self._handle)
        except Exception:  # where Python ends, `suppress` and `os` may be gone
            pass

    def _cut_back(self, size: int) -> None:
        self._error = self._error or OSError(errno.EIO, "its end is not certain")
        if size < self.size or size < os.fstat(self._handle).st_size:
            try:
                os.ftruncate(self._handle, size)
                os.fsync(self._handle)
            except OSError:
                self.is_uncertain = True
            self.size, self.synced = size, min(size, self.synced)

    def _write(self, content: bytes) -> None:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(self._handle, rest) :]

    def _sync(self) -> None:
        os.fsync(self._handle)
        self.synced = self.size

    def _sync_later(self) -> None:
        if not self._syncs:
            threading.Thread(target=self._keep_syncing, daemon=True).start()
            self._syncs = True
        if self._due.empty():
            self._due.put(None)

    def _keep_syncing(self) -> None:
        while True:
            self._due.get()
            with suppress(Empty):
                self._ends.get(timeout=self._sync_every)
                return
            with self._lock:
                try:
                    if self._error is None and self.synced < self.size:
                        self._sync()
                except OSError as error:
                    self._error = error
                except BaseException as error:  # whatever it is: who appends next has to know
                    self._error = OSError(errno.EIO, f"its syncing ended with {type(error).__name__}: {error}")
                    raise

    def _failed(self, error: OSError) -> WriteError:
        self._error = error
        return WriteError(f"{self._path} cannot be written: {error.strerror}")


def _replace(path: Path, content: bytes) -> None:
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}")  # others may be writing the same file
    try:
        with open(partial, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
        _sync_folder(path.parent)
    finally:
        with suppress(OSError):
            os.unlink(partial)


def _is_stream(path: Path) -> bool:
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def is_stdout(path: Path | None) -> bool:
    """Whether this is stdout, under whatever name."""
    if path is None or path == STDOUT:
        return path == STDOUT
    try:
        return os.path.samestat(os.stat(path), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError):  # one of them is not there
        return False


def _sync_folder(folder: Path) -> None:
    if os.name == "posix":  # elsewhere folders cannot be opened
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
