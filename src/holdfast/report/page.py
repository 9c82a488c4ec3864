"""One page that takes neither a network nor the datasets."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import holdfast
from holdfast import methods
from holdfast.errors import HoldfastError
from holdfast.report.figures import COLOURS, OTHER_COLOURS
from holdfast.report.groups import net_of
from holdfast.report.settings import chart, curves
from holdfast.runs.spec import CHOICES
from holdfast.runs.store import Record

PALETTE = [colour.removeprefix("#") for colour in (*COLOURS.values(), *OTHER_COLOURS)]
FOLDER = Path(__file__).parent


def render(content: Mapping[str, Any], name: str) -> str:
    """The page as HTML, with everything that it needs inside."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"drawing": drawing, "net": net_of}
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    parts = {part: (FOLDER / f"page.{part}").read_text(encoding="utf-8") for part in ("css", "js")}
    about = {"name": name, "version": holdfast.__version__}
    return environment.get_template("page.html").render(**content, **parts, **about, palette=PALETTE)


def details(record: Record) -> dict[str, Any]:
    """What is to be seen of a run: groups of names and values, and its curve."""
    measured = ("acc", "aaa", "forgetting", "train_macs", "eval_macs", "memory_bytes", "seconds", "train_seconds")
    identity = ("id", "status", "finished", "command", "code", "data", "state_hash", "fast_path_agreement", "updates")
    seen: dict[str, Any] = {
        "title": f"{record['title']}, seed {record['seed']}",
        "why": record["why"],
        "groups": {
            "Setting": _known(record, list(CHOICES)),
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
