"""Which runs are compared with each other, and what sets them apart."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from holdfast.runs.spec import BY_METHOD, CHOICES, DEFAULTS, SETTING
from holdfast.runs.store import Record

OF_METHOD = [name for name in SETTING if name in BY_METHOD]
USUAL = "by method"
UNKNOWN_NET = "default"
Key = TypeVar("Key", bound=Hashable)


def by_title(records: Sequence[Record]) -> dict[str, list[Record]]:
    return _grouped(records, lambda record: str(record["title"]))


def by_setting(records: Sequence[Record]) -> dict[tuple[str, ...], list[Record]]:
    """Groups of records that differ in method and seed only, by what sets each group apart.

    Choices that come with the methods set nothing apart: methods as they are meant to be used stand side by side.
    """
    varied = {
        _of_stream(group[0]): [name for name in OF_METHOD if _is_varied(group, name)]
        for group in _grouped(records, _of_stream).values()
    }

    def setting(record: Record) -> tuple[Any, ...]:
        by_value = varied[_of_stream(record)]
        return tuple(
            USUAL if name in OF_METHOD and name not in by_value and is_usual(record, name) else record.get(name)
            for name in SETTING
        )

    groups = _grouped(records, setting)
    apart = [place for place in range(len(SETTING)) if len({key[place] for key in groups}) > 1]
    found: dict[tuple[str, ...], list[Record]] = {}
    for group in groups.values():
        found.setdefault(tuple(_said(group, SETTING[place]) for place in apart), []).extend(group)
    return found


def of_methods(group: Sequence[Record]) -> str:
    """What the methods of a setting have each of their own, in words; empty if they share it all."""
    had = {title: {**of_title[0], "net": net_of(of_title[0])} for title, of_title in by_title(group).items()}
    own = [name for name in (*OF_METHOD, "net") if len({record.get(name) for record in had.values()}) > 1]
    if not own:
        return ""
    values = {title: tuple(record.get(name) for name in own) for title, record in had.items()}
    alike: dict[tuple[Any, ...], list[str]] = {}
    for title, chosen in values.items():
        alike.setdefault(chosen, []).append(title)
    said = (
        ", ".join(titles) + ": " + " ".join(f"{_name(n)}={word(v)}" for n, v in zip(own, chosen, strict=True))
        for chosen, titles in alike.items()
    )
    return "; ".join(said)


def net_of(record: Record) -> str:
    """Chosen, or what suits; older records do not tell what that was."""
    return str(record.get("net") or (record.get("usual") or {}).get("net") or UNKNOWN_NET)


def _of_stream(record: Record) -> tuple[Any, ...]:
    return tuple(record.get(name) for name in SETTING if name not in OF_METHOD)


def _is_varied(group: Sequence[Record], name: str) -> bool:
    """Whether a method was tried with several values, at least one of which all methods have."""
    values = [{record.get(name) for record in of_title} for of_title in by_title(group).values()]
    return any(len(each) > 1 for each in values) and bool(set.intersection(*values))


def is_usual(record: Record, name: str) -> bool:
    """Whether it is what comes with the method. Records from before methods had a say do not tell: the default."""
    return bool(record.get(name, DEFAULTS[name]) == {**DEFAULTS, **(record.get("usual") or {})}[name])


def _said(group: Sequence[Record], name: str) -> str:
    values = {record.get(name) for record in group}
    option = CHOICES[name].name
    return f"{option}={values.pop()}" if len(values) == 1 else f"{option} {USUAL}"


def _name(field: str) -> str:
    return CHOICES[field].name


def word(value: Any) -> str:
    if value is None:
        return "raw"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _grouped(records: Sequence[Record], key: Callable[[Record], Key]) -> dict[Key, list[Record]]:
    groups: dict[Key, list[Record]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return groups
