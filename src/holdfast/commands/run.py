"""`holdfast run`: methods on a stream, compared."""

import argparse

from holdfast.commands.execution import carry_out
from holdfast.commands.options import add_by_class, add_choices, add_execution, given
from holdfast.runs.grid import grid


def describe(parser: argparse.ArgumentParser) -> None:
    add_choices(parser)
    add_by_class(parser)
    add_execution(parser)
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    return carry_out(grid(**given(options)), options)
