"""Streams as they are named on the command line: NAME[:option=value,...], folder:PATH[:...], arrays:FILE[:...]."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from holdfast import datasets
from holdfast.datasets.arrays import npz
from holdfast.datasets.base import Dataset, first_of_each_class, validation_split
from holdfast.datasets.folder import folder
from holdfast.datasets.get import data_root
from holdfast.errors import InputError, UnknownName
from holdfast.streams.base import Stream, as_given, iid, limited
from holdfast.streams.blurry import blurry

TASKS = {"fashion": 5, "cifar10": 5, "cifar100": 20, "mini-imagenet": 20}
STREAMS = [*TASKS, "folder:PATH", "arrays:FILE.npz"]
OPTIONS = ("tasks", "batch", "size", "first", "order", "distinct", "share", "rehearsal", "holdout")
ORDERS = ("split", "iid", "blurry", "given")


@dataclass(frozen=True, slots=True)
class StreamName:
    kind: str
    path: Path | None
    options: dict[str, str]


def parse(text: str) -> StreamName:
    kind, *rest = text.split(":")
    path = None
    if kind in ("folder", "arrays"):
        if not rest or not rest[0]:
            raise InputError(f"stream {text!r}: say where, as in {kind}:PATH")
        path = Path(rest.pop(0)).expanduser()
    elif kind not in TASKS:
        raise _unknown(kind)
    if len(rest) > 1:
        right = f"{text.removesuffix(':'.join(rest))}{','.join(rest)}"
        raise InputError(f"stream {text!r}: options go after one colon, {right}, and a path has none in it")
    options = dict(_option(text, item) for item in rest[0].split(",")) if rest else {}
    if "size" in options and kind != "folder":
        raise InputError(f"stream {text!r}: size is an option of folder streams only")
    return StreamName(kind, path, options)


def _unknown(name: str) -> InputError:
    there = Path(name).expanduser()
    if name and (there.is_dir() or (there.suffix == ".npz" and there.is_file())):
        return InputError(f"unknown stream {name!r}: did you mean {'folder' if there.is_dir() else 'arrays'}:{name}?")
    return UnknownName("stream", name, STREAMS)


@dataclass(frozen=True)
class Source:
    """A dataset and how it is to be ordered, with nothing left to defaults."""

    dataset: Dataset
    options: dict[str, str | int | float]
    root: Path = field(default_factory=data_root)  # where what is computed of it is kept

    @cached_property
    def fingerprint(self) -> str:
        return datasets.fingerprint(self.dataset)

    @cached_property
    def batches(self) -> int:
        """How many the stream has."""
        return len(self.stream())

    @property
    def title(self) -> str:
        """For sources that have no name that others know: the dataset, the beginning of its fingerprint, its order."""
        usual = {"order": "split", "batch": 10, "tasks": _usual_tasks(self.dataset)}
        said = ",".join(f"{key}={value}" for key, value in self.options.items() if usual.get(key) != value)
        return f"{self.dataset.name}@{self.fingerprint[:8]}" + (f":{said}" if said else "")

    @property
    def has_tasks(self) -> bool:
        return self.options["order"] == "split" and int(self.options["tasks"]) > 1

    def stream(self, seed: int = 0, iid_batches: int = 0, epochs: int = 1) -> Stream:
        """`iid_batches` above 0 shuffles it, with so many batches a step, for some epochs."""
        batch, tasks = int(self.options["batch"]), int(self.options["tasks"])
        if iid_batches or self.options["order"] == "iid":
            return iid(self.dataset, seed, batch, max(1, iid_batches), epochs)
        if self.options["order"] == "given":
            return as_given(self.dataset, tasks, batch)
        if self.options["order"] == "blurry":
            return blurry(self.dataset, tasks, seed, batch, float(self.options["distinct"]))
        return limited(self.dataset, tasks, seed, batch, float(self.options.get("share", 100)))


def source(text: str, root: Path) -> Source:
    name = parse(text)
    found = _source(text, name.options, lambda size: _load(name, root, size), TASKS.get(name.kind))
    return replace(found, root=root)


def ordered(dataset: Dataset, **options: str | float) -> Source:
    """Makes a dataset of your own into a stream, for `holdfast.run(stream=...)`.

    Args:
        dataset: the samples, as `holdfast.from_arrays` makes one.
        options: what a stream's name may say after a colon on the command line: tasks (default: two classes each),
            batch (10), order ("split", "iid", "blurry" or "given"), distinct, share, rehearsal, first, holdout.

    Returns:
        The dataset and its order.

    Raises:
        InputError: if an option is unknown or does not fit the dataset.

    Examples:
        >>> import numpy as np
        >>> x, y = np.random.default_rng(0).normal(size=(40, 8)).astype("float32"), np.arange(40) % 4
        >>> from holdfast import from_arrays
        >>> ordered(from_arrays(x, y, x, y), tasks=2).options
        {'order': 'split', 'batch': 10, 'tasks': 2}
    """
    if not isinstance(dataset, Dataset):
        raise InputError(f"dataset must be a Dataset, as holdfast.from_arrays makes one, not {type(dataset).__name__}")
    given = dict(_option(dataset.name, f"{key}={value}") for key, value in options.items())
    if "size" in given:
        raise InputError("size is an option of folders; the samples of a dataset have their size")
    return _source(dataset.name, given, lambda size: dataset)


def _source(text: str, given: Mapping[str, str], load: Callable[[int], Dataset], usual: int | None = None) -> Source:
    order, rehearsal = given.get("order", "split"), given.get("rehearsal", "steady")
    if order not in ORDERS:
        raise UnknownName("order", order, ORDERS)
    if rehearsal not in ("steady", "balanced"):
        raise UnknownName("rehearsal", rehearsal, ["steady", "balanced"])
    for option, belongs_to in (("distinct", "blurry"), ("share", "split"), ("rehearsal", "split")):
        if option in given and order != belongs_to:
            raise InputError(f"stream {text!r}: {option} goes with order={belongs_to}")
    number = {key: _number(text, key, given[key]) for key in ("tasks", "batch", "size", "first") if key in given}
    dataset = load(number.get("size", 32))
    if "first" in number:
        dataset = first_of_each_class(dataset, number["first"])
    holdout = _measure(text, "holdout", given["holdout"]) if "holdout" in given else None
    if holdout is not None:
        dataset = validation_split(dataset, holdout)
    options: dict[str, str | int | float] = {
        "order": order,
        "batch": number.get("batch", 10),
        "tasks": number.get("tasks", usual or _usual_tasks(dataset)),
    }
    if order == "blurry":
        options["distinct"] = _measure(text, "distinct", given.get("distinct", "2"))
    if (share := _measure(text, "share", given.get("share", "100"))) != 100:
        options["share"] = share
    if rehearsal == "balanced":
        options["rehearsal"] = rehearsal
    if holdout is not None:
        options["holdout"] = holdout
    found = Source(dataset, options)
    found.stream()  # finds mistakes in the options
    return found


def _usual_tasks(dataset: Dataset) -> int:
    return (len(dataset.classes) + 1) // 2


def named(text: str, root: Path, seed: int = 0, iid_batches: int = 0, epochs: int = 1) -> Stream:
    """The stream of that name."""
    return source(text, root).stream(seed, iid_batches, epochs)


def _load(name: StreamName, root: Path, size: int) -> Dataset:
    readers: dict[str, Callable[[Path], Dataset]] = {"folder": lambda path: folder(path, size, root), "arrays": npz}
    return readers[name.kind](name.path) if name.path else datasets.load(name.kind, root)


def _option(text: str, item: str) -> tuple[str, str]:
    key, equals, value = item.partition("=")
    if not equals or not value:
        raise InputError(f"stream {text!r}: {item!r} should be option=value")
    if key not in OPTIONS:
        raise UnknownName("stream option", key, OPTIONS)
    return key, value


def _measure(text: str, key: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise InputError(f"stream {text!r}: {key} must be a number, not {value!r}") from None


def _number(text: str, key: str, value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise InputError(f"stream {text!r}: {key} must be a whole number of 1 or more, not {value!r}")
    return int(value)
