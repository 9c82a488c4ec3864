"""Classes that come and go gradually, without tasks."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets.base import Dataset
from holdfast.errors import InputError
from holdfast.seeds import generator
from holdfast.streams.base import Stream, cut, groups

TOLERANCE = 0.005  # classes a batch
AT_ONCE = 500  # positions: few enough that little is drawn in vain when a class runs out


def blurry(dataset: Dataset, tasks: int, seed: int = 0, batch: int = 10, distinct: float = 2.0) -> Stream:
    """Every sample once; `distinct` is how many classes a batch holds on average.

    At position t the probability of class c, while it has samples left, is proportional to a Gaussian around the
    position its middle sample would have if the classes came one after the other. The width follows from `distinct`.
    Nothing is told where a task would end; the tasks say only how classes are grouped when accuracy is averaged.
    """
    counts = tuple(np.bincount(dataset.train_y, minlength=len(dataset.classes)).tolist())
    if batch < 1:
        raise InputError(f"batch must be 1 or more, not {batch}")
    classes = classes_in_order(counts, _width(counts, batch, distinct, seed), seed)
    order = np.empty(len(classes), np.int64)
    for label in range(len(counts)):
        rows = np.flatnonzero(dataset.train_y == label)
        order[classes == label] = generator(seed, "stream/blurry/samples", label).permutation(rows)
    return cut(dataset.name, dataset, [order], groups(dataset, tasks), batch)


def classes_in_order(counts: tuple[int, ...], width: float, seed: int) -> NDArray[np.int64]:
    """The class at each position. Many positions are drawn at once; what follows a class running out, anew."""
    total = sum(counts)
    centres = np.cumsum(counts) - np.array(counts) / 2
    draw = generator(seed, "stream/blurry/classes").random(total)
    classes, left, start = np.empty(total, np.int64), np.array(counts), 0
    while start < total:
        position = np.arange(start, min(start + AT_ONCE, total))[:, None]
        open_weight = np.where(left > 0, -(((position - centres) / width) ** 2) / 2, -np.inf)
        weight = np.exp(open_weight - open_weight.max(1, keepdims=True)).cumsum(1)
        drawn = (draw[position] * weight[:, -1:] >= weight).sum(1)
        used = (drawn[:, None] == np.arange(len(counts))).cumsum(0)
        runs_out = ((used == left) & (left > 0)).any(1)
        stop = int(runs_out.argmax()) + 1 if runs_out.any() else len(drawn)
        classes[start : start + stop] = drawn[:stop]
        left = left - np.bincount(drawn[:stop], minlength=len(counts))
        start += stop
    return classes


def distinct_classes(classes: NDArray[np.int64], batch: int) -> float:
    """How many classes a batch holds, on average over the stream."""
    batches = np.arange(len(classes)) // batch
    return len(np.unique(batches * (classes.max() + 1) + classes)) / int(batches[-1] + 1)


@lru_cache(maxsize=64)
def _width(counts: tuple[int, ...], batch: int, distinct: float, seed: int) -> float:
    """Found by bisection on the stream itself: with one width for all, seeds would differ by tenths of a class.

    The limits are those of seed 0, so that all seeds accept the same targets.
    """
    narrow, wide = batch / 10, 10.0 * sum(counts)
    least, most = (distinct_classes(classes_in_order(counts, width, 0), batch) for width in (narrow, wide))
    if not least - TOLERANCE <= distinct <= most + TOLERANCE:
        raise InputError(f"distinct must be between {least:.2f} and {most:.2f} classes a batch here, not {distinct}")
    while distinct > least:
        middle = float(np.sqrt(narrow * wide))
        found = distinct_classes(classes_in_order(counts, middle, seed), batch)
        if abs(found - distinct) < TOLERANCE or wide / narrow < 1.001:
            return middle
        narrow, wide = (middle, wide) if found < distinct else (narrow, middle)
    return narrow
