from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets.base import Dataset
from holdfast.errors import InputError
from holdfast.seeds import generator

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Stream:
    """A dataset in an order. Batch i is a pure function of (dataset, seed, i): a stream can start anywhere."""

    name: str
    dataset: Dataset
    order: Indices  # training samples in the order they come
    starts: Indices  # where each batch starts in `order`, and where the last one ends
    batch_task: Indices  # the task each batch belongs to
    tasks: tuple[tuple[int, ...], ...]  # the classes of each task

    def __len__(self) -> int:
        return len(self.starts) - 1

    def batch(self, i: int) -> tuple[NDArray[np.generic], NDArray[np.int64], int]:
        if not 0 <= i < len(self):
            raise IndexError(f"the stream has batches 0 to {len(self) - 1}, not {i}")
        rows = self.order[self.starts[i] : self.starts[i + 1]]
        return self.dataset.train_x[rows], self.dataset.train_y[rows], int(self.batch_task[i])

    @cached_property
    def task_ends(self) -> frozenset[int]:
        """How many batches have passed when a task ends."""
        return frozenset((np.flatnonzero(np.diff(self.batch_task)) + 1).tolist()) | {len(self)}

    @cached_property
    def classes_before(self) -> list[int]:
        """How many classes have come when a task begins."""
        begins = self.starts[np.searchsorted(self.batch_task, np.arange(self.batch_task[-1] + 1))]
        return [len(np.unique(self.dataset.train_y[self.order[:begin]])) for begin in begins]


def split(dataset: Dataset, tasks: int, seed: int = 0, batch: int = 10) -> Stream:
    """Class-incremental: the classes in their own order, a few in each task; samples shuffled inside a task."""
    parts = groups(dataset, tasks)
    orders = [
        generator(seed, "stream", task).permutation(np.flatnonzero(np.isin(dataset.train_y, part)))
        for task, part in enumerate(parts)
    ]
    return cut(dataset.name, dataset, orders, parts, batch)


def limited(dataset: Dataset, tasks: int, seed: int = 0, batch: int = 10, share: float = 100) -> Stream:
    """The split stream with all of its first task and `share` per cent of every later one."""
    if not 0 < share <= 100:
        raise InputError(f"share must be above 0 and at most 100 per cent, not {share}")
    whole = split(dataset, tasks, seed, batch)
    if share == 100:
        return whole
    of_task = np.repeat(whole.batch_task, np.diff(whole.starts))
    parts = [whole.order[of_task == task] for task in range(tasks)]
    orders = [part if task == 0 else part[: max(1, round(len(part) * share / 100))] for task, part in enumerate(parts)]
    return cut(dataset.name, dataset, orders, whole.tasks, batch)


def as_given(dataset: Dataset, tasks: int, batch: int = 10) -> Stream:
    """In the order of the data, whatever the seed. Tasks say only how classes are grouped when accuracy is averaged."""
    return cut(dataset.name, dataset, [np.arange(len(dataset.train_y))], groups(dataset, tasks), batch)


def groups(dataset: Dataset, tasks: int) -> tuple[tuple[int, ...], ...]:
    """The classes in their own order, as evenly as possible in so many tasks."""
    count = len(dataset.classes)
    if not 1 <= tasks <= count:
        raise InputError(f"tasks must be between 1 and {count}, the number of classes of {dataset.name}; not {tasks}")
    return tuple(tuple(group.tolist()) for group in np.array_split(np.arange(count), tasks))


def iid(dataset: Dataset, seed: int = 0, batch: int = 10, passes: int = 1, epochs: int = 1) -> Stream:
    """All classes at once, shuffled. With several passes a step holds one batch of each; epochs follow each other."""
    if batch < 1 or passes < 1 or epochs < 1:
        raise InputError(f"batch, passes and epochs must be 1 or more, not {batch}, {passes} and {epochs}")
    n = len(dataset.train_y)
    orders = [_side_by_side(n, seed, batch, range(e * passes, (e + 1) * passes)) for e in range(epochs)]
    whole = cut(dataset.name, dataset, orders, (tuple(range(len(dataset.classes))),), batch * passes)
    return replace(whole, batch_task=np.zeros(len(whole), np.int64))


def _side_by_side(n: int, seed: int, batch: int, passes: range) -> Indices:
    """Passes over all samples, interleaved batch by batch."""
    order = np.stack([generator(seed, "stream/iid", p).permutation(n) for p in passes])
    padded = np.pad(order, ((0, 0), (0, -n % batch)), constant_values=-1)
    steps = padded.reshape(len(passes), -1, batch).transpose(1, 0, 2).reshape(-1)
    return steps[steps >= 0]


def cut(name: str, dataset: Dataset, orders: list[Indices], tasks: tuple[tuple[int, ...], ...], batch: int) -> Stream:
    if batch < 1:
        raise InputError(f"batch must be 1 or more, not {batch}")
    sizes = [np.diff(np.append(np.arange(0, len(order), batch), len(order))) for order in orders]
    batch_task = np.repeat(np.arange(len(orders)), [len(part) for part in sizes])
    starts = np.concatenate([[0], np.concatenate(sizes).cumsum()])
    return Stream(name, dataset, np.concatenate(orders), starts, batch_task, tasks)
