"""Which slots of a memory hold which class, and how to take back what was written."""

from array import array
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Slots = NDArray[np.int64]


class Journal:
    """Remembers how to take back what was written."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def on_undo(self, action: Callable[[], None]) -> None:
        """Called before the write that it takes back. To take it back twice in a row is as good as once."""
        self._undo.append(action)

    def set(self, array: Array, where: Any, values: Any) -> None:
        self.on_undo(partial(array.__setitem__, where, array[where].copy()))
        array[where] = values

    def clear(self) -> None:
        """Nothing is taken back any more."""
        self._undo.clear()

    def undo(self) -> None:
        """Goes on where it was cut off, if it was."""
        while self._undo:
            self._undo[-1]()
            self._undo.pop()


class ClassIndex:
    """Which slots hold a class: dense per class, so that a uniform draw within a class is one look-up.

    Plain Python on the few slots that change is several times faster than numpy, and O(1) each.
    """

    BYTES_PER_SLOT = 24  # 8 for its place, up to 16 in a member list that is at most half empty

    def __init__(self, capacity: int) -> None:
        self.members: list[array[int]] = []
        self._place = np.empty(capacity, np.int64)  # where a slot stands among the members of its class

    def make_room(self, classes: int, journal: Journal) -> None:
        if classes > len(self.members):
            journal.on_undo(partial(self.members.__delitem__, slice(len(self.members), None)))
            self.members += [array("q") for _ in range(classes - len(self.members))]

    def resize(self, capacity: int, journal: Journal) -> None:
        journal.on_undo(partial(setattr, self, "_place", self._place))
        place = np.empty(capacity, np.int64)
        kept = min(capacity, len(self._place))
        place[:kept] = self._place[:kept]
        self._place = place

    def copy(self) -> "ClassIndex":
        twin = ClassIndex(0)
        twin.members = [members[:] for members in self.members]
        twin._place = self._place.copy()
        return twin

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
        groups = _by_label(slots, y)
        self.make_room(max(groups, default=-1) + 1, journal)
        for label, new in groups.items():
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
