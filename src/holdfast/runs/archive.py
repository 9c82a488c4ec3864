"""`holdfast runs`: what is in a store."""

import argparse
import csv
import importlib.util
import io
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast import files
from holdfast.errors import InputError, UnknownName
from holdfast.report.tables import listing
from holdfast.runs.spec import RunSpec
from holdfast.runs.store import Record, Store


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
    rows = opened(options).rows(where(options.where))
    print(listing(rows))
    return 0


def show(options: argparse.Namespace) -> int:
    record = opened(options).record(options.id)
    evaluations = record.pop("evaluations")
    json.dump(record, sys.stdout, indent=2)
    print(f"\n{len(evaluations)} evaluations; holdfast runs export --evaluations has them")
    return 0


def save(options: argparse.Namespace) -> int:
    store = opened(options)
    try:
        files.output(options.file, store.artifact(options.id, "learner"))
    except UnknownName as error:
        raise InputError(f"{error}; holdfast run --keep-learners --fresh keeps it") from error
    return 0


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
        records = [store.record(row["id"]) for row in runs]
        files.output(options.json, ("[" + ",\n".join(map(json.dumps, records)) + "]\n").encode())
    return 0


def take_in(options: argparse.Namespace) -> int:
    """Records that another store has exported. What is here already stays as it is."""
    records = [record for file in options.files for record in _exported(file)]
    store = Store(options.out / "runs.sqlite")
    store.open()
    there = store.status(record["id"] for record in records)
    new = {record["id"]: record for record in records if record["id"] not in there}
    for run, record in new.items():
        store.keep(run, record, record["status"], record["why"])
    print(f"{len(new)} runs taken in, {len(records) - len(new)} were there already")
    return 0


def _exported(file: Path) -> list[Record]:
    try:
        records = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be read: {error}") from error
    needed = {"id", "status", "why", "title", "evaluations", *RunSpec.__slots__}
    listed: list[Any] = records if isinstance(records, list) else [None]
    if not all(isinstance(record, dict) and needed <= set(record) for record in records):
        raise InputError(f"{file} holds no records of runs; holdfast runs export --json makes such files")
    return listed


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
    writer.writerows(rows)
    return text.getvalue().encode()


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
