"""What several commands are told alike. Light: asking for help loads nothing heavy."""

import argparse
from pathlib import Path
from typing import Any

from holdfast.runs.spec import CHOICES, Choice


def folder(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("name a folder")
    return Path(text)


def shape(text: str) -> tuple[int, ...]:
    try:
        found = tuple(int(size) for size in text.split("x"))
    except ValueError:
        found = ()
    if len(found) not in (1, 3) or min(found) < 1:
        raise argparse.ArgumentTypeError("give channels, height and width, 3x32x32, or the length of a vector, 8")
    return found


def add_choices(command: argparse.ArgumentParser, *names: str) -> None:
    """The choices that decide what a run computes, all of them or those fields; seeds are chosen by their number."""
    for name in names or CHOICES:
        choice = CHOICES[name]
        if name == "seed":
            command.add_argument("--seeds", type=int, metavar="N", help="seeds 0 to N-1 (default 3)")
        else:
            text = choice.help.format(usual=choice.usual)
            command.add_argument(choice.option, help=text, **_reading(choice))


def _reading(choice: Choice) -> dict[str, Any]:
    if choice.kinds == (bool,):
        return {"action": argparse.BooleanOptionalAction, "default": None}
    if isinstance(choice.usual, list):
        return {"action": "append", "metavar": choice.metavar}
    return {"type": choice.kinds[0] if len(choice.kinds) == 1 else number_or_text, "metavar": choice.metavar}


def number_or_text(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text


def given(options: argparse.Namespace) -> dict[str, Any]:
    """What was chosen; the rest is as the grid has it."""
    names = (*(choice.name for choice in CHOICES.values()), "seeds")
    found = {name: getattr(options, name, None) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def add_by_class(command: argparse.ArgumentParser) -> None:
    what = (
        "also show the accuracy of each class, what it is mistaken for and some mistakes (default: for your own data)"
    )
    command.add_argument("--by-class", action=argparse.BooleanOptionalAction, default=None, help=what)


def add_execution(command: argparse.ArgumentParser) -> None:
    """How runs are done, which changes nothing in what they find."""
    out = "where records and pictures go; runs that are there already are not repeated (default holdfast-runs)"
    add = command.add_argument
    add("--jobs", type=int, metavar="N", help="runs at a time (default: one per core)")
    add("--out", type=folder, default=Path("holdfast-runs"), metavar="DIR", help=out)
    add("--fresh", action="store_true", help="repeat runs even if their records are there")
    add("--retry-failed", action="store_true", help="repeat runs that failed")
    add(
        "--snapshot-every",
        type=float,
        default=60,
        metavar="SECONDS",
        help="how often a run saves where it is; a stopped one continues from there (60)",
    )
    add("--keep-learners", action="store_true", help="keep the trained learners, for holdfast runs save")
    add("--json", type=Path, metavar="FILE", help="also write all records of this command into one file; - is stdout")
    add("--quiet", action="store_true", help="show only the results; without it, progress goes to stderr")
    add("--log", action="append", default=[], metavar="LOGGER", help="also to tensorboard, mlflow or wandb; repeatable")
    add("--backend", choices=("local", "ray"), default="local", help="processes on this machine, or a Ray cluster")
    add("--address", metavar="auto|HOST:PORT", help="of the Ray cluster (default: one of its own on this machine)")
    add("--cpus-per-run", type=float, metavar="N", help="of the Ray cluster (default 1)")
    add("--gpus-per-run", type=float, metavar="N", help="of the Ray cluster (default 0)")
    add("--data", metavar="DIR", help="where datasets are (default $HOLDFAST_DATA, or the user's cache)")
    precision = "of evaluation: auto (default: bf16 where a trial shows that it works and is faster), float32 or bf16"
    add("--precision", metavar="NAME", help=f"{precision}; also $HOLDFAST_PRECISION")
