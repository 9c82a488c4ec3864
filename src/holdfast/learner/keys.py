"""Names that callers give to batches, so that one that is sent twice is learned once."""

from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import Any

import torch

from holdfast.arguments import COUNTED, whole
from holdfast.errors import InputError, KeyReused
from holdfast.learner.operations import Observed, Told, to_bytes
from holdfast.memory.class_index import Journal

MOST = 10_000  # older ones are not known any more
LONGEST = 255


@dataclass(frozen=True, slots=True)
class Learned:
    """Which batch a key stands for, and after how many steps it had been learned."""

    digest: str
    step: int


class Keys:
    def __init__(self) -> None:
        self._learned: OrderedDict[str, Learned] = OrderedDict()

    def __len__(self) -> int:
        return len(self._learned)

    def find(self, operation: Observed | Told) -> Learned | None:
        """When a batch with the same key was learned, if it was; it is an error if that was another batch."""
        if operation.key is None or (learned := self._learned.get(operation.key)) is None:
            return None
        if learned.digest != _digest(operation):
            raise KeyReused(f"the key {operation.key!r} was given to another batch; a new batch needs a new key")
        return learned

    def step(self, key: str) -> int | None:
        """After how many steps its batch had been learned."""
        learned = self._learned.get(key)
        return None if learned is None else learned.step

    def add(self, operation: Observed | Told, step: int, journal: Journal) -> None:
        if operation.key is None:
            return
        oldest = next(iter(self._learned.items())) if len(self._learned) >= MOST else None
        journal.on_undo(partial(self._take_back, operation.key, oldest))
        if oldest is not None:
            del self._learned[oldest[0]]
        self._learned[operation.key] = Learned(_digest(operation), step)

    def pack(self) -> list[list[Any]]:
        return [[key, learned.digest, learned.step] for key, learned in self._learned.items()]

    def unpack(self, values: list[list[Any]]) -> None:
        rows = [(check_key(key), Learned(str(digest), whole("step", step, COUNTED))) for key, digest, step in values]
        self._learned = OrderedDict(rows[-MOST:])

    def _take_back(self, key: str, oldest: tuple[str, Learned] | None) -> None:
        self._learned.pop(key, None)
        if oldest is not None:
            self._learned[oldest[0]] = oldest[1]
            self._learned.move_to_end(oldest[0], last=False)


def check_key(key: object) -> str:
    if not isinstance(key, str) or not 0 < len(key) <= LONGEST or not key.isascii() or not key.isprintable():
        raise InputError(f"key must be 1 to {LONGEST} printable ASCII characters")
    return key


def _digest(operation: Observed | Told) -> str:
    """The samples of a question are not at hand any more when its labels are told again; its number says which."""
    if isinstance(operation, Told):
        operation = replace(operation, x=torch.empty(0))
    return blake2b(to_bytes(operation), digest_size=16).hexdigest()
