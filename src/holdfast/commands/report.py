"""`holdfast report`: all that a store holds on one page."""

import argparse
import importlib.util
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from holdfast.commands.options import folder
from holdfast.commands.runs import opened
from holdfast.errors import InputError, UnknownName
from holdfast.report.page import details, render
from holdfast.report.settings import settings
from holdfast.reproduction import tuned
from holdfast.reproduction.in_store import InStore
from holdfast.reproduction.measures import PUBLISHED_AS
from holdfast.reproduction.sections import Section, sections
from holdfast.runs.store import Store
from holdfast.storage import files

RECORDS_AT_HAND = 128  # whole records are large: many evaluations, each with counts per class


def describe(parser: argparse.ArgumentParser) -> None:
    where = "the --out of runs, where report.html will be (default holdfast-runs)"
    parser.add_argument("out", type=folder, nargs="?", default=Path("holdfast-runs"), metavar="DIR", help=where)
    parser.set_defaults(command=report)


def report(options: argparse.Namespace) -> int:
    if importlib.util.find_spec("jinja2") is None:
        raise InputError("a report needs jinja2: pip install 'holdfast[report]'")
    file = options.out / "report.html"
    files.write(file, page(opened(options), options.out).encode())
    print(f"report: {file}")
    return 0


def page(store: Store, folder: Path) -> str:
    """`folder` has the store, and what was tuned, if anything."""
    with store.kept_open():
        return render(_content(store, folder), folder.resolve().name)


def _content(store: Store, folder: Path) -> dict[str, Any]:
    load = lru_cache(RECORDS_AT_HAND)(store.record)
    found, runs, shown = InStore(load), [], {}
    for row in store.rows():
        record = load(row["id"])
        runs.append(row)
        shown[row["id"]] = details(record)
        if row["status"] == "done":
            found.add(row)
    seeds = {run["id"]: run["seed"] for run in runs}
    paper = sections(found, seeds, quick=False)
    released = sections(found, seeds, quick=False, whose="released")
    of_own_choice = sections(found, seeds, quick=False, picks=tuned.picks(folder, miniature=False))
    miniatures = sections(found, seeds, quick=True)
    miniatures += sections(found, seeds, quick=True, picks=tuned.picks(folder, miniature=True))
    of_paper = {run for section in (*paper, *released, *of_own_choice, *miniatures) for run in section.runs}
    others = [run for run in runs if run["status"] == "done" and run["id"] not in of_paper]
    views = settings(others, load, lambda run: _strip(store, run))
    return {
        "paper": paper,
        "released": released,
        "tuned": of_own_choice,
        "miniatures": miniatures,
        "verdicts": _verdicts(paper),
        "settings": views,
        "runs": runs,
        "failed": [run for run in runs if run["status"] == "failed"],
        "data": {"runs": shown, "charts": [view.charts for view in views]},
    }


def _strip(store: Store, run: str) -> bytes | None:
    try:
        return store.artifact(run, "mistakes")
    except UnknownName:
        return None


def _verdicts(paper: Sequence[Section]) -> dict[str, int]:
    """How many published numbers ours agree with."""
    counts = {"within": 0, "beyond": 0, "open": 0, "missing": 0}
    for cell in (cell for section in paper for column in section.columns for _, cells in column.rows for cell in cells):
        if cell.paper is not None and cell.measure not in PUBLISHED_AS:
            said = next((word for word in ("within", "beyond") if word in cell.verdict), "open")
            counts[said if cell.values else "missing"] += 1
    return counts
