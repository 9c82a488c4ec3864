"""What is done to a learner, as an entry of a log: from the same start, the same deeds lead to the same bits."""

from collections.abc import Hashable
from dataclasses import dataclass

from torch import Tensor

from holdfast import checkpoint
from holdfast.labels import decode, encode


@dataclass(frozen=True, slots=True)
class Observed:
    x: Tensor
    y: list[Hashable]
    task: int | None


@dataclass(frozen=True, slots=True)
class Asked:
    x: Tensor


@dataclass(frozen=True, slots=True)
class Told:
    ticket: int
    x: Tensor  # the question may have expired meanwhile
    y: list[Hashable]
    task: int | None


@dataclass(frozen=True, slots=True)
class Remembered:
    x: Tensor
    y: list[Hashable]


Deed = Observed | Asked | Told | Remembered


def to_bytes(deed: Deed) -> bytes:
    values: checkpoint.Manifest = {"deed": type(deed).__name__}
    if not isinstance(deed, Asked):
        values["y"] = [encode(label) for label in deed.y]
    if isinstance(deed, Observed | Told):
        values["task"] = deed.task
    if isinstance(deed, Told):
        values["ticket"] = deed.ticket
    return checkpoint.pack({"x": deed.x}, values)


def from_bytes(content: bytes) -> Deed:
    tensors, values = checkpoint.unpack(content)
    x, kind = tensors["x"], values["deed"]
    if kind == Asked.__name__:
        return Asked(x)
    y = [decode(label) for label in values["y"]]
    if kind == Remembered.__name__:
        return Remembered(x, y)
    return Observed(x, y, values["task"]) if kind == Observed.__name__ else Told(values["ticket"], x, y, values["task"])
