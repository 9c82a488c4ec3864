from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InputError


@dataclass(frozen=True, eq=False, slots=True)
class Dataset:
    """Labelled samples to train on and to test on. `y` are indices into `classes`."""

    name: str
    classes: tuple[str, ...]
    train_x: NDArray[np.generic]
    train_y: NDArray[np.int64]
    test_x: NDArray[np.generic]
    test_y: NDArray[np.int64]

    def __post_init__(self) -> None:
        for part, x, y in (("train", self.train_x, self.train_y), ("test", self.test_x, self.test_y)):
            if len(x) != len(y):
                raise InputError(f"{part} set of {self.name}: {len(x)} samples but {len(y)} labels")
        kinds = [(x.shape[1:], str(x.dtype)) for x in (self.train_x, self.test_x)]
        if kinds[0] != kinds[1]:
            raise InputError(
                f"{self.name}: training samples are {kinds[0]}, test samples {kinds[1]}; they must be alike"
            )

    @property
    def sample_shape(self) -> tuple[int, ...]:
        return self.train_x.shape[1:]


def from_arrays(
    train_x: NDArray[np.generic],
    train_y: Sequence[object] | NDArray[np.generic],
    test_x: NDArray[np.generic],
    test_y: Sequence[object] | NDArray[np.generic],
    name: str = "arrays",
) -> Dataset:
    """A dataset of the caller's own arrays; classes in the order of their first training sample."""
    train_labels, test_labels = np.asarray(train_y).tolist(), np.asarray(test_y).tolist()
    index = {label: i for i, label in enumerate(dict.fromkeys(train_labels))}
    if unknown := [label for label in test_labels if label not in index]:
        raise InputError(f"test_y has the label {unknown[0]!r}, which train_y does not have")
    return Dataset(
        name=name,
        classes=tuple(map(str, index)),
        train_x=np.asarray(train_x),
        train_y=np.array([index[label] for label in train_labels], np.int64),
        test_x=np.asarray(test_x),
        test_y=np.array([index[label] for label in test_labels], np.int64),
    )
