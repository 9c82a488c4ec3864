"""What became of each class at the end: accuracies by name, what classes are taken for, samples answered wrongly."""

import base64
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.report.groups import by_title
from holdfast.report.statistics import mean_and_error, show
from holdfast.report.terminal import printable
from holdfast.runs.store import Record

MOST_IN_A_MATRIX = 40  # classes
MOST_ON_A_PAGE = 20


class Mistake(NamedTuple):
    """A sample of the test set that a run answered wrongly."""

    row: int
    truth: str
    answer: str


@dataclass(frozen=True)
class ByClass:
    """Of one method, over seeds; classes are in the order of the stream."""

    title: str
    names: list[str]
    accuracies: list[list[float]]  # of each class, one for each seed that tested it
    counts: NDArray[np.int64] | None  # [class, answer], over all seeds; None if older records are among them

    @property
    def shown(self) -> list[str]:
        return [show(each) for each in self.accuracies]

    @property
    def shares(self) -> NDArray[np.float64]:
        """In per cent of each class."""
        counts = self.counts if self.counts is not None else np.zeros((len(self.names),) * 2)
        return np.asarray(100 * counts / np.maximum(counts.sum(1, keepdims=True), 1), np.float64)

    @property
    def taken_for(self) -> list[str]:
        """The most frequent wrong answer for each class."""
        shares = self.shares
        np.fill_diagonal(shares, 0)
        return [f"{self.names[row.argmax()]} {row.max():.0f} %" if row.size and row.max() else "" for row in shares]


def of_methods(records: Sequence[Record], names: Sequence[str] | None = None) -> list[ByClass]:
    """The methods of one setting, by whole records. `names` of classes are for records that do not have them."""
    order = [label for task in records[0]["tasks"] for label in task]
    return [_by_class(title, group, order, names) for title, group in by_title(records).items()]


def _by_class(title: str, group: Sequence[Record], order: Sequence[int], names: Sequence[str] | None) -> ByClass:
    ends = [record["evaluations"][-1] for record in group]
    accuracies = [[e["correct"][c] / e["total"][c] for e in ends if e["total"][c]] for c in order]
    given = group[0].get("classes") or names or [str(label) for label in range(max(order, default=-1) + 1)]
    named = [printable(name) for name in given]
    return ByClass(title, [named[label] for label in order], accuracies, _counts(group, order))


def _counts(group: Sequence[Record], order: Sequence[int]) -> NDArray[np.int64] | None:
    if any(record.get("confusion") is None for record in group):
        return None
    place = {label: number for number, label in enumerate(order)}
    counts = np.zeros((len(order), len(order)), np.int64)
    for truth, answer, number in (each for record in group for each in record["confusion"]):
        if truth in place and answer in place:
            counts[place[truth], place[answer]] += number
    return counts


def mistakes(record: Record) -> list[Mistake]:
    names = [printable(name) for name in record.get("classes", [])]
    return [Mistake(row, names[truth], names[answer]) for row, truth, answer in record.get("mistakes", [])]


def best(records: Sequence[Record]) -> str:
    """The title with the highest accuracy."""
    accuracy = {title: mean_and_error([r["acc"] for r in group])[0] for title, group in by_title(records).items()}
    return max(accuracy, key=lambda title: accuracy[title])


@dataclass(frozen=True)
class ClassesView:
    """What a page shows of the classes of a setting."""

    titles: list[str]
    rows: list[tuple[str, list[str]]]  # a class, with its accuracy by each method
    matrices: list[tuple[str, list[tuple[str, list[int]]]]]  # of methods: a class, and what it is taken for, per cent
    best: str
    taken_for: list[str]  # by the best method
    mistakes: list[Mistake]  # of a run of it
    strip: str  # their pictures side by side, as a URL of data; empty if these are no images
    ratio: str  # of width and height of one

    @property
    def tiles(self) -> list[tuple[Mistake, str]]:
        """Mistakes, each with the place of its picture."""
        last = max(1, len(self.mistakes) - 1)
        return [(each, f"{100 * number / last:.4f}%") for number, each in enumerate(self.mistakes)]


def view(records: Sequence[Record], strip: Callable[[str], bytes | None]) -> ClassesView | None:
    """Of whole records of one setting; `strip` gives the pictures of a run's mistakes. None for older records."""
    methods = of_methods(records)
    if not methods[0].names or any(each.counts is None for each in methods):
        return None
    first = next(each for each in methods if each.title == best(records))
    record = by_title(records)[first.title][0]
    found = mistakes(record)
    pictures, ratio = _data(strip(record["id"]) if found else None, len(found))
    small = len(first.names) <= MOST_ON_A_PAGE
    return ClassesView(
        titles=[each.title for each in methods],
        rows=[(name, list(cells)) for name, *cells in zip(first.names, *(e.shown for e in methods), strict=True)],
        matrices=[
            (each.title, list(zip(each.names, each.shares.round().astype(int).tolist(), strict=True)))
            for each in (methods if small else [])
        ],
        best=first.title,
        taken_for=first.taken_for,
        mistakes=found,
        strip=pictures,
        ratio=ratio,
    )


def _data(strip: bytes | None, number: int) -> tuple[str, str]:
    """What came with an imported record, or was damaged, may be no picture."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(strip or b""), formats=["WEBP"]) as picture:
            width, height = picture.size
    except (OSError, ValueError):
        return "", "1"
    return f"data:image/webp;base64,{base64.b64encode(strip or b'').decode()}", f"{width / number:g} / {height}"
