"""The `holdfast` command. Heavy imports happen inside the commands, so that help answers at once."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import holdfast
from holdfast.errors import HoldfastError

EPILOG = """examples:
  holdfast run                                             ER, ER-ACE and ER-AML on the embedded stream
  holdfast data get cifar10                                get and verify a dataset
  holdfast run --stream cifar10 --memory 20 --method er-ace --eval rotating:20
  holdfast cost --stream cifar10 --memory 20 --method mir   its multiply-adds, without running it
  holdfast check my_method.py:MyMethod                      does it hold what every method has to hold?
  holdfast run --stream folder:photos --method my_method.py:MyMethod
"""


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"holdfast: {message}\n")


def main(argv: Sequence[str] | None = None) -> int:
    options = parser().parse_args(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as cleanly as Ctrl-C does
    try:
        return int(options.command(options))
    except HoldfastError as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("holdfast: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def parser() -> Parser:
    top = Parser(
        prog="holdfast",
        description="Online continual learning: run any method on any stream, with anytime accuracy and its cost.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"holdfast {holdfast.__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    _describe_run(commands.add_parser("run", help="run methods on a stream and compare them"))
    _describe_cost(commands.add_parser("cost", help="what a run would compute, without running it"))
    _describe_check(commands.add_parser("check", help="check what every method has to hold"))
    _describe_data(commands.add_parser("data", help="list, get and verify datasets"))
    return top


def _describe_run(run: argparse.ArgumentParser) -> None:
    streams = "fashion (embedded, default), cifar10, cifar100, folder:PATH, arrays:FILE.npz"
    out = "where records and picture go; runs that are there already are not repeated (default holdfast-runs)"
    add = run.add_argument
    add("--stream", default="fashion", metavar="NAME", help=f"{streams}; options after a colon: cifar10:tasks=10")
    add("--method", action="append", metavar="NAME[:option=value,...]", help="a method, or file.py:Class; repeatable")
    add("--memory", type=int, default=5, metavar="M", help="samples a class in memory (default 5)")
    add("--seeds", type=int, default=3, metavar="N", help="seeds 0 to N-1 (default 3)")
    add("--lr", type=float, default=0.1, help="learning rate (default 0.1)")
    add("--augment", action="store_true", help="random crops and flips")
    add("--net", metavar="NAME", help="slim-resnet18, small-cnn or mlp (default: what suits the samples)")
    add("--eval-every", type=int, default=10, metavar="K", help="evaluate every K updates (default 10)")
    add("--eval", default="exact", metavar="MODE", help="exact (default), or rotating:K: 1/K of the test set a time")
    add("--jobs", type=int, metavar="N", help="runs at a time (default: one a core)")
    add("--out", type=Path, default=Path("holdfast-runs"), metavar="DIR", help=out)
    add("--fresh", action="store_true", help="repeat runs even if their records are there")
    add("--json", type=Path, metavar="FILE", help="also write all records of this command into one file")
    add("--data", metavar="DIR", help="where datasets lie (default $HOLDFAST_DATA, or the user's cache)")
    run.set_defaults(command=_run)


def _describe_cost(cost: argparse.ArgumentParser) -> None:
    add = cost.add_argument
    add("--stream", default="fashion", metavar="NAME", help="as in holdfast run (default fashion)")
    add("--method", action="append", metavar="NAME[:option=value,...]", help="a method, or file.py:Class; repeatable")
    add("--memory", type=int, default=5, metavar="M", help="samples a class in memory (default 5)")
    add("--net", metavar="NAME", help="slim-resnet18, small-cnn or mlp (default: what suits the samples)")
    add("--eval-every", type=int, default=10, metavar="K", help="a query every K updates (default 10)")
    add("--data", metavar="DIR", help="where datasets lie (default $HOLDFAST_DATA, or the user's cache)")
    cost.set_defaults(command=_cost)


def _describe_check(check: argparse.ArgumentParser) -> None:
    check.add_argument("method", metavar="NAME[:option=value,...]", help="a method, or file.py:Class")
    check.set_defaults(command=_check)


def _describe_data(data: argparse.ArgumentParser) -> None:
    actions = data.add_subparsers(title="actions", metavar="ACTION", required=True, parser_class=Parser)
    listing = actions.add_parser("list", help="what there is")
    get = actions.add_parser("get", help="download and verify")
    verify = actions.add_parser("verify", help="check every sample")
    source = "the official archive, or a folder with its files, already on this disk"
    get.add_argument("--from", dest="source", metavar="PATH", help=source)
    for action, command in ((listing, _data_list), (get, _data_get), (verify, _data_verify)):
        action.set_defaults(command=command)
        action.add_argument("--data", metavar="DIR", help="where datasets lie")
    for action in (get, verify):
        action.add_argument("name", help="cifar10 or cifar100")


def _run(options: argparse.Namespace) -> int:
    from holdfast.runs.command import compare

    return compare(options)


def _cost(options: argparse.Namespace) -> int:
    from holdfast.runs.cost import cost

    return cost(options)


def _check(options: argparse.Namespace) -> int:
    from holdfast.checks.command import check

    return check(options.method)


def _data_list(options: argparse.Namespace) -> int:
    from holdfast.datasets import listing
    from holdfast.datasets.get import data_root

    root = data_root(options.data)
    print(f"datasets in {root}:")
    for row in listing(root):
        shape = "×".join(map(str, row.sample_shape))
        print(f"  {row.name:10} {row.classes:4} classes {row.train:6} + {row.test:5} samples {shape:8}  {row.status}")
    return 0


def _data_get(options: argparse.Namespace) -> int:
    from holdfast.datasets.get import data_root, get

    get(options.name, data_root(options.data), options.source)
    return 0


def _data_verify(options: argparse.Namespace) -> int:
    from holdfast.datasets.get import data_root, verify

    for part, digest in verify(options.name, data_root(options.data)).items():
        print(f"{options.name} {part}: right ({digest[:16]})")
    return 0
