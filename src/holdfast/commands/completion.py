"""`holdfast completion`: a script by which a shell completes commands and options."""

import argparse
import importlib.util

from holdfast.errors import InputError

SHELLS = ("bash", "zsh", "tcsh")


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(command=completion)


def completion(options: argparse.Namespace) -> int:
    if importlib.util.find_spec("shtab") is None:
        raise InputError("completion needs shtab: pip install 'holdfast[completion]'")
    import shtab

    from holdfast.commands.main import parser

    print(shtab.complete(parser(whole=True), shell=options.shell))
    return 0
