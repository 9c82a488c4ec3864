"""Methods of a program or notebook that is running: what they are called, and what their code says."""

import inspect
import sys
from types import CodeType, FunctionType, NoneType

from holdfast.errors import InputError
from holdfast.methods.base import Method
from holdfast.user_files import PREFIX


def is_of_program(name: str) -> bool:
    return name.rpartition(":")[0] in sys.modules


def find_loaded(name: str) -> type[Method]:
    """`module:Class` of a program or notebook that is running; nothing is imported for it."""
    module, _, class_name = name.rpartition(":")
    found = getattr(sys.modules[module], class_name, None)
    if not (isinstance(found, type) and issubclass(found, Method)):
        raise InputError(f"method {name}: {module} has no class {class_name} that is a subclass of holdfast.Method")
    return found


def name_of_own(kind: type[Method]) -> str:
    """`file.py:Class` of a class from a user's file, `module:Class` of any other."""
    module = sys.modules.get(kind.__module__)
    file = getattr(module, "__file__", None) if kind.__module__.startswith(PREFIX) else None
    return f"{file or kind.__module__}:{kind.__qualname__}"


def code_of_class(kind: type[Method]) -> bytes:
    """What its own classes and those it is derived from say, but for those of this package."""
    own = [each for each in kind.__mro__ if each.__module__.partition(".")[0] not in ("holdfast", "builtins", "abc")]
    parts = [(each.__qualname__, name, _said(value)) for each in own for name, value in sorted(vars(each).items())]
    return repr([part for part in parts if part[2]]).encode()


def _said(value: object) -> str:
    """The source of a function, plain values as they are; nothing of what Python adds to a class."""
    inner = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
    if isinstance(inner, FunctionType):
        if inner.__code__.co_filename == "<string>":  # made by dataclasses
            return ""
        try:
            return inspect.getsource(inner)
        except OSError:
            return repr(_plain_code(inner.__code__))
    return repr(value) if isinstance(value, str | bytes | int | float | tuple | NoneType) else ""


def _plain_code(code: CodeType) -> tuple[object, ...]:
    inner = [_plain_code(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    return code.co_code, code.co_names, inner
