"""The caller's labels and the class indices behind them."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np
import torch

from holdfast.errors import CheckpointError, LabelError
from holdfast.samples import is_dense, is_masked

DEEPEST = 32  # tuples inside each other
MOST_DIGITS = 4300  # of an integer that Python, left to its defaults, turns into text and back

_TOO_LARGE = 10**MOST_DIGITS
_ARRAYS = torch.Tensor, np.ndarray
_PLAIN: dict[type, Callable[[Any], Hashable]] = {
    bool: bool,
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    bytes: bytes.__bytes__,
}


class Forgotten:
    """Stands where the label of an erased class stood."""

    def __repr__(self) -> str:
        return "forgotten"

    def __reduce__(self) -> str:
        return "FORGOTTEN"  # there is one, in copies too


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
            raise LabelError(f"the learner has seen no class {label!r}")
        return self._index[label]

    def forget(self, index: int) -> None:
        """The index stays taken; the label is as if it had never been met."""
        del self._index[self.known[index]]
        self.forgotten |= {index}
        self.known = [*self.known[:index], FORGOTTEN, *self.known[index + 1 :]]

    def put_back(self, index: int, label: Hashable) -> None:
        """Takes `forget` back."""
        self._index[label] = index
        self.known = [*self.known[:index], label, *self.known[index + 1 :]]
        self.forgotten -= {index}

    def admit(self, labels: Sequence[Hashable]) -> list[int]:
        """The index of each label; labels not met before are appended."""
        for label in labels:
            if label not in self._index:
                self.known.append(label)
                self._index[label] = len(self.known) - 1
        return [self._index[label] for label in labels]

    def restore(self, labels: Iterable[Hashable]) -> None:
        """Becomes what `labels`, all of them and in their order, were taken of."""
        self.known = list(labels)
        self._index = {label: index for index, label in enumerate(self.known) if label is not FORGOTTEN}
        self.forgotten = frozenset(range(len(self.known))) - frozenset(self._index.values())

    def cut_after(self, count: int) -> None:
        for label in self.known[count:]:
            self._index.pop(label, None)
        del self.known[count:]

    def check(self, y: object) -> list[Hashable]:
        """`y` as a list of plain Python labels, or a LabelError that says what is wrong. Changes nothing."""
        labels = _as_list(y)
        fresh: dict[Hashable, Hashable] = {}
        for label in labels:
            index = self._index.get(label)
            twin = fresh.setdefault(label, label) if index is None else self.known[index]
            if twin is not label and (theirs := _kind(twin)) != (ours := _kind(label)):
                raise LabelError(
                    f"y: the label {label!r} ({ours}) equals {twin!r} ({theirs}); give every label one type"
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
        ((kind, content),) = value.items()
        if kind == "forgotten":
            return FORGOTTEN
        if kind == "tuple" and isinstance(content, list):
            return tuple(decode(item) for item in content)
        value = bytes.fromhex(content) if kind == "bytes" else None
    if not isinstance(value, str | int | float | bytes):
        raise CheckpointError(f"a label cannot be {value!r}")
    return value


def _as_list(y: object) -> list[Hashable]:
    if isinstance(y, torch.Tensor) and not is_dense(y):
        raise LabelError("y is a sparse, nested or meta tensor; it must be a dense one")
    if isinstance(y, str | bytes | Set | Mapping) or not isinstance(y, Iterable):
        alone = "; the label of one sample is [label]" if isinstance(y, Hashable) and y is not None else ""
        raise LabelError(f"y must be a sequence of labels, not {type(y).__name__}{alone}")
    if len(shape := tuple(getattr(y, "shape", (0,)))) != 1:
        instead = "of a table give the column, of one-hot rows y.argmax(1)"
        raise LabelError(f"y has shape {shape}; it must be one label per sample, (n,): {instead}")
    if is_masked(y):
        raise LabelError("y has masked values; leave their samples out")
    has_dates = isinstance(y, np.ndarray) and y.dtype.kind in "mM"  # of which `tolist` may make integers
    return [_plain(item) for item in (y.tolist() if isinstance(y, _ARRAYS) and not has_dates else y)]


def _plain(label: object, inside: int = 0) -> Hashable:
    """The label as a file of the learner would give it back; it equals the one that was given.

    What is derived from str, int, float, bytes or tuple becomes just that: members of an IntEnum, named tuples,
    numpy's numbers, ... Other hashables stay what they are. `inside`: how many tuples it is in.
    """
    if inside > DEEPEST:
        raise LabelError(f"y: a label has tuples nested more than {DEEPEST} deep; give it as text or flatten it")
    if isinstance(label, torch.Tensor | np.generic):
        label = _item(label)
    if isinstance(label, tuple):
        return tuple(_plain(part, inside + 1) for part in label)
    try:
        hash(label)
    except TypeError:
        raise LabelError(f"y: the label {label!r} is not hashable") from None
    if _is_missing(label):
        raise LabelError(f"y: {label!r} is not a label")
    if isinstance(label, int) and abs(label) >= _TOO_LARGE:
        raise LabelError(f"y: an integer of more than {MOST_DIGITS:,} digits is not a label; give it as bytes")
    for kind, as_plain in _PLAIN.items():
        if isinstance(label, kind):
            return as_plain(label)
    return label


def _item(scalar: torch.Tensor | np.generic) -> object:
    if isinstance(scalar, torch.Tensor) and (not is_dense(scalar) or scalar.numel() != 1):
        raise LabelError(f"y: a tensor of shape {tuple(scalar.shape)} is not a label")
    item = scalar.item()
    if isinstance(scalar, np.datetime64 | np.timedelta64) and isinstance(item, int):
        raise LabelError(f"y: {scalar!r} is more precise than Python's dates are; give it as text or as an integer")
    return item


def _is_missing(label: object) -> bool:
    """None, NaN, pandas' NA and NaT: what is not equal to itself."""
    try:
        return label is None or bool(label != label)  # noqa: PLR0124
    except MemoryError:
        raise  # which says nothing of the label
    except Exception:  # NA will not even say so
        return True


def _kind(label: Hashable) -> str:
    parts = f"[{', '.join(map(_kind, label))}]" if isinstance(label, tuple) else ""
    return type(label).__name__ + parts
