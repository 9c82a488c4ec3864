import multiprocessing
import shutil
import sqlite3
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from holdfast.errors import InputError, StoreError, UnknownName
from holdfast.runs import store as module
from holdfast.runs.store import Store


def record(seed: int = 0, method: str = "er", evaluations: int = 3) -> dict[str, Any]:
    return {
        "title": method, "stream": "fashion", "method": method, "options": {"head": "linear"}, "memory": 5,
        "seed": seed, "lr": 0.1, "augment": False, "net": None, "eval_every": 10, "eval_mode": "exact",
        "acc": 0.1 + seed, "aaa": 1 / 3, "forgetting": None, "train_macs": 10**13, "eval_macs": 7, "memory_bytes": 5.5,
        "seconds": 1.25,
        "train_seconds": 1.0, "updates": 30, "code": "c0de", "command": "holdfast run", "tasks": [[0, 1], [2]],
        "evaluations": [
            {"step": 10 * i, "seen": 9 * i, "aa": i / 7, "correct": [i, 0], "total": [9, 9], "macs": 7 * i}
            for i in range(evaluations)
        ],
    }  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "new" / "runs.sqlite")
    store.open()
    return store


def test_a_record_comes_back_as_it_was(store: Store) -> None:
    store.keep("abc1", record(2))
    found = store.record("abc1")
    assert {key: found[key] for key in record(2)} == record(2)
    assert found["id"] == "abc1" and found["status"] == "done"


def test_keeping_again_replaces(store: Store) -> None:
    store.keep("abc1", record(evaluations=5), status="failed", why="as it must")
    assert store.record("abc1")["why"] == "as it must"
    store.keep("abc1", record(evaluations=2))
    assert len(store.record("abc1")["evaluations"]) == 2
    assert store.status(["abc1", "other"]) == {"abc1": "done"}


def _keep_and_fail(store: Store) -> None:
    with store.together():
        store.keep("run2", record())
        raise KeyError


def test_what_is_kept_together_is_there_at_the_end_or_not_at_all(store: Store) -> None:
    with store.kept_open(), store.together():
        store.keep("run0", record())
        store.keep("run1", record())
        assert Store(store.file).rows() == []
    assert len(Store(store.file).rows()) == 2
    with pytest.raises(KeyError):
        _keep_and_fail(store)
    store.keep("run3", record())
    assert [row["id"] for row in store.rows()] == ["run0", "run1", "run3"]


def test_runs_are_found_by_the_beginning_of_their_id(store: Store) -> None:
    for run in ("abc1", "abd2"):
        store.keep(run, record())
    assert store.record("abd")["id"] == "abd2"
    with pytest.raises(InputError, match="beginning of 2 runs: abc1, abd2"):
        store.record("ab")
    with pytest.raises(UnknownName, match="did you mean 'abc1'"):
        store.record("abc3")


def test_filters(store: Store) -> None:
    for seed in range(3):
        store.keep(f"a{seed}", record(seed))
        store.keep(f"b{seed}", record(seed, "er-ace"))
    assert [row["id"] for row in store.rows({"method": "er-ace", "seed": "1"})] == ["b1"]
    assert [row["id"] for row in store.rows({"lr": "0.1"})] == ["a0", "b0", "a1", "b1", "a2", "b2"]
    with pytest.raises(UnknownName, match="did you mean 'method'"):
        store.rows({"methods": "er"})


def test_removing(store: Store) -> None:
    for run in ("abc1", "abd2"):
        store.keep(run, record())
    with pytest.raises(UnknownName):
        store.remove(["abc", "nope"])
    assert len(store.rows()) == 2
    store.remove(["abc"])
    assert [row["id"] for row in store.rows()] == ["abd2"]
    with sqlite3.connect(store.file) as db:
        assert db.execute("SELECT DISTINCT run FROM evaluations").fetchall() == [("abd2",)]
    db.close()


def write_many(file: Path, writer: int) -> None:
    for number in range(15):
        Store(file).keep(f"{writer}-{number}", record(number))


def test_several_processes_write_at_a_time_and_nothing_is_lost(store: Store) -> None:
    context = multiprocessing.get_context("forkserver")
    writers = [context.Process(target=write_many, args=(store.file, writer)) for writer in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * 4
    assert {row["id"] for row in store.rows()} == {f"{w}-{n}" for w in range(4) for n in range(15)}
    assert all(len(store.record(row["id"])["evaluations"]) == 3 for row in store.rows())


def test_a_log_cut_anywhere_leaves_whole_records_and_a_store_that_goes_on(store: Store, tmp_path: Path) -> None:
    """What a power loss leaves of the write-ahead log: a beginning of it."""
    reader = sqlite3.connect(store.file)
    reader.execute("SELECT count(*) FROM runs").fetchall()  # keeps the log from being merged into the file
    for number in range(3):
        store.keep(f"run{number}", record(number))
    log = Path(f"{store.file}-wal").read_bytes()
    counts = []
    for cut in [*range(0, len(log), 97), len(log)]:
        copy = tmp_path / "cut.sqlite"
        shutil.copy(store.file, copy)
        Path(f"{copy}-wal").write_bytes(log[:cut])
        Path(f"{copy}-shm").unlink(missing_ok=True)
        after = Store(copy)
        after.open()
        rows = after.rows()
        assert [row["id"] for row in rows] == [f"run{number}" for number in range(len(rows))]
        assert all(len(after.record(row["id"])["evaluations"]) == 3 for row in rows)
        after.keep("next", record())
        assert after.record("next")["seed"] == 0
        counts.append(len(rows))
    reader.close()
    assert counts == sorted(counts) and counts[0] == 0 and counts[-1] == 3


def test_a_full_disk_is_an_error_and_changes_nothing(store: Store) -> None:
    store.keep("run0", record())
    with patch.object(module, "_json", side_effect=OSError(28, "No space left on device")), pytest.raises(OSError):
        store.keep("run0", record(7))
    assert store.record("run0")["seed"] == 0


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    text, other = tmp_path / "text", tmp_path / "other.sqlite"
    text.write_text("no database at all, " * 100)
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE things (x)")
    db.close()
    for file in (text, other):
        before = file.read_bytes()
        with pytest.raises(StoreError, match="not a store of runs"):
            Store(file).open()
        assert file.read_bytes() == before
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be read or written"):
        Store(tmp_path / "file" / "runs.sqlite").open()


def test_older_stores_are_brought_up_to_date_and_newer_ones_refused(store: Store) -> None:
    store.keep("run0", record())
    with (
        patch.object(module, "VERSION", 2),
        patch.dict(module.MIGRATIONS, {1: "ALTER TABLE runs ADD COLUMN note TEXT;"}),
    ):
        store.open()
        store.open()
        assert store.record("run0")["note"] is None
    with pytest.raises(StoreError, match="newer holdfast"):
        store.open()
