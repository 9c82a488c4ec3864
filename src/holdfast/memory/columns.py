"""Arrays with a row for each sample: how large they are, and how they grow."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from holdfast.memory.class_index import Array, ClassIndex

OWN_COLUMNS = ("x", "y", "arrival", "fingerprint")


def raw_bytes(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """What one sample takes in a memory without a codec, with its label, its arrival and its place in the index."""
    return int(np.prod(shape)) * dtype.itemsize + 16 + ClassIndex.BYTES_PER_SLOT


def frozen(view: Array) -> Array:
    view.flags.writeable = False
    return view


def row_bytes(columns: Mapping[str, Array]) -> int:
    return sum(map(_bytes_of_one, columns.values())) + ClassIndex.BYTES_PER_SLOT


def extra_bytes(columns: Mapping[str, Array]) -> int:
    return sum(_bytes_of_one(column) for name, column in columns.items() if name not in OWN_COLUMNS)


def _bytes_of_one(column: Array) -> int:
    return column.itemsize * int(np.prod(column.shape[1:]))


def padded(rows: Array, width: int) -> Array:
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])))


def with_capacity(rows: Array, capacity: int) -> Array:
    column = np.empty((capacity, *rows.shape[1:]), rows.dtype)
    column[: len(rows)] = rows
    return column
