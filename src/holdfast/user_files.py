"""Python files of the user's own: a file is executed once for each content it has."""

import hashlib
import os
import sys
from importlib.abc import InspectLoader
from importlib.util import decode_source, module_from_spec, spec_from_loader
from pathlib import Path
from types import CodeType, ModuleType

from holdfast.errors import InputError

PREFIX = "holdfast_method_"  # of the modules made of them


def file_of(name: str) -> Path | None:
    """The user's file in `file.py:name`; None for the names of this package."""
    return Path(name.rpartition(":")[0]) if ".py:" in name else None


def identity(name: str) -> str:
    """What is in a user's file is what the file says, not where it lies."""
    file = file_of(name)
    return name if file is None else hashlib.sha256(file.read_bytes()).hexdigest() + ":" + name.rpartition(":")[2]


class _Loader(InspectLoader):
    """Python's own takes a file that changes within a second for the old one, from its cache of compiled files."""

    def __init__(self, content: bytes, path: Path) -> None:
        self._content, self._path = content, path

    def get_source(self, fullname: str) -> str:
        return decode_source(self._content)

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self._content, str(self._path))


def module_of(file: Path, what: str) -> ModuleType:
    """Under a name that nobody else's module has, and another one when the content changes."""
    if not file.is_file():
        raise InputError(f"there is no file {file} to take {what} from")
    path = file.resolve()
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}") from error
    digest = hashlib.sha256(os.fsencode(path) + b"\0" + content).hexdigest()
    name = f"{PREFIX}{digest[:16]}"
    if name not in sys.modules:
        try:
            _execute(content, path, name)
        except Exception as error:
            raise InputError(f"importing {file} failed with {type(error).__name__}: {error}") from error
    return sys.modules[name]


def _execute(content: bytes, path: Path, name: str) -> None:
    loader = _Loader(content, path)
    spec = spec_from_loader(name, loader, origin=str(path))
    assert spec is not None
    spec.has_location = True
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up by name
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
