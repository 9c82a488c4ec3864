"""What the learner keeps of the past. Every operation costs O(batch + classes), whatever the capacity."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.arguments import whole
from holdfast.batch import Batch
from holdfast.errors import CheckpointError, InputError
from holdfast.memory.class_index import Array, ClassIndex, Journal, Slots
from holdfast.samples import equal_to_any, is_number

_REPLACED_BY_GROWTH = ("capacity", "_counts", "_columns", "_index")


class Memory(ABC):
    """Samples in numbered slots, with their labels and whatever else a method keeps beside them.

    The capacity is a number of samples or, with `nbytes`, of bytes (labels and index included). Which samples are
    kept is what subclasses decide.
    """

    drawn_below: int | None = None  # samples of classes from this index on are not drawn: an experiment may say so

    def __init__(self, capacity: int | None = None, *, nbytes: int | None = None) -> None:
        if (capacity is None) == (nbytes is None):
            raise InputError("memory: give a capacity in samples or a budget in bytes, one of the two")
        self._asked = None if capacity is None else whole("memory: the capacity", capacity)
        self.byte_budget = None if nbytes is None else whole("memory: nbytes", nbytes)
        self.clear()

    def clear(self) -> None:
        self.capacity = self._asked or 0
        self._counts = np.zeros(2, np.int64)  # offered, held
        self._columns: dict[str, Array] = {}
        self._index = ClassIndex(0)

    @property
    def offered(self) -> int:
        """How many samples it was given so far."""
        return int(self._counts[0])

    def __len__(self) -> int:
        return int(self._counts[1])

    @property
    def settings(self) -> dict[str, int | None]:
        """What it was made with."""
        return {"capacity": self._asked, "nbytes": self.byte_budget}

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

    def sample(self, n: int, rng: np.random.Generator, below: int | None = None) -> Batch | None:
        """`n` samples drawn without replacement, all there are if fewer, None if there are none.

        With `below` only samples of classes with a lower index.
        """
        bounds = [bound for bound in (below, self.drawn_below) if bound is not None]
        if bounds:
            return self._sample_below(n, rng, min(bounds))
        if len(self) == 0 or n == 0:
            return None
        return self.at(rng.choice(len(self), min(n, len(self)), replace=False))

    def at(self, slots: Slots) -> Batch:
        rows = {name: torch.from_numpy(column[slots]) for name, column in self._columns.items()}
        del rows["arrival"]
        return Batch(rows.pop("x"), rows.pop("y"), rows)

    def add(self, batch: Batch, rng: np.random.Generator, journal: Journal | None = None) -> None:
        """Offers samples, one after the other. `journal` learns how to take it back."""
        journal = journal or Journal()
        incoming = {name: tensor.detach().cpu().numpy() for name, tensor in _columns_of(batch).items()}
        incoming["arrival"] = self.offered + np.arange(len(batch))
        if not self._columns:
            journal.on_undo(self.clear)
            self._lay_out(incoming)
        elif self._columns.keys() != incoming.keys():
            raise InputError(f"the memory holds {', '.join(self._columns)} of each sample, not {', '.join(incoming)}")
        else:
            incoming = self._fit(incoming, rng, journal)
        self._admit(incoming, rng, journal)
        journal.set(self._counts, 0, self.offered + len(batch))

    def remove(self, slots: Slots, journal: Journal) -> None:
        """Erases samples. The last ones move into the gaps; the next that are offered fill the room."""
        gone, held = np.unique(slots), len(self)
        left = held - len(gone)
        gaps = gone[gone < left]
        movers = np.setdiff1d(np.arange(left, held), gone)
        for leaving in (gone, movers) if held else ():
            self._index.remove(leaving, self._columns["y"][leaving], journal)
        for column in self._columns.values():
            journal.set(column, gaps, column[movers])
            journal.set(column, slice(left, held), 0)
        if held:
            self._index.add(gaps, self._columns["y"][gaps], journal)
        journal.set(self._counts, 1, left)

    def find(self, samples: Tensor) -> Slots:
        """The slots that hold one of these samples."""
        return equal_to_any(self._columns["x"][: len(self)] if self._columns else [], samples)

    @property
    def arrivals(self) -> NDArray[np.int64]:
        """Of each slot: the how-manieth sample, from 0, it was among all that were offered."""
        return self._columns["arrival"][: len(self)] if self._columns else np.empty(0, np.int64)

    def state(self) -> dict[str, Array]:
        """Everything it holds, as views of its arrays."""
        held = {f"column/{name}": column[: len(self)] for name, column in self._columns.items()}
        members = [np.array(members, np.int64) for members in self._index.members]
        index = np.concatenate(members) if members else np.empty(0, np.int64)
        counts = {"capacity": np.array([self.capacity]), "counts": self._counts, "class_counts": self.class_counts}
        return held | counts | {"index": index}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Becomes what `state` was taken of."""
        capacity = self.capacity = int(state["capacity"][0])
        self._counts = state["counts"].copy()
        prefix = "column/"
        held = {name.removeprefix(prefix): rows for name, rows in state.items() if name.startswith(prefix)}
        self._columns = {name: _with_capacity(rows, capacity) for name, rows in held.items()}
        self._index = ClassIndex(capacity if held else 0)
        counts = state["class_counts"]
        if counts.ndim != 1 or (counts < 0).any() or counts.sum() != len(state["index"]):
            raise CheckpointError("the memory's index is not that of what it holds")
        self._index.make_room(len(counts), Journal())
        self._index.add(state["index"], np.repeat(np.arange(len(counts)), counts), Journal())

    def flaws(self, classes: int, sample_template: Tensor | None) -> Iterator[str]:
        """What is wrong with it, as it was restored, for a learner of so many classes and such samples.

        Only the first one counts: what follows takes for granted what came before.
        """
        held, columns = len(self), self._columns
        if self._counts.shape != (2,) or not 0 <= held <= min(self.offered, self.capacity):
            yield "how many it holds"
        if not columns and not self.offered:
            return
        if sample_template is None or not {"x", "y", "arrival"} <= columns.keys():
            yield "what it holds"
            return
        x, y, arrival = (columns[name] for name in ("x", "y", "arrival"))
        if (
            x.shape[1:] != sample_template.shape[1:]
            or x.dtype != sample_template.numpy().dtype
            or not is_number(torch.from_numpy(x[:held]))
        ):
            yield "its samples"
        if any(column.dtype != np.int64 or column.ndim != 1 for column in (y, arrival)):
            yield "its labels"
        slots = np.concatenate([np.empty(0, np.int64), *(np.array(m, np.int64) for m in self._index.members)])
        if not np.array_equal(np.sort(slots), np.arange(held)) or len(self.class_counts) > classes:
            yield "its index"
        if not np.array_equal(y[slots], np.repeat(np.arange(len(self.class_counts)), self.class_counts)):
            yield "its labels"
        right = self._asked if self.byte_budget is None else self.byte_budget // _row_bytes(columns)
        if self.capacity != right or self.arrivals.max(initial=-1) >= self.offered:
            yield "its capacity"

    def copy(self) -> Self:
        """Another that holds the same."""
        twin = copy.copy(self)
        twin.restore(self.state())
        return twin

    @abstractmethod
    def _admit(self, incoming: dict[str, Array], rng: np.random.Generator, journal: Journal) -> None:
        """Decides which samples are held from now on, and calls `_write` for those that come in."""

    def _write(self, slots: Slots, incoming: dict[str, Array], rows: Array, journal: Journal) -> None:
        """Puts rows of `incoming` into slots: held ones are replaced, the others follow without a gap."""
        held = len(self)
        replaced = slots[slots < held]
        self._index.remove(replaced, self._columns["y"][replaced], journal)
        for name, column in self._columns.items():
            journal.set(column, slots, incoming[name][rows])
        self._index.add(slots, incoming["y"][rows], journal)
        journal.set(self._counts, 1, held + len(slots) - len(replaced))

    def _sample_below(self, n: int, rng: np.random.Generator, below: int) -> Batch | None:
        ends = self.class_counts[:below].cumsum()
        total = int(ends[-1]) if len(ends) else 0
        if total == 0 or n == 0:
            return None
        ranks = rng.choice(total, min(n, total), replace=False)
        labels = np.searchsorted(ends, ranks, side="right")
        places = ranks - (ends[labels] - self.class_counts[labels])
        members = self._index.members
        return self.at(np.array([members[c][p] for c, p in zip(labels.tolist(), places.tolist(), strict=True)]))

    def _lay_out(self, sample_template: dict[str, Array]) -> None:
        if self.byte_budget is not None:
            self.capacity = self.byte_budget // _row_bytes(sample_template)
        try:
            self._index = ClassIndex(self.capacity)
            self._columns = {
                name: np.empty((self.capacity, *c.shape[1:]), c.dtype) for name, c in sample_template.items()
            }
        except (ValueError, MemoryError):
            need = self.capacity * _row_bytes(sample_template) / 2**30
            raise InputError(f"memory: {self.capacity} such samples need {need:,.0f} GiB") from None

    def _fit(self, incoming: dict[str, Array], rng: np.random.Generator, journal: Journal) -> dict[str, Array]:
        """Vectors beside the samples may get longer as classes appear: the shorter ones are filled up with zeros.

        The columns grow by doubling, so that this happens seldom.
        """
        lengths = {name: rows.shape[1] for name, rows in incoming.items() if name not in ("x", "y") and rows.ndim == 2}
        there = {name: self._columns[name].shape[1] for name in lengths}
        if any(lengths[name] > there[name] for name in lengths):
            journal.on_undo(partial(vars(self).update, {name: vars(self)[name] for name in _REPLACED_BY_GROWTH}))
            there = {name: n if n >= lengths[name] else max(lengths[name], 2 * n) for name, n in there.items()}
            self._columns = self._columns | {name: _padded(self._columns[name], n) for name, n in there.items()}
            if self.byte_budget is not None:
                self._shrink(self.byte_budget // _row_bytes(self._columns), rng)
        return incoming | {name: _padded(incoming[name], n) for name, n in there.items()}

    def _shrink(self, capacity: int, rng: np.random.Generator) -> None:
        """Keeps a uniform choice of what is held."""
        kept = np.sort(rng.choice(len(self), min(capacity, len(self)), replace=False))
        self._columns = {name: _with_capacity(column[kept], capacity) for name, column in self._columns.items()}
        self._index = ClassIndex(capacity)
        self._index.add(np.arange(len(kept)), self._columns["y"][: len(kept)], Journal())
        self._counts = np.array([self.offered, len(kept)])
        self.capacity = capacity


class Reservoir(Memory):
    """Vitter's algorithm R: after any number of samples, each of them is held with equal probability."""

    def _admit(self, incoming: dict[str, Array], rng: np.random.Generator, journal: Journal) -> None:
        n = len(incoming["y"])
        arrival = self.offered + np.arange(n)
        next_free = len(self) + np.arange(n)  # the arrival itself, unless something was erased
        slots = np.where(next_free < self.capacity, next_free, rng.integers(0, arrival + 1))
        # A slot drawn twice in one batch keeps its last writer, as if the samples had come one by one.
        slots, rows = np.unique(slots[::-1], return_index=True)
        kept = slots < self.capacity
        self._write(slots[kept], incoming, n - 1 - rows[kept], journal)


class ClassBalanced(Memory):
    """Greedy and balanced: a sample gets in while its class has less than its share, at the cost of the largest."""

    def _admit(self, incoming: dict[str, Array], rng: np.random.Generator, journal: Journal) -> None:
        met = len(self._index.members)
        for row, label in enumerate(incoming["y"].tolist()):
            met = max(met, label + 1)
            if len(self) < self.capacity:
                slot = len(self)
            elif self.count(label) * met < self.capacity:
                largest = self._index.members[int(self.class_counts.argmax())]
                slot = largest[int(rng.integers(len(largest)))]
            else:
                continue
            self._write(np.array([slot]), incoming, np.array([row]), journal)


def _columns_of(batch: Batch) -> dict[str, Tensor]:
    return {"x": batch.x, "y": batch.y, **batch.extra}


def _row_bytes(columns: Mapping[str, Array]) -> int:
    row = sum(column.itemsize * int(np.prod(column.shape[1:])) for column in columns.values())
    return row + ClassIndex.BYTES_PER_SLOT


def _padded(rows: Array, width: int) -> Array:
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])))


def _with_capacity(rows: Array, capacity: int) -> Array:
    column = np.empty((capacity, *rows.shape[1:]), rows.dtype)
    column[: len(rows)] = rows
    return column
