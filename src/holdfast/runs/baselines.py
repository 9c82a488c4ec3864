"""What the simplest answers on the samples themselves are worth: what a method has to beat on a stream."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast import methods
from holdfast.arguments import bytes_of
from holdfast.errors import HoldfastError
from holdfast.measure import metrics
from holdfast.measure.evaluate import Evaluation
from holdfast.memory import raw_bytes
from holdfast.nets.named import is_pretrained
from holdfast.nets.standardise import TINY
from holdfast.runs.spec import RunSpec
from holdfast.runs.store import Record
from holdfast.runs.suitability import FEW_UPDATES, is_unscaled, steps_enough
from holdfast.seeds import generator
from holdfast.streams import Source

MOST_ADVICE = 2
MOST_WORK = 2e10  # multiply-adds for the nearest neighbours: a second or two
CHUNK = 512

Index = NDArray[np.int64]
Flat = Callable[[NDArray[np.generic]], Tensor]  # a row of float32 for each sample


class Setting(NamedTuple):
    """What baselines depend on."""

    stream: str
    memory: int | str
    standardise: bool = False


@dataclass(frozen=True, slots=True)
class Baselines:
    accuracies: Mapping[str, float]  # by name, averaged over tasks as those of methods
    sample_shape: tuple[int, ...]
    unscaled: bool  # some columns are so much wider than others that they alone count
    asked: int  # so many test samples the nearest neighbour was asked about
    of: int
    standardised: bool = False

    def above(self, accuracy: float) -> str | None:
        """The best of them, if it is higher."""
        best = max(self.accuracies, key=lambda name: self.accuracies[name])
        return best if accuracy < self.accuracies[best] else None

    def advice(self, record: Record) -> str:
        """What would help a method that ends below one of them."""
        return "try " + ", or ".join(list(self._helpful(record))[:MOST_ADVICE])

    def _helpful(self, record: Record) -> Iterator[str]:
        net = record["net"] or record.get("usual", {}).get("net") or ""
        images, by_gradient = len(self.sample_shape) == 3, _learns_by_gradient(record["method"])
        steps = record["updates"] * record.get("updates_per_batch", 1)
        if self.unscaled and by_gradient and not record.get("standardise"):
            yield "--standardise, which scales the columns alike"
        if is_pretrained(net) and record["method"] != "slda":
            yield "--method slda, which needs few samples"
        if by_gradient and steps < FEW_UPDATES:
            more = steps_enough(record["updates"])
            if more > record.get("updates_per_batch", 1):
                yield f"--updates {more}, because {steps} gradient steps are few"
        if images and not is_pretrained(net):
            yield "a pretrained encoder, as --net timm:resnet18 --method slda"
        elif not is_pretrained(net) and record["method"] != "slda":
            yield "--method slda, which needs few samples"
        if net == "slim-resnet18" and steps < FEW_UPDATES:
            yield "--net small-cnn, which needs fewer updates"
        yield "a larger --memory or another --lr" if by_gradient else "another method, such as holdfast"


def _learns_by_gradient(method: str) -> bool:
    try:
        return methods.find(method).learns_by_gradient
    except HoldfastError:  # its file may be gone
        return True


def setting_of(record: Record | RunSpec) -> Setting:
    if isinstance(record, RunSpec):
        return Setting(record.stream, record.memory, record.standardise)
    return Setting(record["stream"], record["memory"], bool(record.get("standardise", False)))


@torch.no_grad()
def baselines(source: Source, memory: int | str, *, standardise: bool = False) -> Baselines:
    """Always the majority class; the nearest mean of a class over the whole stream; the nearest of as many samples,
    as many of each class, as the memory has room for. Standardised, samples are so by those of the stream."""
    dataset, stream = source.dataset, source.stream()
    rows = np.unique(stream.order)
    x, y, classes = dataset.train_x, dataset.train_y, len(dataset.classes)
    counts = np.bincount(y[rows], minlength=classes)
    known = np.flatnonzero(counts)
    flat = _standardised(x, rows) if standardise else _flat
    means = _means(x, y, rows, counts, flat)
    held = _held(rows, y, _room(source, memory))
    tests = np.arange(len(dataset.test_y))
    affordable = int(MOST_WORK / max(1, len(held) * means.shape[1]))
    some = generator(0, "baselines/test").permutation(tests)[: max(1, affordable)]
    answers = {
        "majority class": (tests, np.full(len(tests), counts.argmax())),
        "class means": (tests, known[_nearest(dataset.test_x, tests, means[known], flat)]),
    }
    if len(held):
        answers["nearest neighbour"] = (some, y[held][_nearest(dataset.test_x, some, flat(x[held]), flat)])
    accuracies = {
        name: _accuracy(dataset.test_y[asked], found, classes, stream.tasks) for name, (asked, found) in answers.items()
    }
    unscaled = is_unscaled(dataset.train_x)
    return Baselines(accuracies, dataset.sample_shape, unscaled, len(some), len(tests), standardise)


def _means(x: NDArray[np.generic], y: Index, rows: Index, counts: Index, flat: Flat) -> Tensor:
    """Of each class."""
    sums = torch.zeros(len(counts), int(np.prod(x.shape[1:])), dtype=torch.float64)
    for part in _parts(rows):
        sums.index_add_(0, torch.from_numpy(y[part]), flat(x[part]).double())
    return (sums / torch.from_numpy(counts).clamp(min=1)[:, None]).float()


def _room(source: Source, memory: int | str) -> int:
    """In samples."""
    if not isinstance(memory, str):
        return memory * len(source.dataset.classes)
    samples = source.dataset.train_x
    return bytes_of("--memory", memory) // raw_bytes(samples.shape[1:], samples.dtype)


def _held(rows: Index, y: Index, room: int) -> Index:
    order = generator(0, "baselines/memory").permutation(rows)
    labels = np.unique(y[rows])
    of_class = [order[y[order] == label] for label in labels]
    share, more = divmod(room, max(1, len(labels)))
    chosen = (found[: share + (number < more)] for number, found in enumerate(of_class))
    return np.concatenate([np.empty(0, np.int64), *chosen])


def _nearest(x: NDArray[np.generic], asked: Index, points: Tensor, flat: Flat) -> Index:
    """The place of the nearest point to each sample."""
    centre = points.mean(0)  # far from it, float32 would have few digits left for what differs
    around = points - centre
    lengths = around.square().sum(1) / 2
    found = [((flat(x[part]) - centre) @ around.T - lengths).argmax(1).numpy() for part in _parts(asked)]
    return np.concatenate([np.empty(0, np.int64), *found])


def _accuracy(truth: Index, found: Index, classes: int, tasks: metrics.Tasks) -> float:
    correct = np.bincount(truth[truth == found], minlength=classes)
    total = np.bincount(truth, minlength=classes)
    return metrics.anytime_accuracy(Evaluation(0, 0, tuple(correct.tolist()), tuple(total.tolist())), tasks)


def _parts(rows: Index) -> Iterable[Index]:
    return (rows[start : start + CHUNK] for start in range(0, len(rows), CHUNK))


def _flat(x: NDArray[np.generic]) -> Tensor:
    return torch.from_numpy(x.reshape(len(x), -1).astype(np.float32))


def _standardised(x: NDArray[np.generic], rows: Index) -> Flat:
    """Each column of vectors, each channel of images, has mean 0 and variance 1 over these rows."""

    def columns(part: Index) -> Tensor:
        return torch.from_numpy(x[part].astype(np.float64)).movedim(1, -1).reshape(-1, x.shape[1])

    number = len(rows) * int(np.prod(x.shape[2:]))
    mean = torch.stack([columns(part).sum(0) for part in _parts(rows)]).sum(0) / number
    variance = torch.stack([(columns(part) - mean).square().sum(0) for part in _parts(rows)]).sum(0) / number
    spread = torch.where(variance > TINY, variance, 1.0).sqrt()
    shape = (-1, *[1] * (x.ndim - 2))

    def flat(samples: NDArray[np.generic]) -> Tensor:
        centred: Tensor = torch.from_numpy(samples.astype(np.float64)) - mean.view(shape)
        return (centred / spread.view(shape)).flatten(1).float()

    return flat
