"""The two kinds of storage, and what is done to them."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import torch

from holdfast.runs.schema import FIELDS
from holdfast.runs.store import Record, Store
from holdfast.storage import checkpoint, files
from reliability.stage import Scenario, State, Storage


def scenarios(effort: int) -> list[Scenario]:
    evaluations = min(4 * effort, 100)

    def keep(folder: Path, run: str, number: int) -> None:
        store(folder).keep(run, record(number, evaluations))

    def fill(folder: Path) -> None:
        store(folder).open()
        for number in range(3):
            keep(folder, f"old{number}", number)

    def make(folder: Path) -> Iterator[None]:
        store(folder).open()
        yield
        keep(folder, "first", 0)
        yield

    def change(folder: Path) -> Iterator[None]:
        """The log is moved into the file after each step."""
        keep(folder, "new", 10)
        yield
        keep(folder, "old1", 11)
        yield
        store(folder).remove(["old0", "new"])
        yield

    def change_beside_a_reader(folder: Path) -> Iterator[None]:
        """The log grows, is moved into the file, starts again and is moved at the end."""
        with closing(sqlite3.connect(file_of(folder))) as reader:
            with suppress(sqlite3.Error):  # the reader may fail, the store may not
                reader.execute("SELECT count(*) FROM runs").fetchall()
            yield from change(folder)
            with suppress(sqlite3.Error):
                reader.execute("PRAGMA wal_checkpoint")
            keep(folder, "old1", 12)
            yield
            keep(folder, "newer", 13)
            yield

    return [
        Scenario("a checkpoint over an older one", CHECKPOINT, lambda folder: save(folder, 0), save_twice),
        Scenario("a new store", STORE, lambda folder: None, make),
        Scenario("a store", STORE, fill, change),
        Scenario("a store that is also read", STORE, fill, change_beside_a_reader),
    ]


def save(folder: Path, number: int) -> None:
    files.write(folder / "learner", checkpoint.pack({"weights": torch.full((500,), number)}, {"number": number}))


def save_twice(folder: Path) -> Iterator[None]:
    for number in (1, 2):
        save(folder, number)
        yield


def load(folder: Path) -> State:
    tensors, manifest = checkpoint.read(folder / "learner")
    return manifest["number"], tensors["weights"].tolist()


def save_once_more(folder: Path, _: State) -> bool:
    save(folder, 3)
    return bool(load(folder)[0] == 3)


def file_of(folder: Path) -> Path:
    return folder / "runs" / "runs.sqlite"


def store(folder: Path) -> Store:
    return Store(file_of(folder))


def record(number: int, evaluations: int) -> Record:
    return {
        "title": f"run {number}",
        "options": {"number": number},
        "seed": number,
        "acc": number / 7,
        "tasks": [[number, 1], [2]],
        "evaluations": [
            {
                "step": step,
                "seen": 10 * step,
                "aa": step / 7,
                "correct": [number, *range(20)],
                "total": [50] * 21,
                "macs": number,
            }
            for step in range(evaluations)
        ],
    }


def records(folder: Path) -> State:
    """Everything in a store that is made or opened as commands do it, but for the moment each run was kept at."""
    store(folder).open()
    with closing(sqlite3.connect(file_of(folder))) as db:
        flaws = db.execute("PRAGMA integrity_check").fetchall() + db.execute("PRAGMA foreign_key_check").fetchall()
        if flaws != [("ok",)]:
            raise AssertionError(f"SQLite says {flaws}")
        names = ", ".join(["id", "status", "why", "more", *FIELDS])
        runs = db.execute(f"SELECT {names} FROM runs ORDER BY id").fetchall()
        return runs, db.execute("SELECT * FROM evaluations ORDER BY run, step").fetchall()


def keep_once_more(folder: Path, before: State) -> bool:
    store(folder).keep("next", record(99, 1))
    found = store(folder).record("next")
    store(folder).remove(["next"])
    return all(found[name] == value for name, value in record(99, 1).items()) and records(folder) == before


CHECKPOINT = Storage(load, save_once_more)
STORE = Storage(records, keep_once_more)
