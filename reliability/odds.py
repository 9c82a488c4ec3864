"""What a reservoir holds, over many runs."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import chi2

from holdfast.batch import Batch
from holdfast.memory import Reservoir
from holdfast.memory.class_index import Journal
from holdfast.seeds import generator
from reliability.outcome import counted

CAPACITY, SIZES, ERASED, LATER = 6, (7, 4, 1, 18), 3, 40
CHANCE = 1e-4  # of a fair reservoir to be called unfair


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
