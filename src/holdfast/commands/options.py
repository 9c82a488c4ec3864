"""What several commands are told alike. Light: asking for help loads nothing heavy."""

import argparse
from pathlib import Path


def folder(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("name a folder")
    return Path(text)


def memory(text: str) -> int | str:
    """A number of samples, or of bytes, which is looked at later."""
    try:
        return int(text)
    except ValueError:
        return text


def add_setting(command: argparse.ArgumentParser) -> None:
    """The choices that decide what a run computes; their defaults are those of the grid."""
    streams = "fashion (embedded, default), cifar10, cifar100, mini-imagenet, folder:PATH, arrays:FILE.npz"
    add = command.add_argument
    options = "tasks, batch, order=split|iid|blurry|given, distinct, share, rehearsal, first, holdout, size"
    add("--stream", metavar="NAME", help=f"{streams}; options after a colon, as in cifar10:tasks=10: {options}")
    add("--method", action="append", metavar="NAME[:option=value,...]", help="a method, or file.py:Class; repeatable")
    size = "samples a class in memory (default 5), or bytes in all: 614kB, 50MB"
    add("--memory", type=memory, metavar="M", help=size)
    codec = "hold samples as webp:75 (a quality from 0 to 100) or png: as many as fit where M a class would fit raw"
    add("--codec", metavar="NAME", help=codec)
    average = "answer by a moving average of the net with this decay, as 0.99 (default 0: by the net that learns)"
    add("--average", type=float, metavar="DECAY", help=average)
    net = "slim-resnet18, small-cnn or mlp (default: what suits the samples), or a pretrained one: timm:NAME,"
    more = "torchvision:NAME or file.py:factory, with options as in timm:NAME,frozen=but-last,size=96,weights=FILE"
    add("--net", metavar="NAME", help=f"{net} {more}")
    add("--eval-every", type=int, metavar="K", help="evaluate every K updates (default 10)")


def add_execution(command: argparse.ArgumentParser) -> None:
    """How runs are done, which changes nothing in what they find."""
    out = "where records and pictures go; runs that are there already are not repeated (default holdfast-runs)"
    add = command.add_argument
    add("--jobs", type=int, metavar="N", help="runs at a time (default: one a core)")
    add("--out", type=folder, default=Path("holdfast-runs"), metavar="DIR", help=out)
    add("--fresh", action="store_true", help="repeat runs even if their records are there")
    add("--retry-failed", action="store_true", help="repeat runs that failed")
    add("--snapshot-every", type=float, default=60, metavar="SECONDS", help="a stopped run goes on from there (60)")
    add("--keep-learners", action="store_true", help="keep what was trained, for holdfast runs save")
    add("--json", type=Path, metavar="FILE", help="also write all records of this command into one file; - is stdout")
    add("--log", action="append", default=[], metavar="LOGGER", help="also to tensorboard, mlflow or wandb; repeatable")
    add("--backend", choices=("local", "ray"), default="local", help="processes on this machine, or a Ray cluster")
    add("--address", metavar="auto|HOST:PORT", help="of the Ray cluster (default: one of its own on this machine)")
    add("--cpus-per-run", type=float, metavar="N", help="of the Ray cluster (default 1)")
    add("--gpus-per-run", type=float, metavar="N", help="of the Ray cluster (default 0)")
    add("--data", metavar="DIR", help="where datasets lie (default $HOLDFAST_DATA, or the user's cache)")
    precision = "of evaluation: auto (default: bf16 where a trial shows that it works and is faster), float32 or bf16"
    add("--precision", metavar="NAME", help=f"{precision}; also $HOLDFAST_PRECISION")
