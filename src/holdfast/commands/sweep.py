"""`holdfast sweep`: every combination of a grid."""

import argparse
from pathlib import Path

from holdfast.commands.execution import carry_out
from holdfast.commands.options import add_by_class, add_execution
from holdfast.runs.grid import read


def describe(parser: argparse.ArgumentParser) -> None:
    grid = "TOML: the options of holdfast run by name, each a value or a list, and [[grid]] tables"
    parser.add_argument("grid", type=Path, metavar="GRID.toml", help=grid)
    add_by_class(parser)
    add_execution(parser)
    parser.set_defaults(command=sweep)


def sweep(options: argparse.Namespace) -> int:
    return carry_out(read(options.grid), options)
