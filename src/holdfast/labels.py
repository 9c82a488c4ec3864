"""The caller's labels and the class indices behind them."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set

import numpy as np
import torch

from holdfast.errors import LabelError


class Labels:
    """An append-only vocabulary: a label's index is its order of first appearance and never moves."""

    def __init__(self) -> None:
        self._known: list[Hashable] = []
        self._index: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __getitem__(self, index: int) -> Hashable:
        return self._known[index]

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._known)

    def admit(self, labels: Sequence[Hashable]) -> list[int]:
        """The index of each label; labels not met before are appended."""
        for label in labels:
            if label not in self._index:
                self._index[label] = len(self._known)
                self._known.append(label)
        return [self._index[label] for label in labels]

    def forget_after(self, count: int) -> None:
        for label in self._known[count:]:
            self._index.pop(label, None)
        del self._known[count:]

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
            twin = fresh.setdefault(label, label) if index is None else self._known[index]
            if type(twin) is not type(label):
                raise LabelError(
                    f"y: the label {label!r} ({type(label).__name__}) equals {twin!r} "
                    f"({type(twin).__name__}); give every label one type"
                )
        return labels


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
