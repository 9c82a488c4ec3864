import numpy as np

from holdfast.memory import encoded
from holdfast.memory.base import Memory
from holdfast.memory.class_index import Array, Journal
from holdfast.memory.encoded import EncodedBatch


class ClassBalanced(Memory):
    """Class-balanced and greedy: a sample gets in while its class lacks its share, in place of one of the largest.

    With a budget for encoded samples, all get in while there is room for one that could not be made smaller; then a
    class has less than its share if it has fewer samples than the average class.

    Args:
        capacity: a number of samples, or a number of bytes as text ("50MB").
        nbytes: a number of bytes, instead of a capacity.
        codec: samples are held encoded: "png", "webp:75" or a `Codec`. Samples that it cannot encode are refused.
        or_raw: samples that the codec cannot encode are held as they are instead.

    Raises:
        InputError: if an argument is wrong.
    """

    def _admit(self, incoming: dict[str, Array], rng: np.random.Generator, journal: Journal) -> None:
        if self._sizes_differ:
            self._balance(incoming, rng, journal)
            return
        met = len(self._index.members)
        for row, label in enumerate(incoming["y"].tolist()):
            met = max(met, label + 1)
            if len(self) < self.capacity:
                slot = len(self)
            elif self.count(label) * met < self.capacity:
                slot = self._any_of_the_largest(rng)
            else:
                continue
            self._write(np.array([slot]), incoming, np.array([row]), journal)

    def _balance(self, incoming: dict[str, Array], rng: np.random.Generator, journal: Journal) -> None:
        assert self._encoding is not None and self.byte_budget is not None
        batch, fixed = EncodedBatch(self._encoding, incoming["x"]), self._row
        met, budget = len(self._index.members), self.byte_budget
        self._make_room(budget, rng, journal)  # what is kept beside samples may have become longer
        for row, label in enumerate(incoming["y"].tolist()):
            met = max(met, label + 1)
            if self.is_full and self.count(label) * met >= len(self):
                continue
            size = fixed + encoded.size(batch[row])
            if size > budget:
                continue
            self._make_room(budget - size, rng, journal)
            rows = np.array([row])
            self._replace(np.empty(0, np.int64), incoming | batch.columns(rows), rows, journal)

    def _make_room(self, nbytes: int, rng: np.random.Generator, journal: Journal) -> None:
        while self.nbytes > nbytes:
            self.remove(np.array([self._any_of_the_largest(rng)]), journal)

    def _any_of_the_largest(self, rng: np.random.Generator) -> int:
        largest = self._index.members[int(self.class_counts.argmax())]
        return largest[int(rng.integers(len(largest)))]
