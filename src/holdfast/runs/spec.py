"""What a run is: everything that decides its numbers, and nothing else."""

import hashlib
import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from holdfast.arguments import LEARNING_RATES, real, whole
from holdfast.errors import HoldfastError, InputError
from holdfast.runs.earlier import named


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    stream: str
    method: str
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    memory: int = 20  # samples a class
    seed: int = 0
    lr: float = 0.1
    augment: bool = False
    eval_every: int = 10
    eval_mode: str = "exact"
    net: str | None = None  # None: the built-in one that suits the samples
    start: str | None = None  # the method of the first task, if it is another: several methods from one common model
    probe: tuple[str, ...] = ()  # what is measured beside

    def __post_init__(self) -> None:
        for name in ("memory", "seed", "eval_every"):
            whole(f"--{name.replace('_', '-')}", getattr(self, name))
        object.__setattr__(self, "probe", tuple(self.probe))  # JSON has lists only
        real("--lr", self.lr, LEARNING_RATES)

    @property
    def title(self) -> str:
        """The method with its options, as on the command line; † marks those that are told the task."""
        options = ",".join(f"{key}={value}" for key, value in self.options.items())
        name = Path(self.method).name if ".py:" in self.method else self.method
        return (f"{name}:{options}" if options else name) + _mark(self.method)

    def as_json(self) -> dict[str, Any]:
        """As records have it."""
        return {**asdict(self), "options": named(self.method, self.options)}


def _mark(method: str) -> str:
    try:
        return "†" if _is_told_the_task(method) else ""
    except HoldfastError:  # a title is no place to complain: the method's file may be gone
        return ""


@cache
def _is_told_the_task(method: str) -> bool:
    from holdfast.methods import find

    return find(method).needs_task_ids


def parse_method(text: str) -> tuple[str, dict[str, str]]:
    """NAME[:option=value,...] or file.py:Class[:option=value,...]"""
    name, options = text, ""
    if ":" in text and "=" in text.rpartition(":")[2]:
        name, _, options = text.rpartition(":")
    pairs = [item.partition("=") for item in options.split(",")] if options else []
    for key, equals, value in pairs:
        if not key or not equals or not value:
            raise InputError(f"method {text!r}: options are written option=value,option=value")
    return name, {key: value for key, _, value in pairs}


def command() -> str:
    """What was typed to get here."""
    name = Path(sys.argv[0]).name
    return shlex.join(["holdfast" if name == "__main__.py" else name, *sys.argv[1:]])


def code_hash(method: str) -> str:
    """The identity of the code behind a record: this package, and the user's file if the method is in one.

    A file that is gone counts as empty.
    """
    from holdfast.methods import file_of

    file = file_of(method)
    code = _package().copy()
    code.update(file.read_bytes() if file and file.is_file() else b"")
    return code.hexdigest()[:12]


@cache
def _package() -> "hashlib._Hash":
    return hashlib.sha256(b"".join(file.read_bytes() for file in sorted(Path(__file__).parents[1].rglob("*.py"))))
