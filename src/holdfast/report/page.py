"""`holdfast report`: all that a store holds on one page, which takes neither a network nor the datasets."""

import argparse
import importlib.util
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import holdfast
from holdfast import methods
from holdfast.commands.runs import opened
from holdfast.errors import HoldfastError, InputError
from holdfast.paper import tuned
from holdfast.paper.in_store import InStore
from holdfast.paper.measures import PUBLISHED_AS
from holdfast.paper.sections import Section, sections
from holdfast.report.figures import COLOURS, OTHER_COLOURS
from holdfast.report.settings import chart, curves, settings
from holdfast.runs.store import Record, Store
from holdfast.storage import files

RECORDS_AT_HAND = 128  # whole records are large: many evaluations, each with counts per class
PALETTE = [colour.removeprefix("#") for colour in (*COLOURS.values(), *OTHER_COLOURS)]
FOLDER = Path(__file__).parent


def report(options: argparse.Namespace) -> int:
    if importlib.util.find_spec("jinja2") is None:
        raise InputError("a report needs jinja2: pip install 'holdfast[report]'")
    file = options.out / "report.html"
    files.write(file, page(opened(options), options.out).encode())
    print(f"report: {file}")
    return 0


def page(store: Store, folder: Path) -> str:
    """`folder` has the store, and what was tuned, if anything."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["drawing"] = drawing
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    with store.kept_open():
        content = _content(store, folder)
    parts = {part: (FOLDER / f"page.{part}").read_text(encoding="utf-8") for part in ("css", "js")}
    about = {"name": folder.resolve().name, "version": holdfast.__version__}
    return environment.get_template("page.html").render(**content, **parts, **about, palette=PALETTE)


def _content(store: Store, folder: Path) -> dict[str, Any]:
    load = lru_cache(RECORDS_AT_HAND)(store.record)
    found, runs, details = InStore(load), [], {}
    for row in store.rows():
        record = load(row["id"])
        runs.append(row)
        details[row["id"]] = _details(record)
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
    views = settings(others, load)
    return {
        "paper": paper,
        "released": released,
        "tuned": of_own_choice,
        "miniatures": miniatures,
        "verdicts": _verdicts(paper),
        "settings": views,
        "runs": runs,
        "failed": [run for run in runs if run["status"] == "failed"],
        "data": {"runs": details, "charts": [view.charts for view in views]},
    }


def _verdicts(paper: Sequence[Section]) -> dict[str, int]:
    """How many published numbers ours agree with."""
    counts = {"within": 0, "beyond": 0, "open": 0, "missing": 0}
    for cell in (cell for section in paper for column in section.columns for _, cells in column.rows for cell in cells):
        if cell.paper is not None and cell.measure not in PUBLISHED_AS:
            said = next((word for word in ("within", "beyond") if word in cell.verdict), "open")
            counts[said if cell.values else "missing"] += 1
    return counts


def _details(record: Record) -> dict[str, Any]:
    """What is to be seen of a run: groups of names and values, and its curve."""
    of_spec = (
        "stream",
        "method",
        "memory",
        "seed",
        "lr",
        "augment",
        "net",
        "start",
        "probe",
        "eval_every",
        "eval_mode",
    )
    measured = ("acc", "aaa", "forgetting", "train_macs", "eval_macs", "memory_bytes", "seconds", "train_seconds")
    identity = ("id", "status", "finished", "command", "code", "data", "state_hash", "fast_path_agreement", "updates")
    seen: dict[str, Any] = {
        "title": f"{record['title']}, seed {record['seed']}",
        "why": record["why"],
        "groups": {
            "Setting": _known(record, of_spec),
            "Hyper-parameters of the method": _options(record["method"], record["options"]),
            "Measured": _known(record, measured),
            "Multiply-adds by account": record.get("macs", {}),
            "Which run": _known(record, identity),
            "Environment": record.get("environment", {}),
        },
    }
    if record["evaluations"]:
        line = curves(record)
        series = [{"name": "all tasks met", "steps": line["steps"], "mean": line["aa"]}]
        series.append({"name": "earlier tasks", "steps": line["steps"], "mean": line["earlier"], "dash": "6 3"})
        seen["chart"] = chart(record, "Accuracy along the stream", series)
    return seen


def _known(record: Record, names: Sequence[str]) -> Record:
    return {name: record[name] for name in names if record.get(name) is not None}


def _options(method: str, given: Mapping[str, str]) -> Mapping[str, Any]:
    """With the defaults filled in, if it is a method of this package."""
    if methods.file_of(method) is None:
        try:
            return asdict(methods.make(method, given))
        except HoldfastError:  # an older version had other options
            pass
    return given


def drawing(svg: str, key: str) -> str:
    """An SVG of matplotlib's as a part of a page: ids of its own, and the page's colours, light or dark."""
    from markupsafe import Markup

    body = svg[svg.index("<svg") :]
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{key}-", body)
    body = re.sub(r"#([0-9a-f]{6})\b", _colour, body)
    width = float(body.partition('viewBox="0 0 ')[2].split()[0]) * 4 / 3  # points to pixels
    body = re.sub(r'\b(width|height)="[\d.]+pt"', "", body)
    style = f"width:min(100%,{1.4 * width:.0f}px);min-width:{width:.0f}px"
    return Markup(body.replace("<svg", f'<svg role="img" aria-label="{key}" style="{style}"', 1))


def _colour(found: re.Match[str]) -> str:
    special = {"000000": "currentColor", "f0f0f0": "var(--shade)", "808080": "var(--muted)", "999999": "var(--muted)"}
    return special.get(found[1]) or (f"var(--c{found[1]})" if found[1] in PALETTE else found[0])
