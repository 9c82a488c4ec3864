"""What the learner keeps of the past. Every operation costs O(batch), whatever the capacity."""

import hashlib
from collections import Counter
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
    """Writes into arrays, and can take them all back."""

    def __init__(self) -> None:
        self._entries: list[tuple[Array, Any, Array]] = []

    def set(self, array: Array, where: Any, values: Any) -> None:
        self._entries.append((array, where, array[where].copy()))
        array[where] = values

    def undo(self) -> None:
        while self._entries:
            array, where, before = self._entries.pop()
            array[where] = before


class ClassIndex:
    """Which slots hold a class: dense per class, so that a uniform draw within a class is one look-up."""

    BYTES_PER_SLOT = 24  # 8 for its place, up to 16 in a member list that is at most half empty

    def __init__(self, capacity: int) -> None:
        self.counts = np.zeros(0, np.int64)
        self._members: list[Slots] = []
        self._place = np.empty(capacity, np.int64)  # where a slot stands among the members of its class
        self._touched: set[int] = set()

    def members(self, label: int) -> Slots:
        if label >= len(self.counts):
            return np.empty(0, np.int64)
        return self._members[label][: self.counts[label]]

    def make_room(self, added: NDArray[np.int64], removed: NDArray[np.int64]) -> None:
        """Arrays move only here, so that a journal of the writes below stays valid."""
        change = Counter(added.tolist())
        if fresh := max(0, max(change, default=-1) + 1 - len(self.counts)):
            self.counts = np.concatenate([self.counts, np.zeros(fresh, np.int64)])
            self._members += [np.empty(0, np.int64) for _ in range(fresh)]
        change.subtract(removed.tolist())
        for label in change.keys() | self._touched:
            held = self.members(label)
            need = len(held) + max(0, change[label])
            if not need <= len(self._members[label]) <= 2 * need:
                self._members[label] = np.empty(need * 3 // 2, np.int64)
                self._members[label][: len(held)] = held
        self._touched = set(change)  # a list that empties out now gives its room back next time

    def remove(self, slots: Slots, y: NDArray[np.int64], journal: Journal) -> None:
        for label in np.unique(y):
            gone = slots[y == label]
            members = self.members(label)
            kept = len(members) - len(gone)
            holes = self._place[gone]
            holes = holes[holes < kept]
            movers = members[kept:][~np.isin(members[kept:], gone)]
            journal.set(members, holes, movers)
            journal.set(self._place, movers, holes)
            journal.set(self.counts, label, kept)

    def add(self, slots: Slots, y: NDArray[np.int64], journal: Journal) -> None:
        for label in np.unique(y):
            new = slots[y == label]
            places = np.arange(self.counts[label], self.counts[label] + len(new))
            journal.set(self._members[label], places, new)
            journal.set(self._place, new, places)
            journal.set(self.counts, label, self.counts[label] + len(new))


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
        return self._index.counts

    def members(self, label: int) -> Slots:
        """The slots that hold a class; a view, valid until the next `add`."""
        return self._index.members(label)

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
        old_y = self._columns["y"][replaced]
        self._index.make_room(y, old_y)
        self._index.remove(replaced, old_y, journal)
        for name, column in self._columns.items():
            journal.set(column, slots, incoming[name][rows])
        self._index.add(slots, y, journal)
        journal.set(self._offered, 0, self.offered + len(batch))

    def hash_into(self, digest: "hashlib._Hash") -> None:
        digest.update(repr((self.capacity, self.offered)).encode())
        for name, column in sorted(self._columns.items()):
            digest.update(name.encode() + column[: len(self)].tobytes())
        for label in range(len(self.class_counts)):
            digest.update(self.members(label).tobytes())

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
