"""Records of runs in one SQLite file. A record is there whole or not at all; several processes may write at a time."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from holdfast import files
from holdfast.errors import InputError, StoreError, UnknownName

Record = dict[str, Any]

VERSION = 1
SECONDS_TO_WAIT_FOR_OTHER_WRITERS = 60
FIELDS = {
    "title": "TEXT", "stream": "TEXT", "method": "TEXT", "options": "JSON", "memory": "INTEGER", "seed": "INTEGER",
    "lr": "REAL", "augment": "INTEGER", "net": "TEXT", "start": "TEXT", "probe": "JSON",
    "eval_every": "INTEGER", "eval_mode": "TEXT",
    "acc": "REAL", "aaa": "REAL", "forgetting": "REAL", "train_macs": "INTEGER", "eval_macs": "INTEGER",
    "memory_bytes": "REAL", "seconds": "REAL", "train_seconds": "REAL", "updates": "INTEGER",
    "fast_path_agreement": "REAL", "code": "TEXT", "command": "TEXT",
}  # fmt: skip
SCHEMA = f"""
CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    status TEXT NOT NULL CHECK (status IN ('done', 'failed')),
    why TEXT,
    finished TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    {", ".join(f"{name} {kind}" for name, kind in FIELDS.items())},
    more JSON
);
CREATE TABLE evaluations (
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    step INTEGER NOT NULL, seen INTEGER NOT NULL, aa REAL NOT NULL, correct JSON NOT NULL, total JSON NOT NULL,
    macs INTEGER,
    PRIMARY KEY (run, step)
) WITHOUT ROWID;
CREATE TABLE probes (
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    name TEXT NOT NULL, step INTEGER NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (run, name, step)
) WITHOUT ROWID;
CREATE TABLE artifacts (
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    name TEXT NOT NULL, content BLOB NOT NULL,
    PRIMARY KEY (run, name)
);
PRAGMA user_version = {VERSION};
"""
NOT_IN_MORE = ("evaluations", "probes", "id", "status", "why", "finished")
MIGRATIONS: dict[int, str] = {}  # from a version to the next


class Store:
    def __init__(self, file: Path) -> None:
        self.file = file
        self._kept: sqlite3.Connection | None = None

    def open(self) -> None:
        """Makes the file if there is none, and brings an older one up to date."""
        files.make_folder(self.file.parent)
        with self._connected() as db:
            with _alone(db):
                _bring_up_to_date(db, self.file)
            db.execute("PRAGMA journal_mode = WAL")

    def keep(
        self,
        run: str,
        record: Record,
        status: str = "done",
        why: str | None = None,
        artifacts: Mapping[str, bytes] | None = None,
    ) -> None:
        """Puts a record, and files that belong to it, in the place of an earlier one of the same run."""
        fields = {name: record.get(name) for name in FIELDS}
        more = {k: v for k, v in record.items() if k not in FIELDS and k not in NOT_IN_MORE}
        row = {"id": run, "status": status, "why": why, **fields, "more": more}
        if record.get("finished"):  # in another store
            row["finished"] = record["finished"]
        evaluations = [
            (run, e["step"], e["seen"], e["aa"], _json(e["correct"]), _json(e["total"]), e.get("macs"))
            for e in record.get("evaluations", [])
        ]
        probes = [(run, p["name"], p["step"], _json(p["value"])) for p in record.get("probes", [])]
        with self._connected() as db, _alone(db):
            db.execute("DELETE FROM runs WHERE id = ?", (run,))
            names, marks = ", ".join(row), ", ".join("?" * len(row))
            db.execute(f"INSERT INTO runs ({names}) VALUES ({marks})", [_plain(value) for value in row.values()])
            db.executemany("INSERT INTO evaluations VALUES (?, ?, ?, ?, ?, ?, ?)", evaluations)
            db.executemany("INSERT INTO probes VALUES (?, ?, ?, ?)", probes)
            db.executemany(
                "INSERT INTO artifacts VALUES (?, ?, ?)", [(run, *item) for item in (artifacts or {}).items()]
            )

    def status(self, runs: Iterable[str]) -> dict[str, str]:
        """What is there of these runs: done or failed."""
        asked = set(runs)
        with self._connected() as db:
            return {run: status for run, status in db.execute("SELECT id, status FROM runs") if run in asked}

    def record(self, run: str) -> Record:
        """A whole record, by its id or the beginning of it."""
        with self._connected() as db:
            (row,) = db.execute("SELECT * FROM runs WHERE id = ?", (self._full_id(db, run),))
            found = {**json.loads(row["more"]), **_fields(row)}
            rows = db.execute("SELECT * FROM evaluations WHERE run = ? ORDER BY step", (found["id"],))
            evaluations = [_evaluation(row) for row in rows]
            rows = db.execute("SELECT * FROM probes WHERE run = ? ORDER BY name, step", (found["id"],))
            probes = [{"name": row["name"], "step": row["step"], "value": json.loads(row["value"])} for row in rows]
            return found | {"evaluations": evaluations, "probes": probes}

    def rows(self, where: Mapping[str, str] | None = None) -> list[Record]:
        """The fields of all records, oldest first; `where` says which values fields must have."""
        known = ["id", "status", *FIELDS]
        for name in where or {}:
            if name not in known:
                raise UnknownName("field", name, known)
        condition = " AND ".join(f"CAST({name} AS TEXT) = ?" for name in where or {}) or "1"
        with self._connected() as db:
            shown = ", ".join([*known, "why", "finished"])
            rows = db.execute(
                f"SELECT {shown} FROM runs WHERE {condition} ORDER BY rowid", list((where or {}).values())
            )
            return [_fields(row) for row in rows]

    def artifact(self, run: str, name: str) -> bytes:
        with self._connected() as db:
            run = self._full_id(db, run)
            found = {row["name"]: row for row in db.execute("SELECT name FROM artifacts WHERE run = ?", (run,))}
            if name not in found:
                raise UnknownName(f"file of run {run[:8]}", name, found or ["none"])
            (row,) = db.execute("SELECT content FROM artifacts WHERE run = ? AND name = ?", (run, name))
            return bytes(row["content"])

    def remove(self, runs: Sequence[str]) -> None:
        with self._connected() as db, _alone(db):
            ids = [self._full_id(db, run) for run in runs]
            db.executemany("DELETE FROM runs WHERE id = ?", [(run,) for run in ids])

    def _full_id(self, db: sqlite3.Connection, run: str) -> str:
        ids = [row["id"] for row in db.execute("SELECT id FROM runs WHERE substr(id, 1, ?) = ?", (len(run), run))]
        if len(ids) == 1 or run in ids:
            return run if run in ids else str(ids[0])
        if ids:
            raise InputError(f"{run} is the beginning of {len(ids)} runs: {', '.join(ids[:5])}")
        raise UnknownName("run", run, [row["id"] for row in db.execute("SELECT id FROM runs")])

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is kept inside is on the disk when this ends: all of it or nothing."""
        with self.kept_open(), self._connected() as db, _alone(db):
            yield

    @contextmanager
    def kept_open(self) -> Iterator[None]:
        """For many records in a row: opening and closing the file costs more than one of them."""
        with self._connected() as db:
            before, self._kept = self._kept, db
            try:
                yield
            finally:
                self._kept = before

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        try:
            if self._kept is not None:
                yield self._kept
                return
            wait = SECONDS_TO_WAIT_FOR_OTHER_WRITERS
            with closing(sqlite3.connect(self.file, timeout=wait, isolation_level=None)) as db:
                db.row_factory = sqlite3.Row
                db.execute("PRAGMA foreign_keys = ON")
                db.execute("PRAGMA synchronous = EXTRA")  # a kept record survives a power loss, without WAL as well
                self._check_length(db)
                yield db
        except sqlite3.OperationalError as error:
            raise StoreError(f"{self.file} cannot be read or written: {error}") from error
        except sqlite3.DatabaseError as error:
            raise StoreError(f"{self.file} is damaged or not a store of runs: {error}") from error

    def _check_length(self, db: sqlite3.Connection) -> None:
        """SQLite takes the missing end of a last page for zeros. That is right only with a log that has the page."""
        (page,) = db.execute("PRAGMA page_size").fetchone()
        logs = Path(f"{self.file}-wal"), Path(f"{self.file}-journal")
        if self.file.stat().st_size % page and not any(log.exists() and log.stat().st_size for log in logs):
            raise StoreError(f"{self.file} is damaged or not a store of runs: it ends in the middle of a page")


@contextmanager
def _alone(db: sqlite3.Connection) -> Iterator[None]:
    """Everything inside happens or nothing, with no other writer in between. What is inside another belongs to it."""
    inside = db.in_transaction
    if inside:
        yield
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # SQLite ends it by itself when the disk is full
            db.execute("ROLLBACK")
        raise


def _bring_up_to_date(db: sqlite3.Connection, file: Path) -> None:
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        raise StoreError(f"{file} was written by a newer holdfast (format {version}; this one knows {VERSION})")
    if version == 0:
        if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise StoreError(f"{file} is not a store of runs but another SQLite database")
        _run_script(db, SCHEMA)
    for step in range(max(version, 1), VERSION):
        _run_script(db, MIGRATIONS[step] + f"PRAGMA user_version = {step + 1};")


def _run_script(db: sqlite3.Connection, script: str) -> None:
    """Statement by statement: executescript would end the transaction."""
    for statement in script.split(";"):
        if statement.strip():
            db.execute(statement)


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def _plain(value: object) -> Any:
    return _json(value) if isinstance(value, dict | list | tuple) else value


def _fields(row: sqlite3.Row) -> Record:
    values = dict(row)
    values.pop("more", None)
    values["options"] = json.loads(values["options"] or "{}")
    values["probe"] = json.loads(values["probe"] or "[]")
    values["augment"] = bool(values["augment"])
    return values


def _evaluation(row: sqlite3.Row) -> Record:
    return {
        "step": row["step"],
        "seen": row["seen"],
        "aa": row["aa"],
        "correct": json.loads(row["correct"]),
        "total": json.loads(row["total"]),
        "macs": row["macs"],
    }
