"""`holdfast frontier`: which method is the most accurate for so many bytes, and for so many multiply-adds."""

import argparse
import importlib.util
from pathlib import Path

from rich.console import Console

from holdfast.commands.runs import opened, where
from holdfast.errors import InputError
from holdfast.report.frontier import picture, points, table


def describe(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("out", type=Path, metavar="DIR", help="the --out of runs")
    add("--stream", metavar="NAME", help="which stream, as in holdfast run; needed if there are several")
    add("--where", action="append", default=[], metavar="FIELD=VALUE", help="only those runs, as in holdfast runs list")
    add("--picture", type=Path, metavar="FILE", help="a .png, .svg or .pdf (default: DIR/frontier.png)")
    parser.set_defaults(command=frontier)


def frontier(options: argparse.Namespace) -> int:
    wanted = where(options.where) | ({"stream": options.stream} if options.stream else {})
    rows = [row for row in opened(options).rows(wanted) if row["status"] == "done"]
    streams = sorted({row["stream"] for row in rows})
    if not rows:
        raise InputError(f"no finished run in {options.out} is like that; holdfast runs list shows what there is")
    if len(streams) > 1:
        raise InputError(f"there are runs on several streams; say which by --stream: {', '.join(streams)}")
    found = points(rows)
    Console().print(table(found))
    if importlib.util.find_spec("matplotlib") is None:
        print("a picture needs matplotlib: pip install 'holdfast[plots]'")
        return 0
    path = options.picture or options.out / "frontier.png"
    if path.suffix not in (".png", ".svg", ".pdf"):
        raise InputError(f"--picture {path}: a picture ends in .png, .svg or .pdf")
    picture(found, f"{streams[0]}: accuracy for what it costs", path)
    print(f"picture: {path}")
    return 0
