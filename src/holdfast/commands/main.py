"""The `holdfast` command. A command's module is loaded when the command is chosen, so that help answers at once."""

import argparse
import difflib
import errno
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from types import FrameType
from typing import Any, NoReturn

import holdfast
from holdfast.commands.explained import explain
from holdfast.errors import HoldfastError

EPILOG = """examples:
  holdfast run                                             ER, ER-ACE and Holdfast on the embedded stream
  holdfast data get cifar10                                get and verify a dataset
  holdfast run --stream cifar10 --memory 20 --method er-ace --eval rotating:20
  holdfast cost --stream cifar10 --memory 20 --method mir   its multiply-adds, without running it
  holdfast check my_method.py:MyMethod                      does it guarantee what every method has to?
  holdfast sweep grid.toml                                  every combination of a grid, with a live table
  holdfast tune --dataset cifar10 --method er-ace           choose hyper-parameters, on validation samples
  holdfast runs list --where method=er-ace                  what was run
  holdfast report holdfast-runs                             all of it on one page, report.html
  holdfast learner verify weather                           every byte of a learner in a folder
  holdfast run --stream folder:photos --method my_method.py:MyMethod
"""

STOPPED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM


COMMANDS = {
    "run": "run methods on a stream and compare them",
    "sweep": "run every combination of a grid",
    "paper": "the paper's tables and figures, published and ours",
    "tune": "choose hyper-parameters as the paper does",
    "cost": "what a run would compute, without running it",
    "check": "check what every method has to guarantee",
    "report": "all tables, figures and runs on one page",
    "frontier": "accuracy against bytes and multiply-adds, from the runs in a store",
    "runs": "list, show, export and remove runs",
    "learner": "look after a learner in a folder",
    "serve": "a learner in a folder over HTTP: answers, learning, metrics",
    "data": "list, get and verify datasets",
    "completion": "a script for your shell that completes commands and options",
    "doctor": "what works on this machine and how fast, for bug reports",
}


class Parser(argparse.ArgumentParser):
    """Options are written out: --seed is not --seeds."""

    def __init__(self, **how: Any) -> None:
        super().__init__(allow_abbrev=False, **how)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"holdfast: {message}\n")


class CommandParser(Parser):
    """Learns its options from the command's module when it is first needed."""

    def __init__(self, *, module: str = "", **how: Any) -> None:
        super().__init__(**how)
        self._module = module

    def learn(self) -> None:
        if self._module:
            import_module(self._module).describe(self)
            explain(self)
            self._module = ""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self.learn()
        found, unknown = super().parse_known_args(args, namespace)
        for option in (each for each in unknown if each.startswith("--")):
            known = [name for name in self._option_string_actions if name.startswith("--")]
            near = difflib.get_close_matches(option.partition("=")[0], known, n=1)
            hint = f": did you mean {near[0]}?" if near else f"; {self.prog} --help lists all"
            self.error(f"unknown option {option}{hint}")
        if unknown:
            self.error(f"{self.prog} does not take {' '.join(unknown)}; {self.prog} --help lists what it takes")
        return found, unknown


def main(argv: Sequence[str] | None = None) -> int:
    terminated = False

    def terminate(number: int, frame: FrameType | None) -> None:
        nonlocal terminated
        terminated = True
        signal.default_int_handler(number, frame)  # ends as cleanly as Ctrl-C does

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        code = _exit_code(argv)
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)
        if argv is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # the process ends: what is left is Python's own business
    return TERMINATED if terminated and code == STOPPED else code


def _exit_code(argv: Sequence[str] | None) -> int:
    try:
        options = parser().parse_args(argv)  # which loads the command: that takes seconds, and may be stopped
        code = int(options.command(options))
        sys.stdout.flush()
        return code
    except HoldfastError as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("holdfast: stopped", file=sys.stderr)
        return STOPPED
    except BrokenPipeError:
        _leave_stdout()
        return 1
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename is not None:
            raise
        _leave_stdout()
        print(f"holdfast: stdout cannot be written: {error.strerror}", file=sys.stderr)
        return 2


def _leave_stdout() -> None:
    """What is still to be written there is not tried again when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parser(whole: bool = False) -> Parser:
    """With the options of all commands, or those of the one that is chosen later."""
    top = Parser(
        prog="holdfast",
        description="Online continual learning: run any method on any stream, with anytime accuracy and its cost.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"holdfast {holdfast.__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=CommandParser)
    for name, what in COMMANDS.items():
        command = commands.add_parser(name, help=what, module=f"holdfast.commands.{name}")
        if whole:
            command.learn()
    return top
