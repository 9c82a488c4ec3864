"""Datasets of other libraries: Hugging Face's, torch's, and whatever else has samples and labels one by one."""

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.arguments import AT_LEAST_ONE, whole
from holdfast.datasets.base import Dataset, from_arrays
from holdfast.datasets.progress import progress
from holdfast.errors import DataError, HoldfastError, InputError

TEST_EVERY = 6
TRAIN = ("train", "training")
TEST = ("test", "testing", "validation", "valid", "val")
SAMPLES = ("image", "img", "pixel_values", "embedding", "embeddings", "features", "x")
LABELS = ("label", "labels", "fine_label", "target", "class", "y")


def batches(
    data: Any, size: int = 10, *, x: str | None = None, y: str | None = None
) -> Iterator[tuple[list[Any], list[Hashable]]]:
    """Goes through a dataset of another library, in its order, batch by batch, for `learner.observe`.

    Args:
        data: a split of Hugging Face's `datasets`, a `torch.utils.data.Dataset`, a `DataLoader` without batches, or
            anything else that gives samples: mappings, or pairs of a sample and its label.
        size: how many samples a batch has; the last one may have fewer.
        x: in mappings, which key has the sample; found automatically if it is an image or has a usual name.
        y: in mappings, which key has the label.

    Yields:
        Samples and labels. Labels are names where the dataset knows them.

    Raises:
        InputError: if samples or labels are not found.

    Examples:
        >>> import holdfast
        >>> rows = [{"x": [0.0, 1.0], "label": "up"}, {"x": [1.0, 0.0], "label": "right"}]
        >>> learner = holdfast.Learner(holdfast.mlp((2,)), "er-ace", memory=10)
        >>> for samples, labels in holdfast.batches(rows, 1):
        ...     learner.observe(samples, labels)
        >>> learner.classes
        ['up', 'right']
    """
    size, pairs = whole("size", size, AT_LEAST_ONE), _pairs(data, x, y)
    while part := list(islice(pairs, size)):
        yield [sample for sample, _ in part], [label for _, label in part]


def from_dataset(
    train: Any,
    test: Any = None,
    *,
    x: str | None = None,
    y: str | None = None,
    size: int | None = None,
    name: str = "dataset",
) -> Dataset:
    """Makes a dataset for `holdfast.run` from one of another library. All samples are read into memory.

    Args:
        train: what to train on, as for `batches`; or a mapping of splits, as `datasets.load_dataset` returns it.
        test: what to test on. Without it, the split "test" or "validation" if there is one; otherwise every sixth
            sample of each class is used for it, and a note says so.
        x: in mappings, which key has the sample; found automatically if it is an image or has a usual name.
        y: in mappings, which key has the label.
        size: images are cropped and scaled to this many pixels a side; needed if they differ in size.
        name: what tables and records call it.

    Returns:
        The dataset.

    Raises:
        InputError: if samples or labels are not found, or samples differ in shape.

    Examples:
        >>> import holdfast
        >>> rows = [([float(i), 1.0], "even" if i % 2 == 0 else "odd") for i in range(24)]
        >>> dataset = holdfast.from_dataset(rows)
        >>> len(dataset.train_x), len(dataset.test_x), dataset.notes
        (20, 4, ('every sixth sample of a class is for testing: there is no test split',))
    """
    notes: tuple[str, ...] = ()
    if test is None and isinstance(train, Mapping):
        train, test, notes = _splits(train)
    train_x, train_y = _read(train, x, y, size)
    if test is not None:
        test_x, test_y = _read(test, x, y, size)
    else:
        held_out = _every_sixth(train_y)
        test_x, test_y = train_x[held_out], [train_y[place] for place in np.flatnonzero(held_out)]
        train_x, train_y = train_x[~held_out], [train_y[place] for place in np.flatnonzero(~held_out)]
        notes = ("every sixth sample of a class is for testing: there is no test split",)
    if size is not None:
        notes = (*notes, f"images are cropped to squares and scaled to {size} × {size} pixels (option size)")
    made = from_arrays(train_x, train_y, test_x, test_y, name)
    return replace(made, notes=(*notes, *made.notes))


def is_dataset(value: object) -> bool:
    """Whether it is one of another library."""
    if isinstance(value, str | bytes | list | tuple):
        return False
    of_pairs = hasattr(value, "__getitem__") and (hasattr(value, "__len__") or hasattr(value, "keys"))
    return of_pairs or hasattr(value, "features")


def _splits(given: Mapping[str, Any]) -> tuple[Any, Any, tuple[str, ...]]:
    trains, tests = ([name for name in names if name in given] for names in (TRAIN, TEST))
    if not trains:
        raise InputError(f"there is no split train among {', '.join(map(str, given))}; give the one to train on")
    if not tests:
        return given[trains[0]], None, ()
    unused = "".join(f", {name} is not used" for name in given if name not in (trains[0], tests[0]))
    return given[trains[0]], given[tests[0]], (f"training on {trains[0]}, testing on {tests[0]}{unused}",)


def _read(data: Any, x: str | None, y: str | None, size: int | None) -> tuple[NDArray[Any], list[Hashable]]:
    from holdfast.samples import as_tensor

    number = len(data) if hasattr(data, "__len__") else None
    found: list[NDArray[Any]] = []
    labels: list[Hashable] = []
    shape = None if size is None else (3, whole("size", size, AT_LEAST_ONE), size)
    with progress("reading samples", number or 0) as advance:
        for sample, label in _pairs(data, x, y):
            try:
                found.append(as_tensor([sample], None, None, shape).numpy()[0])
            except HoldfastError as error:
                raise InputError(f"sample {len(found)}: {error}") from None
            labels.append(label)
            advance(1)
    if not found:
        raise DataError("the dataset is empty")
    if shapes := {each.shape for each in found} - {found[0].shape}:
        raise InputError(f"samples differ in shape, {found[0].shape} and {shapes.pop()}; for images, give size=224")
    return np.stack(found), labels


def _pairs(data: Iterable[Any], x: str | None, y: str | None) -> Iterator[tuple[Any, Hashable]]:
    names: Sequence[str] | None = None
    keys: tuple[str, str] | None = None
    if isinstance(data, Mapping):
        raise InputError(f"this is a mapping of {', '.join(map(str, data))}; give one of them")
    for item in _items(data):
        if isinstance(item, Mapping):
            if keys is None:
                keys = _sample_key(item, x), _label_key(item, y)
                names = _names(data, keys[1])
            sample, label = item[keys[0]], item[keys[1]]
        elif isinstance(item, tuple | list) and len(item) == 2:
            sample, label = item
            names = names or _names(data, "")
        else:
            what = type(item).__name__
            raise InputError(
                f"a dataset gives mappings, or pairs of a sample and its label, not a {what}; "
                "holdfast.from_arrays makes a dataset of arrays"
            )
        if math.prod(shape := getattr(label, "shape", ())) != 1:
            raise InputError(
                f"a label has shape {tuple(shape)}; where a DataLoader makes batches, give its dataset, loader.dataset"
            )
        plain = label.item() if hasattr(label, "item") else label
        yield sample, names[plain] if names and isinstance(plain, int) and 0 <= plain < len(names) else plain


def _items(data: Any) -> Iterator[Any]:
    """In order. A dataset of torch has items by number and, unlike a list, need not say where they end."""
    if hasattr(data, "__iter__") or not hasattr(data, "__len__"):
        return iter(data)
    return (data[place] for place in range(len(data)))


def _sample_key(item: Mapping[str, Any], asked: str | None) -> str:
    from PIL.Image import Image

    if asked is not None:
        return _known(item, asked)
    likely = [key for key, value in item.items() if isinstance(value, Image)]
    likely += [key for key in SAMPLES if key in item and key not in likely]
    if not likely:
        raise InputError(f"say which of {', '.join(item)} is the sample, x=...")
    return likely[0]


def _label_key(item: Mapping[str, Any], asked: str | None) -> str:
    if asked is not None:
        return _known(item, asked)
    likely = [key for key in LABELS if key in item]
    if not likely:
        raise InputError(f"say which of {', '.join(item)} is the label, y=...")
    return likely[0]


def _known(item: Mapping[str, Any], key: str) -> str:
    if key not in item:
        raise InputError(f"there is no {key!r} among {', '.join(item)}")
    return key


def _names(data: Any, key: str) -> Sequence[str] | None:
    """Of classes: Hugging Face's datasets know them by column, torchvision's have them as `classes`."""
    features = getattr(data, "features", None)
    if isinstance(features, Mapping):
        return getattr(features.get(key), "names", None)
    classes = getattr(data, "classes", None)
    return classes if isinstance(classes, list | tuple) else None


def _every_sixth(labels: Sequence[Hashable]) -> NDArray[np.bool_]:
    met: dict[Hashable, int] = {}
    held_out = np.zeros(len(labels), bool)
    for place, label in enumerate(labels):
        held_out[place] = met.setdefault(label, 0) % TEST_EVERY == 0
        met[label] += 1
    if alone := [label for label, number in met.items() if number < 2]:
        raise DataError(f"{alone[0]!r} has 1 sample: at least 2 are needed, one to train on and one to test on")
    return held_out
