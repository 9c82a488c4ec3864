"""Checksums of what a store holds, taken of the values that SQLite gives back.

The one of a run's row covers all its fields and, through `parts_checksum`, its evaluations, probes and files.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterable

from holdfast.runs.schema import FIELDS

ROW = ", ".join(["id", "status", "why", "finished", *FIELDS, "more", "parts_checksum", "checksum"])
PARTS = (
    "SELECT step, seen, aa, correct, total, macs FROM evaluations WHERE run = ? ORDER BY step",
    "SELECT name, step, value FROM probes WHERE run = ? ORDER BY name, step",
    "SELECT name, checksum FROM artifacts WHERE run = ? ORDER BY name",
)


def seal(db: sqlite3.Connection, run: str) -> None:
    """Writes down the checksums of what is there of a run."""
    for name, content in db.execute("SELECT name, content FROM artifacts WHERE run = ?", (run,)).fetchall():
        checksum = of_file(run, name, content)
        db.execute("UPDATE artifacts SET checksum = ? WHERE run = ? AND name = ?", (checksum, run, name))
    db.execute("UPDATE runs SET parts_checksum = ? WHERE id = ?", (of_rows(*parts_of(db, run)), run))
    (row,) = db.execute(f"SELECT {ROW} FROM runs WHERE id = ?", (run,))
    db.execute("UPDATE runs SET checksum = ? WHERE id = ?", (of_run(row), run))


def parts_of(db: sqlite3.Connection, run: str) -> list[list[sqlite3.Row]]:
    """Evaluations, probes, and which files there are."""
    return [db.execute(part, (run,)).fetchall() for part in PARTS]


def of_run(row: sqlite3.Row) -> str:
    """`row`: as ROW has it."""
    return of_rows([tuple(row)[:-1]])


def of_rows(*tables: Iterable[Iterable[object]]) -> str:
    rows = [[tuple(row) for row in table] for table in tables]
    return hashlib.blake2b(json.dumps(rows, default=repr).encode(), digest_size=16).hexdigest()


def of_file(run: str, name: str, content: object) -> str:
    found = content if isinstance(content, bytes) else repr(content).encode()  # which only damage can do
    return hashlib.blake2b(json.dumps([run, name]).encode() + found, digest_size=16).hexdigest()
