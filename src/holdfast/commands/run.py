"""`holdfast run`: methods on a stream, compared."""

import argparse

from holdfast.commands.execution import carry_out, chosen
from holdfast.commands.options import add_execution, add_setting


def describe(parser: argparse.ArgumentParser) -> None:
    add_setting(parser)
    add = parser.add_argument
    add("--seeds", type=int, metavar="N", help="seeds 0 to N-1 (default 3)")
    add("--lr", type=float, help="learning rate (default 0.1)")
    add("--momentum", type=float, help="of SGD (default 0)")
    add("--augment", action="store_true", help="random crops and flips")
    add("--start", metavar="METHOD", help="learn the first task with this one: several methods from one common model")
    add(
        "--probe",
        metavar="NAME,...",
        help="also measure drift, gradient, prototype-gradient, alignment, projection, current-task",
    )
    add("--eval", metavar="MODE", help="exact (default), or rotating:K: 1/K of the test set a time")
    add_execution(parser)
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    return carry_out(chosen(options), options)
