"""Records of runs in one SQLite file. A record is there whole or not at all; several processes may write at a time."""

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import compress
from pathlib import Path
from typing import Any

from holdfast.errors import InputError, StoreError, UnknownName
from holdfast.runs.checksums import ROW, of_file, of_rows, of_run, parts_of, seal
from holdfast.runs.earlier import completed
from holdfast.runs.schema import FIELDS, MIGRATIONS, PARTS, SCHEMA, VERSION
from holdfast.runs.spec import LATER
from holdfast.runs.where import values
from holdfast.storage import files

Record = dict[str, Any]

SECONDS_TO_WAIT_FOR_OTHER_WRITERS = 60
NOT_IN_MORE = ("evaluations", "probes", "id", "status", "why", "finished")


class Store:
    def __init__(self, file: Path) -> None:
        self.file = file
        self._kept: sqlite3.Connection | None = None

    def open(self) -> None:
        """Makes the file if there is none, and brings an older one up to date."""
        files.make_folder(self.file.parent)
        with self._connected() as db:
            with _alone(db):
                if not _version(db):
                    _lay_out(db, self.file)
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
        kept_files = [(run, name, content) for name, content in (artifacts or {}).items()]
        evaluations = [
            (run, e["step"], e["seen"], e["aa"], _json(e["correct"]), _json(e["total"]), e.get("macs"))
            for e in record.get("evaluations", [])
        ]
        probes = [(run, p["name"], p["step"], _json(p["value"])) for p in record.get("probes", [])]
        with self._connected() as db, _alone(db):
            _delete(db, run)
            names, marks = ", ".join(row), ", ".join("?" * len(row))
            db.execute(f"INSERT INTO runs ({names}) VALUES ({marks})", [_plain(value) for value in row.values()])
            db.executemany("INSERT INTO evaluations VALUES (?, ?, ?, ?, ?, ?, ?)", evaluations)
            db.executemany("INSERT INTO probes VALUES (?, ?, ?, ?)", probes)
            db.executemany("INSERT INTO artifacts VALUES (?, ?, ?, NULL)", kept_files)
            seal(db, run)

    def status(self, runs: Iterable[str]) -> dict[str, str]:
        """What is there of these runs: done or failed."""
        asked = set(runs)
        with self._connected() as db:
            return {run: status for run, status in db.execute("SELECT id, status FROM runs") if run in asked}

    def record(self, run: str) -> Record:
        """A whole record, by its id or the beginning of it."""
        with self._connected() as db, _at_one_moment(db):
            run = self._full_id(db, run)
            row = db.execute(f"SELECT {ROW} FROM runs WHERE id = ?", (run,)).fetchone()
            evaluations, probes, kept_files = parts_of(db, run)
        parts_checksum = of_rows(evaluations, probes, kept_files)
        if row is None or of_run(row) != row["checksum"] or parts_checksum != row["parts_checksum"]:
            raise self.damage([run])
        measured = [{"name": p["name"], "step": p["step"], "value": json.loads(p["value"])} for p in probes]
        found = {"evaluations": [_evaluation(each) for each in evaluations], "probes": measured}
        return {**json.loads(row["more"]), **_fields(row), **found}

    def rows(self, where: Mapping[str, str] | None = None) -> list[Record]:
        """The fields of all records, oldest first; `where` says which values fields must have."""
        rows, damaged = self.sound_rows(where)
        if damaged:
            raise self.damage(damaged)
        return rows

    def sound_rows(self, where: Mapping[str, str] | None = None) -> tuple[list[Record], list[str]]:
        """As `rows`, without the records that are damaged; their ids."""
        wanted = values(where or {})
        with self._connected() as db:
            rows = db.execute(f"SELECT {ROW} FROM runs ORDER BY rowid").fetchall()
        is_sound = [of_run(row) == row["checksum"] for row in rows]
        sound = map(_fields, compress(rows, is_sound))
        found = [row for row in sound if all(row[name] == value for name, value in wanted.items())]
        return found, [row["id"] for row, fine in zip(rows, is_sound, strict=True) if not fine]

    def made(self, runs: Collection[str]) -> dict[str, Record]:
        """Under which conditions and in which precision these records were made, as far as they say it."""
        with self._connected() as db:
            rows = db.execute("SELECT id, more FROM runs").fetchall()
        more = {row["id"]: json.loads(row["more"] or "{}") for row in rows if row["id"] in runs}
        return {
            run: {"environment": each.get("environment", {}), "precision": each.get("precision", {}).get("name")}
            for run, each in more.items()
        }

    def artifact(self, run: str, name: str) -> bytes:
        with self._connected() as db, _at_one_moment(db):
            run = self._full_id(db, run)
            found = {row["name"]: row for row in db.execute("SELECT name FROM artifacts WHERE run = ?", (run,))}
            if name not in found:
                raise UnknownName(f"file of run {run[:8]}", name, found or ["none"])
            chosen = "SELECT content, checksum FROM artifacts WHERE run = ? AND name = ?"
            ((content, checksum),) = db.execute(chosen, (run, name))
        if of_file(run, name, content) != checksum:
            raise self.damage([run])
        return bytes(content)

    def remove(self, runs: Sequence[str]) -> None:
        with self._connected() as db, _alone(db):
            for run in [self._full_id(db, run) for run in runs]:
                if not _delete(db, run):
                    db.execute("REINDEX runs")
                    _delete(db, run)

    def _full_id(self, db: sqlite3.Connection, run: str) -> str:
        if not run:
            raise InputError("a run's id is empty; holdfast runs list shows them")
        if run.isascii() and db.execute("SELECT 1 FROM runs WHERE id = ?", (run,)).fetchone():
            return run
        known = [row["id"] for row in db.execute("SELECT id FROM runs NOT INDEXED")]  # an index may be damaged
        ids = [run] if run in known else [each for each in known if each.startswith(run)]
        if len(ids) == 1:
            return str(ids[0])
        if ids:
            raise InputError(f"{run} is the beginning of {len(ids)} runs: {', '.join(ids[:5])}")
        raise UnknownName("run", run, known)

    def damage(self, runs: Sequence[str]) -> StoreError:
        names = ", ".join(run if run.isalnum() else repr(run) for run in runs)
        return StoreError(
            f"{self.file} is damaged where it has {names}: holdfast runs rm removes what is damaged, "
            "and then it can be run again or imported from a copy"
        )

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
            self._check_not_emptied()
            wait = SECONDS_TO_WAIT_FOR_OTHER_WRITERS
            with closing(sqlite3.connect(self.file, timeout=wait, isolation_level=None)) as db:
                db.row_factory = sqlite3.Row
                db.execute("PRAGMA foreign_keys = ON")
                db.execute("PRAGMA synchronous = EXTRA")  # a kept record survives a power loss, without WAL as well
                db.text_factory = _text
                self._check_length(db)
                _bring_up_to_date(db, self.file)
                yield db
        except sqlite3.OperationalError as error:
            raise StoreError(f"{self.file} cannot be read or written: {error}") from error
        except (sqlite3.DatabaseError, UnicodeError) as error:  # damage may have made names what is no text
            raise StoreError(f"{self.file} is damaged or not a store of runs: {error}") from error

    def _check_not_emptied(self) -> None:
        """An empty file is what SQLite begins with, or what is left of a store, whose log SQLite would then drop."""
        if not self.file.is_file() or self.file.stat().st_size:
            return
        log, *others = Path(f"{self.file}-wal"), *map(self.file.with_suffix, (".snapshots", ".claims"))
        beside = [each.name for each in others if each.exists()]
        if beside or (log.exists() and log.stat().st_size):
            raise StoreError(
                f"{self.file} is empty, but {', '.join(beside) or log.name} beside it shows that there were runs: "
                "put a copy of it back, or remove it to begin anew"
            )

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


@contextmanager
def _at_one_moment(db: sqlite3.Connection) -> Iterator[None]:
    """What is read inside belongs together, whatever others write meanwhile."""
    if db.in_transaction:
        yield
        return
    db.execute("BEGIN")
    try:
        yield
    finally:
        db.execute("ROLLBACK")


def _version(db: sqlite3.Connection) -> int:
    """0 if there is nothing yet, or something else."""
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _bring_up_to_date(db: sqlite3.Connection, file: Path) -> None:
    if (version := _version(db)) > VERSION:
        raise StoreError(f"{file} was written by a newer holdfast (format {version}; this one knows {VERSION})")
    if version not in (0, VERSION):
        with _alone(db):
            for step in range(_version(db), VERSION):
                _run_script(db, MIGRATIONS[step] + f"PRAGMA user_version = {step + 1};")
                if step == 1:
                    for (run,) in db.execute("SELECT id FROM runs").fetchall():
                        seal(db, run)


def _lay_out(db: sqlite3.Connection, file: Path) -> None:
    if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise StoreError(f"{file} is not a store of runs but another SQLite database")
    _run_script(db, SCHEMA)


def _delete(db: sqlite3.Connection, run: str) -> bool:
    """Whether it was there. What belongs to it goes too, even if damage has left it behind."""
    name = (run.encode(errors="surrogateescape"),)  # as damage may have left it
    for table in PARTS:
        db.execute(f"DELETE FROM {table} WHERE run = CAST(? AS TEXT)", name)
    return bool(db.execute("DELETE FROM runs WHERE id = CAST(? AS TEXT)", name).rowcount)


def _text(content: bytes) -> str:
    """A damaged text is noticed by its checksum: reading it must not keep others from being read."""
    return content.decode(errors="surrogateescape")


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
    fields = {name: row[name] for name in ("id", "status", "why", "finished", *FIELDS)}
    fields["options"] = json.loads(fields["options"] or "{}")
    fields["probe"] = json.loads(fields["probe"] or "[]")
    fields["augment"] = bool(fields["augment"])
    more = json.loads(row["more"] or "{}")
    later = {name: more.get(name, value) for name, value in LATER.items()}
    usual = {"usual": more["usual"]} if "usual" in more else {}  # not in records from before methods had a say
    return completed({**fields, **later, **usual})


def _evaluation(row: sqlite3.Row) -> Record:
    counts = {"correct": json.loads(row["correct"]), "total": json.loads(row["total"])}
    return {"step": row["step"], "seen": row["seen"], "aa": row["aa"], **counts, "macs": row["macs"]}
