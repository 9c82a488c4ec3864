"""The one way files are written: whole or not at all."""

import errno
import os
import secrets
import stat
import sys
import threading
from contextlib import ExitStack, suppress
from pathlib import Path

from holdfast.errors import WriteError

STDOUT = Path("-")


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
    if path != STDOUT and not _is_stdout(path):
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


def remove(path: Path) -> None:
    try:
        os.unlink(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise WriteError(f"{path} cannot be removed: {error.strerror}") from error


class Appendix:
    """A new file that only grows. After an error nothing more is appended: what its end is, nobody knows."""

    def __init__(self, path: Path, sync_every: float = 0.0) -> None:
        """With `sync_every` seconds above 0, a power loss may take what was appended in the last so many seconds."""
        self._path = path
        self._sync_every = sync_every
        self._error: OSError | None = None
        self._lock = threading.Lock()
        self._due, self._closed = threading.Event(), threading.Event()
        self.size = self.synced = 0
        try:
            with ExitStack() as unless_it_stays_open:
                self._file = unless_it_stays_open.enter_context(open(path, "wb"))
                os.fsync(self._file.fileno())
                _sync_folder(path.parent)
                unless_it_stays_open.pop_all()
        except OSError as error:
            raise self._failed(error) from error
        if sync_every:
            threading.Thread(target=self._keep_syncing, daemon=True).start()

    @property
    def failed(self) -> bool:
        return self._error is not None

    def append(self, content: bytes) -> None:
        with self._lock:
            if self._error is not None:
                raise self._failed(self._error) from self._error
            try:
                self._file.write(content)
                self._file.flush()
                self.size += len(content)
                if not self._sync_every:
                    self._sync()
            except OSError as error:
                raise self._failed(error) from error
            except BaseException:
                self.spoil()
                raise
        self._due.set()

    def spoil(self) -> None:
        """As after an error."""
        self._error = self._error or OSError(errno.EIO, "its end is not certain")

    def close(self) -> None:
        """When this returns, what was appended is safe, unless there was an error before."""
        with self._lock:
            try:
                if self._error is None and self.synced < self.size:
                    self._sync()
            except OSError as error:
                raise self._failed(error) from error
            finally:
                with suppress(OSError):
                    self._file.close()
                self._closed.set()
                self._due.set()

    def _sync(self) -> None:
        os.fsync(self._file.fileno())
        self.synced = self.size

    def _keep_syncing(self) -> None:
        while self._due.wait():
            self._due.clear()
            if self._closed.wait(self._sync_every):
                return
            with self._lock:
                try:
                    if self._error is None and self.synced < self.size:
                        self._sync()
                except OSError as error:
                    self._error = error

    def _failed(self, error: OSError) -> WriteError:
        self._error = error
        return WriteError(f"{self._path} cannot be written: {error.strerror}")


def _replace(path: Path, content: bytes) -> None:
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


def _is_stdout(path: Path) -> bool:
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
