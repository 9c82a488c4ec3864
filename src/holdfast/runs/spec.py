"""What a run is: everything that decides its numbers, and nothing else."""

import hashlib
import reprlib
import shlex
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from functools import cache, partial
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from holdfast.arguments import DECAYS, LEARNING_RATES, UPDATES, as_size, bytes_of, per_class, real, whole
from holdfast.errors import HoldfastError, InputError
from holdfast.runs.earlier import named


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """How a field of a run is chosen, on the command line, in a grid and from Python."""

    help: str
    name: str = ""  # as it is written there, if not as the field
    metavar: str | None = None
    usual: Any = None  # where nothing is chosen: a value, or a list of them
    by_method: bool = False  # where nothing is chosen, the method has a say, and the stream it learns
    kinds: tuple[type, ...] = ()  # of its values, as the field's type hint says
    affects: Literal["macs", "time"] | None = None  # multiply-adds and with them time; time alone; or neither
    parse: Callable[[str, Any], Any] = lambda option, value: value  # or an error that says what it must be
    later: bool = False  # records did not have it from the beginning; those without it have its default

    @property
    def option(self) -> str:
        return "--" + self.name.replace("_", "-")


def chosen(help: str, *, default: Any = MISSING, usual: Any = MISSING, **how: Any) -> Any:
    """A field that one can choose. `usual` is what commands take if that is not the field's default.

    A new field is `later=True`, and its default is what was done before there was a choice.
    """
    usual = default if usual is MISSING else usual
    return field(default=default, metadata={"choice": Choice(help=help, usual=usual, **how)})


def _memory(option: str, given: Any) -> int | str:
    """The same bytes are the same run, however they are written."""
    if not isinstance(given, str):
        return whole(option, given)
    if (number := per_class(given)) is not None:
        return number
    try:
        return as_size(bytes_of(option, given))
    except InputError:
        said = "a number of samples a class, as 20 or 20/class, or of bytes in all, as 614kB or 50MB"
        raise InputError(f"{option} must be {said}, not {reprlib.repr(given)}") from None


def _codec(option: str, given: str | None) -> str | None:
    from holdfast.memory.codecs import find

    codec = find(given)
    return None if codec is None else codec.name


def _names(option: str, given: Any) -> tuple[str, ...]:
    """Separated by commas, or a list, as JSON has it."""
    return tuple(filter(None, given.split(","))) if isinstance(given, str) else tuple(given)


STREAMS = "fashion (embedded, default), cifar10, cifar100, mini-imagenet, folder:PATH, arrays:FILE.npz"
STREAM_OPTIONS = "tasks, batch, order=split|iid|blurry|given, distinct, share, rehearsal, first, holdout, size"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """The one list of what decides a run. Their order is that of columns in tables and in stores."""

    stream: str = chosen(
        f"{STREAMS}; options after a colon, as in cifar10:tasks=10: {STREAM_OPTIONS}",
        usual="fashion",
        metavar="NAME",
        affects="macs",
    )
    method: str = chosen(
        "a method, or file.py:Class; repeatable",
        usual=["er", "er-ace", "holdfast"],
        metavar="NAME[:option=value,...]",
        affects="macs",
    )
    options: Mapping[str, str] = field(default_factory=dict, hash=False)  # of the method, written with it
    memory: int | str = chosen(
        "samples per class in memory, M or M/class (default {usual}), or bytes in all: 614kB, 50MB",
        default=20,
        usual=5,
        metavar="M",
        affects="macs",
        parse=_memory,
    )
    codec: str | None = chosen(
        "hold samples as webp:75 (a quality from 0 to 100) or png: as many as fit in the bytes of M raw ones per class "
        "(default raw; holdfast, with images: webp:75)",
        default=None,
        metavar="NAME",
        affects="macs",
        parse=_codec,
        later=True,
        by_method=True,
    )
    seed: int = chosen("", default=0, usual=[0, 1, 2], parse=whole)
    lr: float = chosen(
        "learning rate (default {usual:g}; holdfast: 0.05)",
        default=0.1,
        parse=partial(real, allowed=LEARNING_RATES),
        by_method=True,
    )
    momentum: float = chosen("of SGD (default {usual:g})", default=0.0, parse=partial(real, allowed=DECAYS), later=True)
    augment: bool = chosen(
        "random crops and flips (default: no; holdfast, on images: yes)", default=False, affects="time", by_method=True
    )
    average: float = chosen(
        "answer by a moving average of the net with this decay, such as 0.99 (default {usual:g}: the net that learns; "
        "holdfast: 0.99)",
        default=0.0,
        metavar="DECAY",
        affects="macs",
        parse=partial(real, allowed=DECAYS),
        later=True,
        by_method=True,
    )
    updates_per_batch: int = chosen(
        "gradient steps on each batch (default {usual}; on a short stream of your own up to 10)",
        default=1,
        name="updates",
        metavar="K",
        affects="macs",
        parse=partial(whole, allowed=UPDATES),
        later=True,
        by_method=True,
    )
    standardise: bool = chosen(
        "samples get mean 0 and variance 1, computed from those learned so far",
        default=False,
        affects="time",
        later=True,
    )
    net: str | None = chosen(
        "slim-resnet18, small-cnn, mlp or raw (default: what suits samples and method), or a pretrained one: timm:NAME,"
        " torchvision:NAME or file.py:factory, with options as in timm:NAME,frozen=but-last,size=96,weights=FILE",
        default=None,
        metavar="NAME",
        affects="macs",
    )
    start: str | None = chosen(
        "learn the first task with this one: several methods from one common model",
        default=None,
        metavar="METHOD",
        affects="macs",
    )
    probe: tuple[str, ...] = chosen(
        "also measure drift, gradient, prototype-gradient, alignment, projection, current-task",
        default=(),
        usual="",
        metavar="NAME,...",
        affects="time",
        parse=_names,
    )
    eval_every: int = chosen(
        "evaluate every K updates (default {usual})",
        default=10,
        metavar="K",
        affects="macs",
        parse=whole,
    )
    eval_mode: str = chosen(
        "{usual} (default), or rotating:K: 1/K of the test set a time",
        default="exact",
        name="eval",
        metavar="MODE",
        affects="time",
    )

    undecided: frozenset[str] = field(default=frozenset(), compare=False)  # fields that the method has a say in

    def __post_init__(self) -> None:
        for name, choice in CHOICES.items():
            object.__setattr__(self, name, choice.parse(choice.option, getattr(self, name)))

    @property
    def title(self) -> str:
        """The method with its options, as on the command line; † marks those that are told the task."""
        options = ",".join(f"{key}={value}" for key, value in self.options.items())
        name = Path(self.method).name if ".py:" in self.method else self.method
        return (f"{name}:{options}" if options else name) + _mark(self.method)

    def as_json(self) -> dict[str, Any]:
        """As records have it."""
        said = {name: value for name, value in asdict(self).items() if name in FIELDS}
        return {**said, "options": named(self.method, self.options)}


def _kinds(hint: Any) -> tuple[type, ...]:
    """Several names are written as one text."""
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    return tuple(str if get_origin(kind) is tuple else kind for kind in kinds if kind is not NoneType)


def _choices() -> dict[str, Choice]:
    hints = get_type_hints(RunSpec)
    found = {each.name: each.metadata["choice"] for each in fields(RunSpec) if "choice" in each.metadata}
    return {
        name: replace(choice, name=choice.name or name, kinds=_kinds(hints[name])) for name, choice in found.items()
    }


CHOICES = _choices()  # by the names of their fields
FIELDS = tuple(each.name for each in fields(RunSpec) if each.name != "undecided")
BY_METHOD = frozenset(name for name, choice in CHOICES.items() if choice.by_method)
DEFAULTS = {each.name: each.default for each in fields(RunSpec) if each.name in CHOICES}
LATER = {name: default for name, default in DEFAULTS.items() if CHOICES[name].later}
SETTING = tuple(name for name in CHOICES if name not in ("method", "seed", "probe"))  # what runs to compare share


def from_record(record: Mapping[str, Any]) -> RunSpec:
    """What a record was made of, also one from before there were all fields; an error if this version cannot run it."""
    return RunSpec(**{name: record[name] for name in FIELDS if name in record or name not in LATER})


def _mark(method: str) -> str:
    try:
        return "†" if _is_told_the_task(method) else ""
    except HoldfastError:  # a title is no place to complain: the method's file may be gone
        return ""


@cache
def _is_told_the_task(method: str) -> bool:
    from holdfast.methods import find

    return find(method).needs_task_ids


def command() -> str:
    """What was typed to get here."""
    name = Path(sys.argv[0]).name
    return shlex.join(["holdfast" if name == "__main__.py" else name, *sys.argv[1:]])


def code_hash(method: str) -> str:
    """The identity of the code behind a record: this package, and the user's code if the method is not part of it.

    What is gone counts as empty.
    """
    from holdfast.methods import code_of

    code = _package().copy()
    with suppress(OSError, HoldfastError):
        code.update(code_of(method) or b"")
    return code.hexdigest()[:12]


@cache
def _package() -> "hashlib._Hash":
    return hashlib.sha256(b"".join(file.read_bytes() for file in sorted(Path(__file__).parents[1].rglob("*.py"))))
