"""What a reservoir holds, over many runs."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import chi2, chisquare

from holdfast.batch import Batch
from holdfast.memory import Reservoir
from holdfast.memory.class_index import Journal
from holdfast.memory.codecs import Codec
from holdfast.seeds import generator
from reliability.outcome import counted

CAPACITY, SIZES, ERASED, LATER = 6, (7, 4, 1, 18), 3, 40
CHANCE = 1e-4  # of a fair reservoir to be called unfair
LONGEST, BUDGET = 200, 1400  # numbers of a sample, bytes of a memory that holds five at least


@counted
def reservoirs_are_fair(effort: int) -> Iterator[str | None]:
    """Each sample so far is held equally often; after some are erased, too; and of those that come later, as well."""
    runs, offered = 1000 * effort, sum(SIZES)
    plain, left, later = np.zeros(offered), np.zeros(offered), np.zeros(LATER)
    for run in range(runs):
        memory = filled(run)
        plain[held(memory)] += 1
        memory.remove(generator(run, "erased").choice(CAPACITY, ERASED, replace=False), Journal())
        left[held(memory)] += 1
        memory.add(samples(offered, LATER), generator(run, "later"))
        arrivals = held(memory)
        later[arrivals[arrivals >= offered] - offered] += 1
        yield None if len(arrivals) == CAPACITY else f"run {run}: {len(arrivals)} are held"
    for what, counts in (
        ("", plain),
        ("after an erasure ", left),
        ("later ", later[ERASED:]),
    ):  # the first fill the room
        chance = chance_of(counts, runs)
        yield None if chance > CHANCE else f"what is held {what}has a chance of {chance:.1e}: {counts.tolist()}"


class Longer(Codec):
    """A sample of a class takes so many bytes that the class decides, on purpose, how much room is left for others."""

    name = "longer"

    def encode(self, sample: NDArray[Any]) -> bytes:
        number = int(sample[0])
        return number.to_bytes(8, "little") + bytes((0, 140, 40)[number % 3])

    def decode(self, data: bytes, shape: tuple[int, ...]) -> NDArray[Any]:
        return np.resize(np.float32(int.from_bytes(data[:8], "little")), shape)


@counted
def encoded_reservoirs_are_fair(effort: int) -> Iterator[str | None]:
    """Drawn from a memory of encoded samples, each sample so far comes equally often, whatever it takes; after some are
    erased, each of the others; and later, each of those and of the new ones."""
    runs, offered, whole = 1000 * effort, sum(SIZES), sum(SIZES) + LATER
    plain, left, later = np.zeros(offered), np.zeros(offered), np.zeros(whole)
    for run in range(runs):
        memory, rng = Reservoir(nbytes=BUDGET, codec=Longer()), generator(run, "drawn")
        for step, size in enumerate(SIZES):
            memory.add(long_samples(memory.offered, size), generator(run, "memory", step))
        plain[rng.choice(held(memory))] += 1
        memory.remove(memory.find(long_samples(0, ERASED).x), Journal())
        left[rng.choice(held(memory))] += 1
        memory.add(long_samples(offered, LATER), generator(run, "later"))
        later[rng.choice(held(memory))] += 1
        yield None if memory.nbytes <= BUDGET else f"run {run}: {memory.nbytes} bytes are held"
    for what, counts in (("", plain), ("after an erasure ", left[ERASED:]), ("later ", later[ERASED:])):
        chance = float(chisquare(counts).pvalue)
        yield None if chance > CHANCE else f"what is drawn {what}has a chance of {chance:.1e}: {counts.tolist()}"


def long_samples(first: int, size: int) -> Batch:
    numbers = torch.arange(first, first + size)
    return Batch(numbers[:, None].expand(-1, LONGEST).float(), numbers % 3)


def filled(seed: int) -> Reservoir:
    memory = Reservoir(CAPACITY)
    for step, size in enumerate(SIZES):
        memory.add(samples(memory.offered, size), generator(seed, "memory", step))
    return memory


def samples(first: int, size: int) -> Batch:
    return Batch(torch.arange(first, first + size)[:, None].float(), torch.arange(size) % 3)


def held(memory: Reservoir) -> NDArray[np.int64]:
    return memory.at(np.arange(len(memory))).x[:, 0].long().numpy()


def chance_of(counts: NDArray[np.float64], runs: int) -> float:
    """That fair counts are as uneven: χ², corrected for drawing without replacement from so few."""
    share = counts.mean() / runs
    spread = counts.mean() * (1 - share) * len(counts) / (len(counts) - 1)
    return float(chi2.sf(((counts - counts.mean()) ** 2).sum() / spread, len(counts) - 1))
