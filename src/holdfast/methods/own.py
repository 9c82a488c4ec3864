"""Methods in files of the user's own."""

import copyreg
import sys
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import Any, TypeGuard

from holdfast.errors import InputError, UnknownName
from holdfast.methods.base import Method
from holdfast.user_files import module_of


def find_in(file: Path, class_name: str) -> type[Method]:
    module = _module(file)
    found = getattr(module, class_name, None)
    if found is None:
        classes = [k for k, v in vars(module).items() if _is_method(v) and v is not Method]
        raise UnknownName(f"class in {file}", class_name, classes)
    if not _is_method(found):
        raise InputError(f"method {file}:{class_name}: {class_name} is not a subclass of holdfast.Method")
    return found


def _module(file: Path) -> ModuleType:
    module = module_of(file, "a method")
    for each in vars(module).values():
        if _is_method(each) and each.__module__ == module.__name__:
            copyreg.pickle(each, _pickled)
    return module


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
