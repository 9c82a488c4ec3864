"""The one way files are written: whole or not at all."""

import os
from contextlib import suppress
from pathlib import Path

from holdfast.errors import WriteError


def write(path: Path, content: bytes) -> None:
    """Replaces `path`; when this returns, the content survives a power loss."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(partial, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
        _sync_folder(path.parent)
    except OSError as error:
        raise WriteError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        with suppress(OSError):
            os.unlink(partial)


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


def _sync_folder(folder: Path) -> None:
    if os.name == "posix":  # elsewhere folders cannot be opened
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
