"""`holdfast check`: every check, one line each."""

import argparse

import torch

from holdfast import checks, methods
from holdfast.report.terminal import terminal


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("method", metavar="NAME[:option=value,...]", help="a method, or file.py:Class")
    parser.set_defaults(command=check)


def check(options: argparse.Namespace) -> int:
    torch.set_num_threads(1)
    method = methods.make(*methods.parse(options.method))
    console = terminal(highlight=False, soft_wrap=True)
    failed = 0
    for each in checks.ALL:
        name = each.__name__.replace("_", " ")
        with console.status(name):
            why = _why_not(each, method)
        console.print(f"✓ {name}" if why is None else f"✗ {name}: {why}")
        failed += why is not None
    console.print(f"{method}: {len(checks.ALL) - failed} of {len(checks.ALL)} hold")
    return 1 if failed else 0


def _why_not(check: checks.Check, method: methods.Method) -> str | None:
    try:
        check(method)
    except AssertionError as broken:
        return str(broken)
    return None
