"""What the learner keeps of the past. Every operation costs O(batch), whatever the capacity."""

import hashlib
from array import array
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.batch import Batch
from holdfast.errors import InputError

Array = NDArray[Any]
Slots = NDArray[np.int64]


class Journal:
    """Remembers how to take back what was written."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def on_undo(self, action: Callable[[], None]) -> None:
        """Called before the write that it takes back."""
        self._undo.append(action)

    def set(self, array: Array, where: Any, values: Any) -> None:
        self.on_undo(partial(array.__setitem__, where, array[where].copy()))
        array[where] = values

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()


class ClassIndex:
    """Which slots hold a class: dense per class, so that a uniform draw within a class is one look-up.

    Plain Python on the few slots that change is several times faster than numpy, and O(1) each.
    """

    BYTES_PER_SLOT = 24  # 8 for its place, up to 16 in a member list that is at most half empty

    def __init__(self, capacity: int) -> None:
        self.members: list[array[int]] = []
        self._place = np.empty(capacity, np.int64)  # where a slot stands among the members of its class

    def remove(self, slots: Slots, y: NDArray[np.int64], journal: Journal) -> None:
        moved: list[int] = []
        places: list[int] = []
        for label, gone in _by_label(slots, y).items():
            members = self.members[label]
            kept = len(members) - len(gone)
            holes = [place for place in self._place[gone].tolist() if place < kept]
            tail = members[kept:]
            leaving = set(gone)
            movers = [slot for slot in tail if slot not in leaving]
            journal.on_undo(partial(_put_back, members, kept, tail, holes, [members[hole] for hole in holes]))
            for hole, mover in zip(holes, movers, strict=True):
                members[hole] = mover
            del members[kept:]
            moved += movers
            places += holes
        journal.set(self._place, moved, places)

    def add(self, slots: Slots, y: NDArray[np.int64], journal: Journal) -> None:
        added: list[int] = []
        places: list[int] = []
        for label, new in _by_label(slots, y).items():
            while label >= len(self.members):
                self.members.append(array("q"))
            members = self.members[label]
            journal.on_undo(partial(members.__delitem__, slice(len(members), None)))
            added += new
            places += range(len(members), len(members) + len(new))
            members.extend(new)
        journal.set(self._place, added, places)


def _by_label(slots: Slots, y: NDArray[np.int64]) -> dict[int, list[int]]:
    groups: dict[int, list[int]] = {}
    for slot, label in zip(slots.tolist(), y.tolist(), strict=True):
        groups.setdefault(label, []).append(slot)
    return groups


def _put_back(members: "array[int]", kept: int, tail: "array[int]", holes: list[int], gone: list[int]) -> None:
    members[kept:] = tail
    for hole, slot in zip(holes, gone, strict=True):
        members[hole] = slot


class Reservoir:
    """Vitter's algorithm R: after any number of samples, each of them is held with equal probability.

    The capacity is a number of samples or, with `nbytes`, of bytes (labels and index included).
    """

    def __init__(self, capacity: int | None = None, *, nbytes: int | None = None) -> None:
        if (capacity is None) == (nbytes is None):
            raise InputError("memory: give a capacity in samples or a budget in bytes, one of the two")
        if (capacity or 0) < 0 or (nbytes or 0) < 0:
            raise InputError(f"memory: the capacity must be 0 or more, not {capacity or nbytes}")
        self._asked = capacity
        self.byte_budget = nbytes
        self.clear()

    def clear(self) -> None:
        self.capacity = self._asked or 0
        self._offered = np.zeros(1, np.int64)
        self._columns: dict[str, Array] = {}
        self._index = ClassIndex(0)

    @property
    def offered(self) -> int:
        """How many samples it was given so far."""
        return int(self._offered[0])

    def __len__(self) -> int:
        return min(self.offered, self.capacity)

    @property
    def nbytes(self) -> int:
        return len(self) * _row_bytes(self._columns)

    @property
    def class_counts(self) -> NDArray[np.int64]:
        """How many samples of each class are held, by class index."""
        return np.array([len(members) for members in self._index.members], np.int64)

    def count(self, label: int) -> int:
        """How many samples of a class are held."""
        return len(self._index.members[label]) if label < len(self._index.members) else 0

    def slots_of(self, label: int, places: Slots) -> Slots:
        """The slots of some members of a class, by their places from 0 to count - 1."""
        members = self._index.members[label]
        return np.array([members[place] for place in places.tolist()], np.int64)

    def members(self, label: int) -> Slots:
        """All slots that hold a class."""
        return np.array(self._index.members[label] if self.count(label) else [], np.int64)

    def sample(self, n: int, rng: np.random.Generator) -> Batch | None:
        """`n` samples drawn without replacement, all there are if fewer, None if there are none."""
        if len(self) == 0 or n == 0:
            return None
        return self.at(rng.choice(len(self), min(n, len(self)), replace=False))

    def at(self, slots: Slots) -> Batch:
        rows = {name: torch.from_numpy(column[slots]) for name, column in self._columns.items()}
        return Batch(rows.pop("x"), rows.pop("y"), rows)

    def add(self, batch: Batch, rng: np.random.Generator, journal: Journal | None = None) -> None:
        journal = journal or Journal()
        incoming = {name: tensor.detach().cpu().numpy() for name, tensor in _columns_of(batch).items()}
        if not self._columns:
            self._lay_out(incoming)
        arrival = self.offered + np.arange(len(batch))
        slots = np.where(arrival < self.capacity, arrival, rng.integers(0, arrival + 1))
        # A slot drawn twice in one batch keeps its last writer, as if the samples had come one by one.
        slots, rows = np.unique(slots[::-1], return_index=True)
        kept = slots < self.capacity
        slots, rows = slots[kept], len(batch) - 1 - rows[kept]

        y = incoming["y"][rows]
        replaced = slots[slots < self.offered]
        self._index.remove(replaced, self._columns["y"][replaced], journal)
        for name, column in self._columns.items():
            journal.set(column, slots, incoming[name][rows])
        self._index.add(slots, y, journal)
        journal.set(self._offered, 0, self.offered + len(batch))

    def hash_into(self, digest: "hashlib._Hash") -> None:
        digest.update(repr((self.capacity, self.offered)).encode())
        for name, column in sorted(self._columns.items()):
            digest.update(name.encode() + column[: len(self)].tobytes())
        for members in self._index.members:
            digest.update(members.tobytes())

    def _lay_out(self, like: dict[str, Array]) -> None:
        if self.byte_budget is not None:
            self.capacity = self.byte_budget // _row_bytes(like)
        try:
            self._index = ClassIndex(self.capacity)
            self._columns = {name: np.empty((self.capacity, *c.shape[1:]), c.dtype) for name, c in like.items()}
        except (ValueError, MemoryError):
            need = self.capacity * _row_bytes(like) / 2**30
            raise InputError(f"memory: {self.capacity} such samples need {need:,.0f} GiB") from None


def _columns_of(batch: Batch) -> dict[str, Tensor]:
    return {"x": batch.x, "y": batch.y, **batch.extra}


def _row_bytes(columns: dict[str, Array]) -> int:
    row = sum(column.itemsize * int(np.prod(column.shape[1:])) for column in columns.values())
    return row + ClassIndex.BYTES_PER_SLOT
