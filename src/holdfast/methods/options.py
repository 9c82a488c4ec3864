"""What the options of a method may be: their type hints say it."""

from collections.abc import Mapping
from dataclasses import asdict, field, fields
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from holdfast.arguments import ANY, NOT_NEGATIVE, POSITIVE, Range, real, switch, whole
from holdfast.errors import UnknownName

Count = Annotated[int, NOT_NEGATIVE]
AtLeastOne = Annotated[int, Range(least=1)]
Weight = Annotated[float, NOT_NEGATIVE]
Positive = Annotated[float, POSITIVE]


def added_later(default: Any, before: Any) -> Any:
    """An option that its method did not have from the start; `before`: what the method did then.

    Files and ids of runs name it only where it is not as it was before, so those made then stay what they are.
    """
    return field(default=default, metadata={"before": before})


def renamed(default: Any, first: Mapping[Any, Any]) -> Any:
    """An option with values that had other names at first, which files and ids of runs go on to have: {now: then}."""
    return field(default=default, metadata={"first": first})


def written(method: Any) -> dict[str, Any]:
    """The options of a method as files have them."""
    options = asdict(method)
    for each in fields(method):
        value = options[each.name]
        if "before" in each.metadata and value == each.metadata["before"]:
            del options[each.name]
        elif "first" in each.metadata:
            options[each.name] = each.metadata["first"].get(value, value)
    return options


def read(kind: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a method from a file, also one that was written before there were all of them."""
    found = dict(options)
    for each in fields(kind):
        if "before" in each.metadata:
            found.setdefault(each.name, each.metadata["before"])
        if "first" in each.metadata and each.name in found:
            now = {then: now for now, then in each.metadata["first"].items()}
            found[each.name] = now.get(found[each.name], found[each.name])
    return found


def plain_options(method: Any) -> dict[str, Any]:
    """The options of a method as plain Python, or an InputError that says what one of them may be."""
    name = type(method).__name__
    try:
        hints = get_type_hints(type(method), include_extras=True)
    except NameError:  # of something that is imported for type checkers only
        hints = {}
    values = {field.name: getattr(method, field.name) for field in fields(method)}
    return {option: _plain(f"{name}: {option}", value, hints.get(option)) for option, value in values.items()}


def _plain(option: str, value: Any, hint: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if value is None and NoneType in kinds:
        return None
    kind, *others = (kind for kind in kinds if kind is not NoneType)
    kind, *said = get_args(kind) if get_origin(kind) is Annotated else (kind,)
    ranges = [each for each in said if isinstance(each, Range)]
    if others:
        return value
    if get_origin(kind) is Literal and not any(value == c and type(value) is type(c) for c in get_args(kind)):
        raise UnknownName(f"value of {option}", str(value), map(str, get_args(kind)))
    if kind is bool:
        return switch(option, value)
    if kind is int:
        return whole(option, value, *ranges or [ANY])
    if kind is float and (ranges or not isinstance(value, float)):  # without a range, infinite may be meant
        return real(option, value, *ranges)
    return value
