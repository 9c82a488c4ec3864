"""Tables as a notebook shows them: plain HTML with the notebook's own colours, light or dark."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from holdfast.report.tables import Floors, summarised
from holdfast.runs.store import Record

TABLE = "border-collapse:collapse;color:inherit;font-size:inherit"
CELL = "padding:.25em .8em;text-align:right;white-space:nowrap"
FIRST = "padding:.25em .8em;text-align:left"
LINE = "border-top:1px solid rgba(128,128,128,.4)"


def page_of(records: Sequence[Record], failed: Mapping[str, str], floors: Floors) -> str:
    """The summary of runs beside baselines, and which of them failed."""
    parts = []
    if records:
        title, caption, columns, blocks, notes = summarised(records, floors)
        rows = []
        for setting, of_setting in blocks.items():
            if setting:
                rows.append(f'<tr><th colspan="{len(columns) + 1}" style="{FIRST};{LINE}">{escape(setting)}</th></tr>')
            rows += [row(name, figures) for name, figures in of_setting]
        parts.append(table(["method", *columns], rows, title, caption))
        parts += [f"<p>{escape(line)}</p>" for line in notes]
    for name, why in failed.items():
        parts.append(f"<p><b>{escape(name)} failed:</b> {escape(why.strip().splitlines()[-1])}</p>")
    return "".join(parts) or "<p>no run is done</p>"


def table(columns: Sequence[str], rows: Iterable[str], title: str | None = None, caption: str = "") -> str:
    first, *others = map(escape, columns)
    heads = f'<th style="{FIRST}">{first}</th>' + "".join(f'<th style="{CELL}">{name}</th>' for name in others)
    above = f'<p style="margin:.4em 0"><b>{escape(title)}</b></p>' if title else ""
    below = f'<p style="margin:.4em 0;opacity:.7;font-size:90%">{escape(caption)}</p>' if caption else ""
    body = f"<thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f'<div>{above}<table style="{TABLE}">{body}</table>{below}</div>'


def row(name: str, cells: Iterable[str]) -> str:
    texts = "".join(f'<td style="{CELL};{LINE}">{escape(cell)}</td>' for cell in cells)
    return f'<tr><td style="{FIRST};{LINE}">{escape(name)}</td>{texts}</tr>'
