"""What the learner keeps of the past. Every step costs O(batch + classes), whatever the capacity."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.arguments import COUNTED, bytes_of, per_class, switch, whole
from holdfast.batch import Batch
from holdfast.errors import CheckpointError, InputError
from holdfast.memory import codecs, encoded
from holdfast.memory.class_index import Array, ClassIndex, Journal, Slots
from holdfast.memory.codecs import Codec
from holdfast.memory.columns import OWN_COLUMNS, extra_bytes, frozen, padded, row_bytes, with_capacity
from holdfast.memory.encoded import EncodedBatch, Encoding, fingerprint
from holdfast.samples import Equal, equal_to_any, is_number

SPARE = 8  # one place in so many may be empty


class Memory(ABC):
    """Samples in numbered slots, with their labels and whatever else a method keeps beside them.

    Subclasses decide which samples are kept.

    Args:
        capacity: a number of samples, or a number of bytes as text ("50MB").
        nbytes: a number of bytes, labels and index included, instead of a capacity.
        codec: samples are held encoded: "png", "webp:75" or a `Codec`. Samples that it cannot encode are refused.
        or_raw: samples that the codec cannot encode are held as they are instead.

    Raises:
        InputError: if an argument is wrong.
    """

    drawn_below: int | None = None  # samples of classes from this index on are not drawn: an experiment may say so

    def __init__(
        self,
        capacity: int | str | None = None,
        *,
        nbytes: int | None = None,
        codec: str | Codec | None = None,
        or_raw: bool = False,
    ) -> None:
        if (capacity is None) == (nbytes is None):
            raise InputError("memory: give a capacity in samples or a budget in bytes, one of the two")
        if isinstance(capacity, str):
            if (number := per_class(capacity)) is not None:
                why = "a learner does not know how many classes will come"
                raise InputError(f"memory: {why}; for 10 of them, {capacity} is memory={10 * number}, samples in all")
            nbytes = bytes_of("memory: the budget", capacity)
            capacity = None
        if isinstance(capacity, type):
            raise InputError(f"memory: give a number of samples or {capacity.__name__}(number), not its class")
        self._asked = None if capacity is None else whole("memory: the capacity", capacity)
        self.byte_budget = None if nbytes is None else whole("memory: nbytes", nbytes)
        self._asked_codec, self._or_raw = codecs.find(codec), switch("memory: or_raw", or_raw)
        self.clear()

    def clear(self) -> None:
        """Removes everything."""
        self.capacity = self._asked or 0
        self.codec = self._asked_codec
        self._counts = np.zeros(2, np.int64)  # offered, held
        self._columns: dict[str, Array] = {}
        self._index = ClassIndex(0)
        self._encoding: Encoding | None = None
        self._encoded_bytes = np.zeros(1, np.int64)  # of all encoded samples
        self._threshold = np.ones(1)  # below which the keys of what is held are

    def __repr__(self) -> str:
        name, codec = type(self).__name__, f" as {self.codec.name}" if self.codec else ""
        room = f"{self.capacity:,} samples" if self.byte_budget is None else f"{self.byte_budget:,} bytes"
        return f"<{name} of {room}{codec}: {len(self):,} of {self.offered:,} samples>"

    @property
    def offered(self) -> int:
        """How many samples were offered to it so far."""
        return int(self._counts[0])

    def __len__(self) -> int:
        return int(self._counts[1])

    @property
    def settings(self) -> dict[str, int | str | bool | None]:
        """What it was made with."""
        asked = self._asked_codec
        codec = {} if asked is None else {"codec": asked.name} | ({"or_raw": True} if self._or_raw else {})
        return {"capacity": self._asked, "nbytes": self.byte_budget, **codec}

    @property
    def codec_version(self) -> str:
        """Of the library that encodes samples, if there is one."""
        return "" if self.codec is None else self.codec.version

    @property
    def nbytes(self) -> int:
        """The bytes it takes: samples, labels, whatever is kept beside them, and the index."""
        return len(self) * self._row + int(self._encoded_bytes[0])

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another sample of any size, or has been none."""
        if not self._sizes_differ:
            return len(self) == self.capacity
        return bool(self._threshold[0] < 1 or self.nbytes + self._largest_row > (self.byte_budget or 0))

    @property
    def class_counts(self) -> NDArray[np.int64]:
        """How many samples of each class are held, by class index."""
        return np.array([len(members) for members in self._index.members], np.int64)

    def count(self, label: int) -> int:
        """Counts the samples of a class.

        Args:
            label: the index of the class.

        Returns:
            How many are held.
        """
        return len(self._index.members[label]) if label < len(self._index.members) else 0

    def slots_of(self, label: int, places: Slots) -> Slots:
        """The slots of some members of a class, by their places from 0 to count - 1."""
        members = self._index.members[label]
        return np.array([members[place] for place in places.tolist()], np.int64)

    def members(self, label: int) -> Slots:
        """Finds the samples of a class.

        Args:
            label: the index of the class.

        Returns:
            All slots that hold one.
        """
        return np.array(self._index.members[label] if self.count(label) else [], np.int64)

    def sample(self, n: int, rng: np.random.Generator, below: int | None = None) -> Batch | None:
        """Draws samples without replacement.

        Args:
            n: how many; all if there are fewer.
            rng: all randomness comes from it.
            below: only samples of classes with a lower index.

        Returns:
            The samples, None if there are none.
        """
        if below is not None or self.drawn_below is not None:
            return self._sample_below(n, rng, self._bound(below))
        if len(self) == 0 or n == 0:
            return None
        return self.at(rng.choice(len(self), min(n, len(self)), replace=False))

    def shares(self, below: int | None = None) -> NDArray[np.float64]:
        """How likely it is that a sample which is drawn is of each class.

        Args:
            below: as for `sample`.

        Returns:
            A probability for each class, by class index; all are 0 if nothing can be drawn.
        """
        counts = self.class_counts.astype(np.float64)
        counts[self._bound(below) :] = 0
        shares: NDArray[np.float64] = counts / max(1, counts.sum())
        return shares

    def at(self, slots: Slots) -> Batch:
        """Reads samples.

        Args:
            slots: where they are held.

        Returns:
            The samples with their class indices and what is kept beside them.
        """
        rows = {name: column[slots] for name, column in self._columns.items() if name not in ("arrival", "fingerprint")}
        if self._encoding is not None:
            rows["x"] = self._encoding.decode(rows["x"], len(slots))
        tensors = {name: torch.from_numpy(values) for name, values in rows.items()}
        return Batch(tensors.pop("x"), tensors.pop("y"), tensors)

    def add(self, batch: Batch, rng: np.random.Generator, journal: Journal | None = None) -> None:
        """Offers samples, one after the other.

        Args:
            batch: the samples.
            rng: all randomness comes from it.
            journal: records how to undo it.

        Raises:
            InputError: if something else was kept beside the samples before.
        """
        journal = journal or Journal()
        incoming = {
            name: tensor.detach().cpu().numpy() for name, tensor in {"x": batch.x, "y": batch.y, **batch.extra}.items()
        }
        incoming["arrival"] = self.offered + np.arange(len(batch))
        if not self._columns:
            journal.on_undo(self.clear)
            if self._or_raw and self.codec is not None and self.codec.takes(batch.x.shape[1:], incoming["x"].dtype):
                self.codec = None
        if self.codec is not None:
            incoming["fingerprint"] = np.zeros(len(batch), np.int64)  # made for those that come in
        if not self._columns:
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
        journal.set(self._encoded_bytes, 0, self._encoded_bytes[0] - self._weight(gone))
        for leaving in (gone, movers) if held else ():
            self._index.remove(leaving, self._columns["y"][leaving], journal)
        for column in self._columns.values():
            journal.set(column, gaps, column[movers])
            journal.set(column, slice(left, held), 0)
        if held:
            self._index.add(gaps, self._columns["y"][gaps], journal)
        journal.set(self._counts, 1, left)
        if not left:
            journal.set(self._threshold, 0, 1)
        self._resize(left, journal)

    def find(self, samples: Tensor, equal: Equal = equal_to_any) -> Slots:
        """The slots that hold one of these samples, as they came."""
        if self._encoding is not None:
            wanted = [fingerprint(sample) for sample in samples.cpu().numpy()]
            return np.flatnonzero(np.isin(self._columns["fingerprint"][: len(self)], wanted))
        return equal(self._columns["x"][: len(self)] if self._columns else [], samples)

    def fingerprints(self, slots: Slots) -> NDArray[np.int64]:
        """Numbers by which the original samples are recognised, without storing them.

        Args:
            slots: where they are held.

        Returns:
            A number for each.
        """
        if self._encoding is not None:
            return frozen(self._columns["fingerprint"][slots])
        return np.array([fingerprint(sample) for sample in self._columns["x"][slots]] if len(slots) else [], np.int64)

    @property
    def arrivals(self) -> NDArray[np.int64]:
        """For each slot, the position of its sample in the order in which samples were offered, counted from 0."""
        return frozen(self._columns["arrival"][: len(self)]) if self._columns else np.empty(0, np.int64)

    @property
    def extras(self) -> dict[str, Array]:
        """What is held beside the samples for the method, by name."""
        held = {name: column[: len(self)] for name, column in self._columns.items() if name not in OWN_COLUMNS}
        return {name: frozen(view) for name, view in held.items()}

    @property
    def undecodable(self) -> int:
        """How many of the samples the codec cannot decode; these are blank. Computing this decodes all of them."""
        return 0 if self._encoding is None else self._encoding.undecodable(self._columns["x"][: len(self)])

    def state(self) -> dict[str, Array]:
        """Everything it holds, as views of its arrays."""
        columns = {name: column[: len(self)] for name, column in self._columns.items()}
        samples = {} if self._encoding is None else encoded.pack(self._encoding, columns.pop("x"))
        held = {f"column/{name}": column for name, column in columns.items()}
        members = [np.array(members, np.int64) for members in self._index.members]
        index = np.concatenate(members) if members else np.empty(0, np.int64)
        if self._encoding is not None:
            samples["threshold"] = self._threshold
        counts = {"capacity": np.array([self.capacity]), "counts": self._counts, "class_counts": self.class_counts}
        return held | samples | counts | {"index": index}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Becomes what `state` was taken of."""
        self.clear()
        capacity = self.capacity = int(state["capacity"][0])
        self._counts = state["counts"].copy()
        prefix = "column/"
        held = {name.removeprefix(prefix): rows for name, rows in state.items() if name.startswith(prefix)}
        if self._or_raw and "x" in held:
            self.codec = None
        if self.codec is not None and held:
            self._encoding, held["x"] = encoded.unpack(self.codec, state)
            self._threshold = state["threshold"].copy()
        if any(len(rows) != len(self) for rows in held.values()):
            raise CheckpointError("the memory does not hold as many samples as it says")
        room = capacity if self.codec is None else len(self)
        self._columns = {name: with_capacity(rows, room) for name, rows in held.items()}
        self._encoded_bytes[0] = self._weight(slice(len(self)))
        self._index = ClassIndex(room if held else 0)
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
        if (
            self._counts.shape != (2,)
            or not 0 <= held <= min(self.offered, self.capacity)
            or self.offered not in COUNTED
        ):
            yield "how many it holds"
        if not columns and not self.offered:
            return
        numbers = ["y", "arrival"] if self.codec is None else ["y", "arrival", "fingerprint"]
        if sample_template is None or not {"x", *numbers} <= columns.keys():
            yield "what it holds"
            return
        y = columns["y"]
        if not self._are_samples(columns["x"][:held], sample_template):
            yield "its samples"
        if any(columns[name].dtype != np.int64 or columns[name].ndim != 1 for name in numbers):
            yield "its labels"
        slots = np.concatenate([np.empty(0, np.int64), *(np.array(m, np.int64) for m in self._index.members)])
        if not np.array_equal(np.sort(slots), np.arange(held)) or len(self.class_counts) > classes:
            yield "its index"
        if not np.array_equal(y[slots], np.repeat(np.arange(len(self.class_counts)), self.class_counts)):
            yield "its labels"
        if self.capacity != self._most(columns) or self.arrivals.max(initial=-1) >= self.offered:
            yield "its capacity"
        size = held * row_bytes(columns) + int(self._encoded_bytes[0])  # of before room for extras was counted
        if self._sizes_differ and size > (self.byte_budget or 0):
            yield "its size"
        if self._threshold.shape != (1,) or self._threshold.dtype != float or not 0 < self._threshold[0] <= 1:
            yield "its threshold"

    def copy(self) -> Self:
        """Another that holds the same. Encoded samples are shared: nobody changes them."""
        twin = copy.copy(self)
        twin._counts, twin._encoded_bytes = self._counts.copy(), self._encoded_bytes.copy()
        twin._threshold, twin._index = self._threshold.copy(), self._index.copy()
        held = {name: column[: len(self)] for name, column in self._columns.items()}
        twin._columns = {name: with_capacity(column, self._room) for name, column in held.items()}
        return twin

    @abstractmethod
    def _admit(self, incoming: dict[str, Array], rng: np.random.Generator, journal: Journal) -> None:
        """Decides which samples are held from now on, and calls `_write` for those that come in."""

    def _write(self, slots: Slots, incoming: dict[str, Array], rows: Array, journal: Journal) -> None:
        """Puts rows of `incoming` into slots: held ones are replaced, the others follow without a gap."""
        held = len(self)
        replaced = slots[slots < held]
        self._resize(held + len(slots) - len(replaced), journal)
        if self._encoding is not None and incoming["x"].dtype != object:
            incoming = incoming | EncodedBatch(self._encoding, incoming["x"]).columns(rows)
        before = self._weight(replaced)
        self._index.remove(replaced, self._columns["y"][replaced], journal)
        for name, column in self._columns.items():
            journal.set(column, slots, incoming[name][rows])
        self._index.add(slots, incoming["y"][rows], journal)
        journal.set(self._encoded_bytes, 0, self._encoded_bytes[0] - before + self._weight(slots))
        journal.set(self._counts, 1, held + len(slots) - len(replaced))

    def _replace(self, gone: Slots, incoming: dict[str, Array], rows: Array, journal: Journal) -> None:
        """Rows of `incoming` in the place of what is gone, whatever their numbers."""
        held = len(self)
        taken = gone[: len(rows)]
        slots = np.concatenate([taken, np.arange(held, held + len(rows) - len(taken))])
        self._write(slots, incoming, rows, journal)
        if len(gone) > len(rows):
            self.remove(gone[len(rows) :], journal)

    @property
    def _sizes_differ(self) -> bool:
        """Whether it depends on the sizes of samples how many of them the budget has room for."""
        return self.codec is not None and self.byte_budget is not None

    @property
    def _room(self) -> int:
        """For how many samples the columns are laid out."""
        return len(self._columns["y"]) if self._columns else 0

    @property
    def _largest_row(self) -> int:
        """What a sample takes that could not be made smaller."""
        data = 0 if self._encoding is None else self._encoding.raw_size + encoded.BYTES_PER_OBJECT
        return self._row + data

    @property
    def _row(self) -> int:
        """What a sample takes in the columns and the index, with its share of the room that `_resize` leaves.

        For our own columns, what is counted for the index covers that share.
        """
        return row_bytes(self._columns) + (0 if self._encoding is None else -(-extra_bytes(self._columns) // SPARE))

    def _resize(self, rows: int, journal: Journal) -> None:
        """Encoded samples have room for so many and up to an eighth more, so that this happens seldom."""
        if self._encoding is None or rows <= self._room <= rows + rows // SPARE:
            return
        journal.on_undo(partial(setattr, self, "_columns", self._columns))
        room = rows + rows // (2 * SPARE)
        held = {name: column[: len(self)] for name, column in self._columns.items()}
        self._columns = {name: with_capacity(column, room) for name, column in held.items()}
        self._index.resize(room, journal)

    def _weight(self, slots: Any) -> int:
        """The bytes of encoded samples."""
        return 0 if self._encoding is None else sum(map(encoded.size, self._columns["x"][slots]))

    def _most(self, columns: Mapping[str, Array]) -> int:
        """How many samples may be held at most."""
        if self.byte_budget is None:
            return self._asked or 0
        return self.byte_budget // (row_bytes(columns) + (0 if self.codec is None else encoded.BYTES_PER_OBJECT))

    def _are_samples(self, x: Array, sample_template: Tensor) -> bool:
        if (self._encoding is None) != (self.codec is None):
            return False
        dtype = sample_template.numpy().dtype
        if self._encoding is None:
            return x.shape[1:] == sample_template.shape[1:] and x.dtype == dtype and is_number(torch.from_numpy(x))
        self._encoding.check(x)
        return self._encoding.shape == sample_template.shape[1:] and self._encoding.dtype == dtype

    def _bound(self, below: int | None) -> int:
        """Samples of classes from this index on are not drawn."""
        classes = len(self._index.members)
        return min(classes if bound is None else bound for bound in (below, self.drawn_below))

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
        if self.codec is not None:
            self._encoding = Encoding(self.codec, sample_template["x"].shape[1:], sample_template["x"].dtype)
            sample_template = sample_template | {"x": np.empty(0, object)}
        self.capacity = self._most(sample_template)
        room = self.capacity if self.codec is None else 0
        try:
            self._index = ClassIndex(room)
            self._columns = {name: np.empty((room, *c.shape[1:]), c.dtype) for name, c in sample_template.items()}
        except (ValueError, MemoryError):
            raise _too_large(self.capacity, sample_template) from None

    def _fit(self, incoming: dict[str, Array], rng: np.random.Generator, journal: Journal) -> dict[str, Array]:
        """Vectors beside the samples may get longer as classes appear: the shorter ones are filled up with zeros.

        The columns grow by doubling, so that this happens seldom.
        """
        lengths = {name: rows.shape[1] for name, rows in incoming.items() if name not in ("x", "y") and rows.ndim == 2}
        there = {name: self._columns[name].shape[1] for name in lengths}
        if any(lengths[name] > there[name] for name in lengths):
            journal.on_undo(self._restorer())
            there = {name: n if n >= lengths[name] else max(lengths[name], 2 * n) for name, n in there.items()}
            self._columns = self._columns | {name: padded(self._columns[name], n) for name, n in there.items()}
            if self._sizes_differ:
                self.capacity = self._most(self._columns)
            elif self.byte_budget is not None:
                self._shrink(self._most(self._columns), rng)
        return incoming | {name: padded(incoming[name], n) for name, n in there.items()}

    def _restorer(self) -> Callable[[], None]:
        """What puts back the parts that growing replaces."""
        capacity, counts, columns, index = self.capacity, self._counts, self._columns, self._index

        def restore() -> None:
            self.capacity, self._counts, self._columns, self._index = capacity, counts, columns, index

        return restore

    def resize(self, capacity: int | str, rng: np.random.Generator, journal: Journal) -> None:
        """Changes its capacity to another number of samples, or of bytes as text ("50MB").

        A smaller one keeps a random choice of the samples; a larger one fills up with samples to come.

        Args:
            capacity: the number of samples or bytes.
            rng: makes the choice.
            journal: records how to undo it.

        Raises:
            InputError: if the capacity is wrong, or a number of samples is given for samples that are held encoded.
        """
        if self._asked_codec is not None and (self.byte_budget is None or not isinstance(capacity, str)):
            raise InputError(f'memory: for samples held as {self._asked_codec.name} say how many bytes, as in "50MB"')
        other = type(self)(capacity)
        journal.on_undo(partial(vars(self).update, _asked=self._asked, byte_budget=self.byte_budget))
        journal.on_undo(self._restorer())
        self._asked, self.byte_budget = other._asked, other.byte_budget
        if not self._columns:
            self.capacity = other.capacity
            return
        if not (room := self._most(self._columns)) and capacity:
            raise InputError(f"memory: {self.byte_budget} bytes are too few for one such sample")
        if self._sizes_differ:
            self.capacity = room
            self._admit({name: column[:0] for name, column in self._columns.items()}, rng, journal)  # until all fits
        else:
            self._shrink(room, rng)

    def _shrink(self, capacity: int, rng: np.random.Generator) -> None:
        """Keeps a uniform choice of what is held."""
        kept = np.sort(rng.choice(len(self), min(capacity, len(self)), replace=False))
        try:
            self._columns = {name: with_capacity(column[kept], capacity) for name, column in self._columns.items()}
            self._index = ClassIndex(capacity)
        except (ValueError, MemoryError):
            raise _too_large(capacity, self._columns) from None
        self._index.add(np.arange(len(kept)), self._columns["y"][: len(kept)], Journal())
        self._counts = np.array([self.offered, len(kept)])
        self.capacity = capacity


def _too_large(capacity: int, columns: Mapping[str, Array]) -> InputError:
    return InputError(f"memory: {capacity} such samples need {capacity * row_bytes(columns) / 2**30:,.0f} GiB")
