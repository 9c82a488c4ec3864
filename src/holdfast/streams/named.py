"""Streams as they are named on the command line: NAME[:option=value,...], folder:PATH[:...], arrays:FILE[:...]."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from holdfast import datasets
from holdfast.datasets.arrays import npz
from holdfast.datasets.base import Dataset
from holdfast.datasets.folder import folder
from holdfast.errors import InputError, UnknownName
from holdfast.streams.base import Stream, iid, split

TASKS = {"fashion": 5, "cifar10": 5, "cifar100": 20}
STREAMS = [*TASKS, "folder:PATH", "arrays:FILE.npz"]
OPTIONS = ("tasks", "batch", "size", "order")


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
        raise UnknownName("stream", kind, STREAMS)
    if len(rest) > 1:
        raise InputError(f"stream {text!r}: options go after one colon, as in {kind}:tasks=5,order=iid")
    options = dict(_option(text, item) for item in rest[0].split(",")) if rest else {}
    if "size" in options and kind != "folder":
        raise InputError(f"stream {text!r}: size is an option of folder streams only")
    return StreamName(kind, path, options)


@dataclass(frozen=True)
class Source:
    """A dataset and how it is to be ordered, with nothing left to defaults."""

    dataset: Dataset
    options: dict[str, str | int]

    @cached_property
    def fingerprint(self) -> str:
        return datasets.fingerprint(self.dataset)

    @property
    def has_tasks(self) -> bool:
        return self.options["order"] == "split" and int(self.options["tasks"]) > 1

    def stream(self, seed: int = 0, iid_batches: int = 0, epochs: int = 1) -> Stream:
        """`iid_batches` above 0 shuffles it, with so many batches a step, for some epochs."""
        batch, tasks = int(self.options["batch"]), int(self.options["tasks"])
        if iid_batches or self.options["order"] == "iid":
            return iid(self.dataset, seed, batch, max(1, iid_batches), epochs)
        return split(self.dataset, tasks, seed, batch)


def source(text: str, root: Path) -> Source:
    name = parse(text)
    number = {key: _number(text, key, value) for key, value in name.options.items() if key != "order"}
    order = name.options.get("order", "split")
    if order not in ("split", "iid"):
        raise UnknownName("order", order, ["split", "iid"])
    dataset = _load(name, root, number.get("size", 32))
    tasks = number.get("tasks", TASKS.get(name.kind, (len(dataset.classes) + 1) // 2))
    found = Source(dataset, {"order": order, "batch": number.get("batch", 10), "tasks": tasks})
    found.stream()  # finds mistakes in the options
    return found


def named(text: str, root: Path, seed: int = 0, iid_batches: int = 0, epochs: int = 1) -> Stream:
    """The stream of that name."""
    return source(text, root).stream(seed, iid_batches, epochs)


def _load(name: StreamName, root: Path, size: int) -> Dataset:
    readers: dict[str, Callable[[Path], Dataset]] = {"folder": lambda path: folder(path, size), "arrays": npz}
    return readers[name.kind](name.path) if name.path else datasets.load(name.kind, root)


def _option(text: str, item: str) -> tuple[str, str]:
    key, equals, value = item.partition("=")
    if not equals or not value:
        raise InputError(f"stream {text!r}: {item!r} should be option=value")
    if key not in OPTIONS:
        raise UnknownName("stream option", key, OPTIONS)
    return key, value


def _number(text: str, key: str, value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise InputError(f"stream {text!r}: {key} must be a whole number of 1 or more, not {value!r}")
    return int(value)
