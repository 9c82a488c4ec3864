"""Which runs are meant: values of fields as they are written, read as what the fields hold."""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.arguments import as_size, bytes_of, per_class
from holdfast.errors import InputError, UnknownName
from holdfast.runs import schema

KINDS = {"id": "TEXT", "status": "TEXT", **schema.KINDS}


def values(where: Mapping[str, str]) -> dict[str, Any]:
    """The value that each field must have; `none` where it must have none."""
    for name in where:
        if name not in KINDS:
            raise UnknownName("field", name, KINDS)
    return {name: None if text.lower() == "none" else _value(name, text) for name, text in where.items()}


def _value(name: str, text: str) -> Any:
    read, what = READERS[KINDS[name]]
    try:
        return read(text)
    except (ValueError, KeyError):
        raise InputError(f"{name} is {what}, not {text!r}") from None


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError
    return number


def _memory(text: str) -> int | str:
    if (number := per_class(text)) is not None:
        return number
    return int(text) if text.strip().isdigit() else as_size(bytes_of("memory", text))


READERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "TEXT": (str, "text"),
    "INTEGER": (int, "a whole number"),
    "MEMORY": (_memory, "a whole number or a number of bytes"),
    "REAL": (_number, "a number"),
    "BOOLEAN": (lambda text: {"true": True, "1": True, "false": False, "0": False}[text.lower()], "true or false"),
    "JSON": (json.loads, 'written as JSON, {"head":"linear"} or ["drift"]'),
}
