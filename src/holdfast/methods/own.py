"""Methods in files of the user's own: a file is executed once for each content it has."""

import copyreg
import hashlib
import os
import sys
from functools import reduce
from importlib.abc import InspectLoader
from importlib.util import decode_source, module_from_spec, spec_from_loader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, TypeGuard

from holdfast.errors import InputError, UnknownName
from holdfast.methods.base import Method


def file_of(name: str) -> Path | None:
    """The user's file that a method is in; None for the methods of this package."""
    return Path(name.rpartition(":")[0]) if ".py:" in name else None


def find_in(file: Path, class_name: str) -> type[Method]:
    module = _module(file)
    found = getattr(module, class_name, None)
    if found is None:
        classes = [k for k, v in vars(module).items() if _is_method(v) and v is not Method]
        raise UnknownName(f"class in {file}", class_name, classes)
    if not _is_method(found):
        raise InputError(f"method {file}:{class_name}: {class_name} is not a subclass of holdfast.Method")
    return found


class _Loader(InspectLoader):
    """Python's own takes a file that changes within a second for the old one, from its cache of compiled files."""

    def __init__(self, content: bytes, path: Path) -> None:
        self._content, self._path = content, path

    def get_source(self, fullname: str) -> str:
        return decode_source(self._content)

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self._content, str(self._path))


def _module(file: Path) -> ModuleType:
    """Under a name that nobody else's module has, and another one when the content changes."""
    if not file.is_file():
        raise InputError(f"there is no file {file} to take a method from")
    path = file.resolve()
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}") from error
    digest = hashlib.sha256(os.fsencode(path) + b"\0" + content).hexdigest()
    name = f"holdfast_method_{digest[:16]}"
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
    for each in vars(module).values():
        if _is_method(each) and each.__module__ == name:
            copyreg.pickle(each, _pickled)


def _is_method(thing: object) -> TypeGuard[type[Method]]:
    return isinstance(thing, type) and issubclass(thing, Method)


def _pickled(method: Method) -> tuple[Any, ...]:
    """Another process does not have the module, but it may have the file."""
    kind = type(method)
    file = sys.modules[kind.__module__].__file__
    state = object.__reduce_ex__(method, 2)[2:]  # what follows how a plain object of the class is made
    return _unpickled, (kind.__module__, file, kind.__qualname__), *state


def _unpickled(module_name: str, file: str, class_name: str) -> Method:
    module = sys.modules.get(module_name) or _module(Path(file))
    kind: type[Method] = reduce(getattr, class_name.split("."), module)  # type: ignore[assignment]
    return object.__new__(kind)
