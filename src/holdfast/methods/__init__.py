"""The methods by the names they have on the command line."""

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

from holdfast.errors import InputError, UnknownName
from holdfast.methods.agem import AGEM
from holdfast.methods.base import Extra, Method, Scores, StepContext
from holdfast.methods.der import DER, DERPlusPlus, DERPlusPlusACE
from holdfast.methods.er import ER
from holdfast.methods.er_ace import ERACE
from holdfast.methods.er_aml import ERAML
from holdfast.methods.fine_tuning import FineTuning
from holdfast.methods.gdumb import GDumb
from holdfast.methods.holdfast import Holdfast
from holdfast.methods.icarl import ICaRL
from holdfast.methods.iid import IID, IIDOffline, IIDPlusPlus
from holdfast.methods.loaded import code_of_class, find_loaded, is_of_program, name_of_own
from holdfast.methods.mir import MIR
from holdfast.methods.ncm import NCM
from holdfast.methods.own import find_in
from holdfast.methods.scr import SCR
from holdfast.methods.slda import SLDA
from holdfast.methods.ssil import SSIL
from holdfast.user_files import file_of

__all__ = [
    "AGEM",
    "DER",
    "ER",
    "ERACE",
    "ERAML",
    "IID",
    "METHODS",
    "MIR",
    "NCM",
    "SCR",
    "SLDA",
    "SSIL",
    "DERPlusPlus",
    "DERPlusPlusACE",
    "Extra",
    "FineTuning",
    "GDumb",
    "Holdfast",
    "ICaRL",
    "IIDOffline",
    "IIDPlusPlus",
    "Method",
    "Scores",
    "StepContext",
    "as_text",
    "code_of",
    "file_of",
    "find",
    "identity",
    "make",
    "parse",
]

METHODS: dict[str, type[Method]] = {
    "er": ER,
    "er-ace": ERACE,
    "er-aml": ERAML,
    "holdfast": Holdfast,
    "der": DER,
    "der++": DERPlusPlus,
    "der++-ace": DERPlusPlusACE,
    "mir": MIR,
    "icarl": ICaRL,
    "ss-il": SSIL,
    "gdumb": GDumb,
    "a-gem": AGEM,
    "scr": SCR,
    "slda": SLDA,
    "ncm": NCM,
    "fine-tuning": FineTuning,
    "iid": IID,
    "iid++": IIDPlusPlus,
    "iid-offline": IIDOffline,
}


def find(name: str) -> type[Method]:
    """A method by its name, by `file.py:Class` from a file of the user's, or by `module:Class` of this program."""
    file = file_of(name)
    if file is not None:
        return find_in(file, name.rpartition(":")[2])
    if is_of_program(name):
        return find_loaded(name)
    if name not in METHODS:
        if "," in name and all(each.strip() in METHODS for each in name.split(",")):
            raise InputError(f"{name!r} are several methods: give each of them by itself")
        raise UnknownName("method", name, METHODS)
    return METHODS[name]


def identity(name: str) -> str:
    """A method of the user's is what its file says, not where the file lies."""
    code = code_of(name)
    return name if code is None else hashlib.sha256(code).hexdigest() + ":" + name.rpartition(":")[2]


def code_of(name: str) -> bytes | None:
    """The code of a method of the user's; None for those of this package."""
    file = file_of(name)
    if file is None:
        return code_of_class(find(name)) if is_of_program(name) else None
    return file.read_bytes()


def as_text(method: Method) -> str:
    """A method as it is named on the command line, with the options that are not at their defaults.

    Raises InputError for classes that cannot be found again by their names, and for options that cannot be written.
    """
    kind = type(method)
    name = next((name for name, built_in in METHODS.items() if built_in is kind), None) or name_of_own(kind)
    options = {
        field.metadata.get("also", field.name): _text(getattr(method, field.name))
        for field in dataclasses.fields(method)
        if getattr(method, field.name) != field.default
    }
    text = name + (":" + ",".join(f"{option}={value}" for option, value in options.items()) if options else "")
    if find(name) is not kind:
        raise InputError(
            f"{kind.__qualname__} cannot be found by its name: define it at the top of a module or notebook"
        )
    if parse(text) != (name, options) or make(name, options) != method:
        raise InputError(f"{method!r} cannot be written as a method with options: {text!r} is another one")
    return text


def _text(value: object) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def make(name: str, options: Mapping[str, str] | None = None) -> Method:
    """A method with its options as they are written on the command line."""
    method = find(name)
    hints = get_type_hints(method) if options else {}
    fields = {field.metadata.get("also", field.name): field for field in dataclasses.fields(method)}
    values: dict[str, Any] = {}
    for option, text in (options or {}).items():
        if option not in fields:
            raise UnknownName(f"option of {name}", option, fields)
        field = fields[option]
        values[field.name] = _parse(f"{name}:{option}", text, hints[field.name])
    try:
        return method(**values)
    except TypeError as error:
        raise InputError(f"method {name}: {error}") from error


def parse(text: str) -> tuple[str, dict[str, str]]:
    """NAME[:option=value,...] or file.py:Class[:option=value,...]"""
    name, options = text, ""
    if ":" in text and "=" in text.rpartition(":")[2]:
        name, _, options = text.rpartition(":")
    pairs = [item.partition("=") for item in options.split(",")] if options else []
    for key, equals, value in pairs:
        if not key or not equals or not value:
            raise InputError(f"method {text!r}: options are written option=value,option=value")
    return name, {key: value for key, _, value in pairs}


def _parse(option: str, text: str, kind: Any) -> Any:
    if get_origin(kind) is Literal:
        choices = {"false" if choice is False else str(choice): choice for choice in get_args(kind)}
        if text not in choices:
            raise UnknownName(f"value of {option}", text, choices)
        return choices[text]
    kinds = get_args(kind) or (kind,)
    if type(None) in kinds and text.lower() == "none":
        return None
    if bool in kinds:
        if text.lower() not in ("true", "false"):
            raise InputError(f"{option} must be true or false, not {text!r}")
        return text.lower() == "true"
    for number in (int, float):
        if number in kinds:
            try:
                return number(text)
            except ValueError:
                raise InputError(f"{option} must be a{'n' * (number is int)} {number.__name__}, not {text!r}") from None
    return text
