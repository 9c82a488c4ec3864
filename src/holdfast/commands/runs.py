"""`holdfast runs`: what is in a store."""

import argparse
import csv
import importlib.util
import io
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.commands.options import folder
from holdfast.errors import InputError, UnknownName
from holdfast.report.tables import listing
from holdfast.runs.exported import difference, packed, read
from holdfast.runs.store import Record, Store
from holdfast.runs.where import KINDS
from holdfast.storage import files

LARGE = "evaluations", "confusion", "mistakes"  # of a record


def describe(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True, parser_class=type(parser))
    listed = actions.add_parser("list", help="one line for each run")
    shown = actions.add_parser("show", help="everything about a run")
    exported = actions.add_parser("export", help="as a table for other programs")
    imported = actions.add_parser("import", help="take in what another store has exported")
    saved = actions.add_parser("save", help="the learner that a run has trained, as a file for Learner.load")
    removed = actions.add_parser("rm", help="remove runs")
    functions = {listed: show_list, shown: show, exported: export, imported: take_in, saved: save, removed: remove}
    for action, function in functions.items():
        action.set_defaults(command=function)
        action.add_argument(
            "--out", type=folder, default=Path("holdfast-runs"), metavar="DIR", help="as in holdfast run"
        )
    for action in (listed, exported):
        which = "only matching runs: field=value,field=value, such as method=er-ace,seed=0"
        action.add_argument("--where", action="append", default=[], metavar="FIELD=VALUE", help=which)
    by = "by this field, such as acc; with - before it, largest first: --sort=-acc"
    listed.add_argument("--sort", metavar="FIELD", help=by)
    listed.add_argument("--limit", type=int, metavar="N", help="only the first N")
    listed.add_argument("--json", action="store_true", help="as JSON, without evaluations")
    for action in (shown, saved):
        one = "a run's id, or the beginning of it, or what only it has: method=er-ace,seed=0"
        action.add_argument("id", help=one)
    shown.add_argument("--json", action="store_true", help="also its evaluations, and what it answered at the end")
    saved.add_argument("file", type=Path, metavar="FILE", help="- is stdout")
    removed.add_argument("ids", nargs="+", metavar="id", help="a run's id, or the beginning of it")
    exported.add_argument("--csv", type=Path, metavar="FILE", help="- is stdout, as for the others")
    exported.add_argument("--parquet", type=Path, metavar="FILE")
    exported.add_argument("--json", type=Path, metavar="FILE", help="whole records, for import; .gz, .xz: compressed")
    imported.add_argument("--replace", action="store_true", help="where numbers differ, the imported ones count")
    imported.add_argument("files", nargs="+", type=Path, metavar="FILE.json", help="also .json.gz, .json.xz")
    exported.add_argument("--evaluations", action="store_true", help="one row per evaluation instead of one per run")


def opened(options: argparse.Namespace) -> Store:
    file = options.out / "runs.sqlite"
    if not file.is_file():
        raise InputError(f"there are no runs in {options.out}; holdfast run --out {options.out} makes some")
    store = Store(file)
    store.open()
    return store


def where(texts: Sequence[str]) -> dict[str, str]:
    """field=value,field=value"""
    pairs = [item.partition("=") for text in texts for item in text.split(",")]
    for field, equals, _ in pairs:
        if not field or not equals:
            raise InputError(f"--where {','.join(texts)}: write field=value,field=value")
    return {field: value for field, _, value in pairs}


def show_list(options: argparse.Namespace) -> int:
    store = opened(options)
    rows, damaged = store.sound_rows(where(options.where))
    rows = _ordered(rows, options.sort, options.limit)
    print(json.dumps(rows, indent=2) if options.json else listing(rows))
    if damaged:
        raise store.damage(damaged)
    return 0


def _ordered(rows: list[Record], by: str | None, limit: int | None) -> list[Record]:
    """Those without a value come last."""
    if limit is not None and limit < 1:
        raise InputError(f"--limit must be 1 or more, not {limit}")
    if by is not None:
        field, falling = by.removeprefix("-"), by.startswith("-")
        if field not in KINDS:
            raise UnknownName("field", field, KINDS)
        known = [row for row in rows if row.get(field) is not None]
        numbers = all(isinstance(row[field], int | float) for row in known)
        known.sort(key=lambda row: row[field] if numbers else str(row[field]), reverse=falling)
        rows = known + [row for row in rows if row.get(field) is None]
    return rows[:limit]


def show(options: argparse.Namespace) -> int:
    store = opened(options)
    record = store.record(_one(store, options.id))
    evaluations, *_ = more = [record.get(name) for name in LARGE]
    if not options.json:
        record = {name: value for name, value in record.items() if name not in LARGE}
    json.dump(record, sys.stdout, indent=2)
    print(flush=True)
    if not options.json and any(more):
        print(f"{len(evaluations or ())} evaluations and what it answered: --json", file=sys.stderr)
    return 0


def save(options: argparse.Namespace) -> int:
    store = opened(options)
    try:
        files.output(options.file, store.artifact(_one(store, options.id), "learner"))
    except UnknownName as error:
        raise InputError(f"{error}; holdfast run --keep-learners --fresh keeps it") from error
    return 0


def _one(store: Store, asked: str) -> str:
    """An id, also of the one run that has these values of fields."""
    if "=" not in asked:
        return asked
    found = [str(row["id"]) for row in store.rows(where([asked]))]
    if len(found) != 1:
        some = f": {', '.join(run[:8] for run in found[:5])}{', ...' if len(found) > 5 else ''}" if found else ""
        raise InputError(f"{len(found)} runs have {asked}{some}; say which one, as method=er-ace,seed=0")
    return found[0]


def remove(options: argparse.Namespace) -> int:
    opened(options).remove(options.ids)
    return 0


def export(options: argparse.Namespace) -> int:
    """Tables of one row a run or an evaluation for other programs, or whole records for another store."""
    if not (options.csv or options.parquet or options.json):
        raise InputError("say where to: --csv FILE, --parquet FILE or --json FILE")
    store = opened(options)
    runs = store.rows(where(options.where))
    rows = _evaluations(store, runs) if options.evaluations else [_flat(row) for row in runs]
    if options.csv:
        files.output(options.csv, _csv(rows))
    if options.parquet:
        files.output(options.parquet, _parquet(rows))
    if options.json:
        files.output(options.json, packed((store.record(row["id"]) for row in runs), options.json))
    return 0


def take_in(options: argparse.Namespace) -> int:
    """Records that another store has exported. What is here stays as it is, unless it is to be replaced."""
    records = [record for file in options.files for record in read(file)]
    store = Store(options.out / "runs.sqlite")
    store.open()
    counts = {"taken in": 0, "there already": 0, "other": 0}
    with store.together():
        there = set(store.status(record["id"] for record in records))
        for record in records:
            run = record["id"]
            unlike = difference(store.record(run), record) if run in there else None
            if unlike:
                counts["other"] += 1
                what = "replaced" if options.replace else "left as it is; --replace takes the other one"
                print(f"holdfast: {run} {record['title']} seed {record['seed']}: {unlike}, {what}", file=sys.stderr)
            elif run in there:
                counts["there already"] += 1
            else:
                counts["taken in"] += 1
            if run not in there or (unlike and options.replace):
                store.keep(run, record, record["status"], record["why"])
                there.add(run)
    others = f", {counts['other']} differ from those here" if counts["other"] else ""
    print(f"{counts['taken in']} runs taken in, {counts['there already']} were there already{others}")
    return 0


def _evaluations(store: Store, runs: Sequence[Record]) -> list[Record]:
    return [
        {"run": run["id"], "title": run["title"], "seed": run["seed"], **_flat(evaluation)}
        for run in runs
        for evaluation in store.record(run["id"])["evaluations"]
    ]


def _flat(row: Mapping[str, object]) -> Record:
    return {key: json.dumps(value) if isinstance(value, dict | list) else value for key, value in row.items()}


def _csv(rows: Sequence[Record]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, _columns(rows))
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue().encode()


def _cell(value: object) -> object:
    """Spreadsheets take text that begins like this for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def _parquet(rows: Sequence[Record]) -> bytes:
    if importlib.util.find_spec("pyarrow") is None:
        raise InputError("--parquet needs pyarrow: pip install 'holdfast[parquet]'")
    import pyarrow as pa
    from pyarrow import parquet

    content = pa.BufferOutputStream()
    parquet.write_table(pa.table({name: [row.get(name) for row in rows] for name in _columns(rows)}), content)
    return bytes(content.getvalue())


def _columns(rows: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(key for row in rows for key in row))
