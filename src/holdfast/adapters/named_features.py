"""Samples whose features go by name: each name has a column, and new names may come at any time."""

import math
import numbers
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.adapters.portable import PortableLearner
from holdfast.errors import InputError
from holdfast.learner.state import restored, widened
from holdfast.nets import recipe
from holdfast.storage import checkpoint

Sample = dict[Hashable, float]
Columns = dict[Hashable, int]  # append-only: the column of a name never changes

LARGEST = float(np.finfo(np.float32).max)


def as_sample(x: Mapping[Hashable, Any]) -> Sample:
    """The features that are not missing: neither None nor NaN."""
    for name, value in x.items():
        if value is not None and not isinstance(value, numbers.Real | np.bool_):
            raise InputError(f"the feature {name!r} is {value!r}, not a number; preprocessing.OneHotEncoder may help")
    sample = {name: float(value) for name, value in x.items() if value is not None and not math.isnan(value)}
    for name, number in sample.items():
        if abs(number) > LARGEST:
            raise InputError(f"the feature {name!r} is {number}, which is infinite or too large")
    return sample


def with_columns_for(samples: Sequence[Sample], columns: Columns) -> Columns:
    """The columns there are, and one for every new name. The order of names within a sample does not matter."""
    fresh = sorted({name for sample in samples for name in sample} - columns.keys(), key=repr)
    return columns | {name: column for column, name in enumerate(fresh, start=len(columns))}


def as_rows(samples: Sequence[Sample], columns: Columns, width: int) -> NDArray[np.float32]:
    """What is missing is 0; names without a column are left out."""
    rows = np.zeros((len(samples), width), np.float32)
    for row, sample in zip(rows, samples, strict=True):
        for name in sample.keys() & columns.keys():
            row[columns[name]] = sample[name]
    return rows


def room(learner: PortableLearner) -> int:
    """How many columns a learner with the built-in mlp takes."""
    made = recipe(learner.net.encoder.module)
    assert made is not None
    return int(made["shape"][0])


def with_room(columns: int, learner: PortableLearner) -> PortableLearner:
    """The same learner for samples with more columns. Where the new ones are 0, it answers as before."""
    state = widened(*checkpoint.unpack(learner.serialized()), columns)
    return restored(PortableLearner, *state, method=learner.method)
