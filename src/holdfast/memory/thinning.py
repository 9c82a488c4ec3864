"""A uniform choice of samples that differ in size, within a budget of bytes.

Every sample has a key, uniform between 0 and 1, and those with keys below a threshold are held. When they do not fit,
the one with the largest key has to go, and its key becomes the threshold, which therefore only falls: what is out
stays out. Nobody ever looks at the keys of samples that are held. Given the threshold they are independent and uniform
below it, so the one with the largest key is any of the n that are held with equal probability, and the largest key is
distributed as threshold · U^(1/n). Hence neither keys nor an order are kept, and every step costs O(1).

What is exact: at any moment, a draw from the memory gives each sample that has come so far and was not erased with the
same probability, whatever the sizes are and whatever they depend on. Go through the keys from the largest down. The
sample that leaves next is any of those still there with equal probability, so the chance of a sample to be drawn (1/n
if it is one of the n still there, 0 if not) is a martingale. Whether to stop is decided by the sizes of those still
there, so the chance keeps its expectation: one over the number of samples. (It takes a budget that has room for at
least one sample of any size.) The share of a class in the memory, or of large samples, is therefore right on average.

What no rule with a hard limit gives as well: that each sample is held equally often. Where a small one just fits, a
large one does not; the two differ by the chance to be among the last few that fit, about one place in the memory.
"""

from collections.abc import Callable

import numpy as np


class Thinning:
    """One batch that is offered. Samples held before go by their slots, incoming ones by numbers from `held` on."""

    def __init__(  # noqa: PLR0917
        self,
        held: int,
        used: int,
        budget: int,
        threshold: float,
        size_of: Callable[[int], int],
        rng: np.random.Generator,
    ) -> None:
        self._before, self._now = held, held
        self._used, self._budget = used, budget
        self._size_of = size_of
        self._rng = rng
        self._moved: dict[int, int] = {}  # at which place a sample is now that had another number
        self._came: list[int] = []
        self._out: set[int] = set()
        self.threshold = threshold

    def offer(self, sample: int, key: float) -> None:
        if key < self.threshold:
            self._came.append(sample)
            self._moved[self._now] = sample
            self._now += 1
            self._used += self._size_of(sample)
            self.fit()

    def fit(self) -> None:
        """Until all that are held have room."""
        while self._used > self._budget:
            place = int(self._rng.integers(self._now))
            self.threshold *= (1 - self._rng.random()) ** (1 / self._now)
            self._now -= 1
            out, last = self._moved.get(place, place), self._moved.pop(self._now, self._now)
            if place != self._now:
                self._moved[place] = last
            self._out.add(out)
            self._used -= self._size_of(out)

    @property
    def gone(self) -> list[int]:
        """Of those that were held before."""
        return sorted(sample for sample in self._out if sample < self._before)

    @property
    def come(self) -> list[int]:
        """Of those that were offered: the ones that are held now."""
        return [sample for sample in self._came if sample not in self._out]
