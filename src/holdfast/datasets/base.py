from collections.abc import Sequence, Sized
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InputError
from holdfast.seeds import generator

VALIDATION_SEED = 0
SMALLEST_SIDE = 8  # of what is taken for an image
TURNED = "the channels of images came last and were put first"


@dataclass(frozen=True, eq=False, slots=True)
class Dataset:
    """Labelled samples to train on and to test on.

    Args:
        name: what tables and records call it.
        classes: the names of the classes.
        train_x: the samples to train on, along the first axis.
        train_y: the class of each, as an index into `classes`.
        test_x: the samples to test on.
        test_y: the class of each.
        notes: what a user should know about the origin of the samples.

    Raises:
        InputError: if samples and labels differ in number, or training and test samples in shape or type.
    """

    name: str
    classes: tuple[str, ...]
    train_x: NDArray[np.generic]
    train_y: NDArray[np.int64]
    test_x: NDArray[np.generic]
    test_y: NDArray[np.int64]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_lengths(self.name, self.train_x, self.train_y, self.test_x, self.test_y)
        kinds = [(x.shape[1:], str(x.dtype)) for x in (self.train_x, self.test_x)]
        if kinds[0] != kinds[1]:
            raise InputError(
                f"{self.name}: training samples are {kinds[0]}, test samples {kinds[1]}; they must be alike"
            )

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return self.train_x.shape[1:]


def from_arrays(
    train_x: NDArray[np.generic],
    train_y: Sequence[object] | NDArray[np.generic],
    test_x: NDArray[np.generic],
    test_y: Sequence[object] | NDArray[np.generic],
    name: str = "arrays",
) -> Dataset:
    """Makes a dataset from arrays of your own. Classes come in the order of their first training sample.

    Args:
        train_x: the samples to train on, along the first axis. Images with channels last are transposed, and a
            note says so; tables of whole numbers become float.
        train_y: one label per sample.
        test_x: the samples to test on, of the same shape and type.
        test_y: one label per sample.
        name: what tables and records call it.

    Returns:
        The dataset, for `holdfast.run(stream=...)` or `holdfast.ordered`.

    Raises:
        InputError: if samples and labels differ in number, or a class is tested on but not trained on.

    Examples:
        >>> import numpy as np, holdfast
        >>> x, y = np.zeros((4, 8), np.float32), ["wren", "kite", "wren", "kite"]
        >>> holdfast.from_arrays(x, y, x, y, name="birds").classes
        ('wren', 'kite')
    """
    _check_lengths(name, train_x, train_y, test_x, test_y)
    train_labels, test_labels = np.asarray(train_y).tolist(), np.asarray(test_y).tolist()
    index = {label: i for i, label in enumerate(dict.fromkeys(train_labels))}
    if unknown := [label for label in test_labels if label not in index]:
        raise InputError(f"test_y has the label {unknown[0]!r}, which train_y does not have")
    train_x, test_x = np.asarray(train_x), np.asarray(test_x)
    return Dataset(
        name=name,
        classes=tuple(map(str, index)),
        train_x=_as_samples(train_x),
        train_y=np.array([index[label] for label in train_labels], np.int64),
        test_x=_as_samples(test_x),
        test_y=np.array([index[label] for label in test_labels], np.int64),
        notes=(TURNED,) if _has_channels_last(train_x) else (),
    )


def is_table_of_whole_numbers(x: NDArray[np.generic]) -> bool:
    """Whether these are rows of such numbers, and no images."""
    return x.ndim == 2 and x.dtype.kind in "iub" and x.dtype != np.uint8


def _as_samples(x: NDArray[np.generic]) -> NDArray[np.generic]:
    if is_table_of_whole_numbers(x):
        return x.astype(np.float32)
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2)) if _has_channels_last(x) else x


def _has_channels_last(x: NDArray[np.generic]) -> bool:
    return x.ndim == 4 and x.shape[3] in (1, 3, 4) and min(x.shape[1:3]) >= SMALLEST_SIDE


def _check_lengths(name: str, train_x: Sized, train_y: Sized, test_x: Sized, test_y: Sized) -> None:
    for part, x, y in (("train", train_x, train_y), ("test", test_x, test_y)):
        if len(x) != len(y):
            raise InputError(f"{part} set of {name}: {len(x)} samples but {len(y)} labels")


def first_of_each_class(dataset: Dataset, count: int) -> Dataset:
    """With at most so many training samples of a class; the test samples stay."""
    rows = [np.flatnonzero(dataset.train_y == label)[:count] for label in range(len(dataset.classes))]
    kept = np.sort(np.concatenate(rows))
    return replace(dataset, train_x=dataset.train_x[kept], train_y=dataset.train_y[kept])


def validation_split(dataset: Dataset, per_cent: float) -> Dataset:
    """`per_cent` of the training samples of every class to test on, the others to train on; no test sample is left.

    Which samples these are depends on the labels alone: runs with different seeds have the same ones.
    """
    if not 0 < per_cent < 100:
        raise InputError(f"holdout must be above 0 and below 100 per cent, not {per_cent:g}")
    held_out = np.zeros(len(dataset.train_y), bool)
    for label, name in enumerate(dataset.classes):
        rows = np.flatnonzero(dataset.train_y == label)
        count = max(1, round(len(rows) * per_cent / 100))
        if count >= len(rows):
            raise InputError(
                f"holdout of {per_cent:g} per cent: class {name!r} of {dataset.name} has {len(rows)} training samples, "
                "too few for two parts"
            )
        held_out[generator(VALIDATION_SEED, "validation", label).permutation(rows)[:count]] = True
    x, y = dataset.train_x, dataset.train_y
    return replace(dataset, train_x=x[~held_out], train_y=y[~held_out], test_x=x[held_out], test_y=y[held_out])
