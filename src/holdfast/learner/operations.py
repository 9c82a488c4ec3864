"""What is done to a learner, as an entry of a log: from the same start, the same operations lead to the same bits."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from holdfast.learner.labels import decode, encode
from holdfast.storage import checkpoint


@dataclass(frozen=True, slots=True)
class Observed:
    x: Tensor
    y: list[Hashable]
    task: int | None
    key: str | None = None  # what the caller calls it


@dataclass(frozen=True, slots=True)
class Asked:
    x: Tensor


@dataclass(frozen=True, slots=True)
class Told:
    ticket: int
    x: Tensor  # the question may have expired meanwhile
    y: list[Hashable]
    task: int | None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Remembered:
    x: Tensor
    y: list[Hashable]


@dataclass(frozen=True, slots=True)
class Adjusted:
    """Settings of the learner, as plain values by their names."""

    settings: dict[str, Any]


Operation = Observed | Asked | Told | Remembered | Adjusted


def to_bytes(operation: Operation) -> bytes:
    values: checkpoint.Manifest = {"deed": type(operation).__name__}
    if isinstance(operation, Adjusted):
        return checkpoint.pack({}, {**values, "settings": operation.settings})
    if not isinstance(operation, Asked):
        values["y"] = [encode(label) for label in operation.y]
    if isinstance(operation, Observed | Told):
        values["task"] = operation.task
        if operation.key is not None:
            values["key"] = operation.key
    if isinstance(operation, Told):
        values["ticket"] = operation.ticket
    return checkpoint.pack({"x": operation.x}, values)


def from_bytes(content: bytes) -> Operation:
    tensors, values = checkpoint.unpack(content)
    kind = values["deed"]
    if kind == Adjusted.__name__:
        return Adjusted(dict(values["settings"]))
    x = tensors["x"]
    if kind == Asked.__name__:
        return Asked(x)
    y = [decode(label) for label in values["y"]]
    if kind == Remembered.__name__:
        return Remembered(x, y)
    how = y, values["task"], values.get("key")
    return Observed(x, *how) if kind == Observed.__name__ else Told(values["ticket"], x, *how)
