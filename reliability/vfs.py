"""Every change that SQLite makes to a file goes through a disk of ours on its way to the real one.

SQLite reaches files through a "VFS", a table of functions (https://sqlite.org/vfs.html). Ours is a copy of the usual
one with a few functions exchanged. Only -shm files do not come this way: what is in them need not survive a crash.
"""

import _sqlite3
import ctypes
import errno
import os
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, Structure, addressof, c_char_p, c_int, c_int64, c_void_p, pointer
from pathlib import Path
from typing import Any, Protocol

OK, IO_ERROR, FULL, CANNOT_OPEN = 0, 10, 13, 14
CREATE, MAIN_JOURNAL, LOG = 0x4, 0x800, 0x80000


class Disk(Protocol):
    """Each raises OSError if the change must not happen."""

    def create(self, path: Path) -> None: ...
    def write(self, path: Path, offset: int, data: bytes, put: Callable[[bytes], object]) -> None: ...
    def truncate(self, path: Path, size: int) -> None: ...
    def sync(self, path: Path) -> None: ...
    def sync_folder(self, folder: Path) -> None: ...
    def delete(self, path: Path) -> None: ...


class Methods(Structure):
    Write = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
    Truncate = CFUNCTYPE(c_int, c_void_p, c_int64)
    Sync = CFUNCTYPE(c_int, c_void_p, c_int)
    _fields_ = (
        *(("version", c_int), ("close", c_void_p), ("read", c_void_p)),
        *(("write", Write), ("truncate", Truncate), ("sync", Sync), ("others", c_void_p * 13)),
    )


class File(Structure):
    _fields_ = (("methods", POINTER(Methods)),)


class VFS(Structure):
    Open = CFUNCTYPE(c_int, c_void_p, c_void_p, POINTER(File), c_int, c_void_p)
    Delete = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int)
    _fields_ = (
        *(("version", c_int), ("size_of_file", c_int), ("longest_path", c_int), ("next", c_void_p)),
        *(("name", c_char_p), ("data", c_void_p), ("open", Open), ("delete", Delete), ("others", c_void_p * 14)),
    )


class SQLiteThrough:
    """Holds for connections that are opened and closed inside."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._library = ctypes.CDLL(getattr(_sqlite3, "__file__", None))  # the SQLite that Python itself uses
        self._library.sqlite3_vfs_find.restype = POINTER(VFS)
        self._usual = self._library.sqlite3_vfs_find(None)
        self._ours = VFS.from_buffer_copy(self._usual.contents)
        self._ours.name = b"reliability"
        self._ours.open, self._ours.delete = VFS.Open(self._open), VFS.Delete(self._delete)
        self._functions = Methods.Write(self._write), Methods.Truncate(self._truncate), Methods.Sync(self._sync)
        self._tables: dict[int, Methods] = {}  # by address of the usual one
        self._files: dict[int, tuple[Path, Methods]] = {}  # its path and usual methods, by address
        self._new_names: set[Path] = set()

    def __enter__(self) -> None:
        self._library.sqlite3_vfs_register(pointer(self._ours), 1)

    def __exit__(self, *_: object) -> None:
        self._library.sqlite3_vfs_unregister(pointer(self._ours))

    def _open(self, _: int, name: int | None, file: Any, flags: int, flags_out: int) -> int:
        path = _path(name) if name else None  # temporary files have no name
        is_new = path is not None and bool(flags & CREATE) and not path.exists()
        if path and is_new and _code(lambda: self._disk.create(path)):
            file.contents.methods = None
            return CANNOT_OPEN
        code = self._usual.contents.open(self._usual, name, file, flags, flags_out)
        if path and code == OK:
            usual = file.contents.methods.contents
            self._files[addressof(file.contents)] = path, usual
            file.contents.methods = pointer(self._table_instead_of(usual))
            if is_new and flags & (MAIN_JOURNAL | LOG):  # SQLite syncs the folder with the file
                self._new_names.add(path)
        return int(code)

    def _table_instead_of(self, usual: Methods) -> Methods:
        table = self._tables.setdefault(addressof(usual), Methods.from_buffer_copy(usual))
        table.write, table.truncate, table.sync = self._functions
        return table

    def _write(self, file: int, data: int, size: int, offset: int) -> int:
        path, usual = self._files[file]

        def put(part: bytes) -> None:
            if usual.write(file, part, len(part), offset) != OK:
                raise OSError(errno.EIO, "the real disk fails")

        return _code(lambda: self._disk.write(path, offset, ctypes.string_at(data, size), put))

    def _truncate(self, file: int, size: int) -> int:
        path, usual = self._files[file]
        return _code(lambda: self._disk.truncate(path, size)) or int(usual.truncate(file, size))

    def _sync(self, file: int, _: int) -> int:
        path, _usual = self._files[file]
        code = _code(lambda: self._disk.sync(path))
        if code == OK and path in self._new_names:
            code = _code(lambda: self._disk.sync_folder(path.parent))
            self._new_names.discard(path)
        return code

    def _delete(self, _: int, name: int, with_folder: int) -> int:
        path = _path(name)
        if path.exists() and (code := _code(lambda: self._disk.delete(path))):
            return code
        code = int(self._usual.contents.delete(self._usual, name, 0))
        return code or (_code(lambda: self._disk.sync_folder(path.parent)) if with_folder else OK)


def _path(name: int) -> Path:
    return Path(os.fsdecode(ctypes.string_at(name)))


def _code(change: Callable[[], None]) -> int:
    try:
        change()
    except OSError as error:
        return FULL if error.errno == errno.ENOSPC else IO_ERROR
    return OK
