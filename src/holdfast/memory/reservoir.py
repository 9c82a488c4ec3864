import numpy as np

from holdfast.memory import encoded
from holdfast.memory.base import Memory
from holdfast.memory.class_index import Array, Journal
from holdfast.memory.encoded import EncodedBatch
from holdfast.memory.thinning import Thinning


class Reservoir(Memory):
    """A uniform random sample of everything offered so far.

    With a capacity, or a budget of bytes for samples that all take the same, this is Vitter's algorithm R: after any
    number of samples each of them is held with equal probability. With a budget for encoded samples, which differ in
    size, a draw gives each sample so far with equal probability (see `holdfast.memory.thinning`). The room
    of erased samples is filled by only a share of later ones, so that this stays true of all that were not erased.

    Args:
        capacity: a number of samples, or a number of bytes as text ("50MB").
        nbytes: a number of bytes, labels and index included, instead of a capacity.
        codec: samples are held encoded: "png", "webp:75" or a `Codec`. Samples that it cannot encode are refused.
        or_raw: samples that the codec cannot encode are held as they are instead.

    Raises:
        InputError: if an argument is wrong.

    Examples:
        >>> memory = Reservoir(nbytes=50_000_000, codec="webp:75")
        >>> len(memory)
        0
    """

    def _admit(self, incoming: dict[str, Array], rng: np.random.Generator, journal: Journal) -> None:
        if self._sizes_differ:
            self._thin(incoming, rng, journal)
            return
        n = len(incoming["y"])
        arrival = self.offered + np.arange(n)
        next_free = len(self) + np.arange(n)  # the arrival itself, unless something was erased
        slots = np.where(next_free < self.capacity, next_free, rng.integers(0, arrival + 1))
        # A slot drawn twice in one batch keeps its last writer, as if the samples had come one by one.
        slots, rows = np.unique(slots[::-1], return_index=True)
        kept = slots < self.capacity
        self._write(slots[kept], incoming, n - 1 - rows[kept], journal)

    def _thin(self, incoming: dict[str, Array], rng: np.random.Generator, journal: Journal) -> None:
        assert self._encoding is not None and self.byte_budget is not None
        held, row, x = len(self), self._row, self._columns["x"]
        batch = EncodedBatch(self._encoding, incoming["x"])

        def size_of(sample: int) -> int:
            return row + encoded.size(x[sample] if sample < held else batch[sample - held])

        thinning = Thinning(held, self.nbytes, self.byte_budget, float(self._threshold[0]), size_of, rng)
        thinning.fit()  # what is kept beside samples may have become longer
        for sample, key in enumerate(rng.random(len(incoming["y"])).tolist(), start=held):
            thinning.offer(sample, key)
        gone, rows = np.array(thinning.gone, np.int64), np.array(thinning.come, np.int64) - held
        if len(gone) or len(rows):
            self._replace(gone, incoming | batch.columns(rows), rows, journal)
        journal.set(self._threshold, 0, thinning.threshold)
