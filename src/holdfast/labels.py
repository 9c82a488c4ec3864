"""The caller's labels and the class indices behind them."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np
import torch

from holdfast.errors import CheckpointError, LabelError


class Forgotten:
    """Stands where the label of an erased class stood."""

    def __repr__(self) -> str:
        return "forgotten"


FORGOTTEN = Forgotten()


class Labels:
    """An append-only vocabulary: a label's index is its order of first appearance and never moves.

    Who holds on to `known` and `forgotten` keeps what they said of the labels there were, whatever is forgotten since.
    """

    def __init__(self) -> None:
        self.known: list[Hashable] = []
        self.forgotten: frozenset[int] = frozenset()
        self._index: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self.known)

    def __getitem__(self, index: int) -> Hashable:
        return self.known[index]

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.known)

    def index(self, label: Hashable) -> int:
        if label not in self._index:
            raise LabelError(f"the learner has met no class {label!r}")
        return self._index[label]

    def forget(self, index: int) -> None:
        """The index stays taken; the label is as if it had never been met."""
        del self._index[self.known[index]]
        self.forgotten |= {index}
        self.known = [*self.known[:index], FORGOTTEN, *self.known[index + 1 :]]

    def remember(self, index: int, label: Hashable) -> None:
        """Takes `forget` back."""
        self._index[label] = index
        self.known = [*self.known[:index], label, *self.known[index + 1 :]]
        self.forgotten -= {index}

    def admit(self, labels: Sequence[Hashable]) -> list[int]:
        """The index of each label; labels not met before are appended."""
        for label in labels:
            if label not in self._index:
                self._index[label] = len(self.known)
                self.known.append(label)
        return [self._index[label] for label in labels]

    def restore(self, labels: Iterable[Hashable]) -> None:
        """Becomes what `labels`, all of them and in their order, were taken of."""
        self.known = list(labels)
        self._index = {label: index for index, label in enumerate(self.known) if label is not FORGOTTEN}
        self.forgotten = frozenset(range(len(self.known))) - frozenset(self._index.values())

    def forget_after(self, count: int) -> None:
        for label in self.known[count:]:
            self._index.pop(label, None)
        del self.known[count:]

    def check(self, y: object) -> list[Hashable]:
        """`y` as a list of plain Python labels, or a LabelError that says what is wrong. Changes nothing."""
        labels = _as_list(y)
        fresh: dict[Hashable, Hashable] = {}
        for label in labels:
            try:
                index = self._index.get(label)
            except TypeError:
                raise LabelError(f"y: the label {label!r} is not hashable") from None
            if label is None or label != label:  # noqa: PLR0124 (only NaN differs from itself)
                raise LabelError(f"y: {label!r} is not a label")
            twin = fresh.setdefault(label, label) if index is None else self.known[index]
            if type(twin) is not type(label):
                raise LabelError(
                    f"y: the label {label!r} ({type(label).__name__}) equals {twin!r} "
                    f"({type(twin).__name__}); give every label one type"
                )
        return labels


def encode(label: Hashable) -> Any:
    """A label as JSON. Types that equal each other stay apart."""
    if isinstance(label, tuple):
        return {"tuple": [encode(item) for item in label]}
    if isinstance(label, bytes):
        return {"bytes": label.hex()}
    if label is FORGOTTEN:
        return {"forgotten": None}
    if isinstance(label, str | int | float | bool) or label is None:
        return label
    raise CheckpointError(
        f"labels of type {type(label).__name__} cannot be saved; str, int, float, bytes and tuples can"
    )


def decode(value: Any) -> Hashable:
    if isinstance(value, dict):
        kind, content = next(iter(value.items()))
        if kind == "forgotten":
            return FORGOTTEN
        return bytes.fromhex(content) if kind == "bytes" else tuple(decode(item) for item in content)
    label: Hashable = value
    return label


def _as_list(y: object) -> list[Hashable]:
    if isinstance(y, torch.Tensor | np.ndarray):
        if y.ndim != 1:
            raise LabelError(f"y has shape {tuple(y.shape)}; it must be one label a sample, shape (n,)")
        items = y.tolist()
    elif isinstance(y, str | bytes | Set | Mapping) or not isinstance(y, Iterable):
        raise LabelError(f"y must be a sequence of labels, not {type(y).__name__}")
    else:
        items = list(y)
    return [_plain(item) for item in items]


def _plain(label: object) -> Hashable:
    if isinstance(label, np.generic) or (isinstance(label, torch.Tensor) and label.numel() == 1):
        return label.item()
    if isinstance(label, torch.Tensor):
        raise LabelError(f"y: a tensor of shape {tuple(label.shape)} is not a label")
    return label
