import multiprocessing
import random
import shutil
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from holdfast.errors import InputError, StoreError, UnknownName
from holdfast.runs import schema
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


@pytest.mark.parametrize("odd", ["a\0b", "\0", "é", " ", "%"])
def test_odd_ids_are_ids(store: Store, odd: str) -> None:
    """Earlier versions took them in with what was imported."""
    for run in (odd, f"{odd}more", "abc1"):
        store.keep(run, record())
    assert [store.record(row["id"])["id"] for row in store.rows()] == [odd, f"{odd}more", "abc1"]
    store.remove([odd])
    assert len(store.rows()) == 2


def test_filters(store: Store) -> None:
    for seed in range(3):
        store.keep(f"a{seed}", record(seed))
        store.keep(f"b{seed}", record(seed, "er-ace"))
    assert [row["id"] for row in store.rows({"method": "er-ace", "seed": "1"})] == ["b1"]
    everything = ["a0", "b0", "a1", "b1", "a2", "b2"]
    for same in (
        {"lr": "0.1"},
        {"lr": "0.10"},
        {"augment": "false"},
        {"augment": "0"},
        {"net": "none"},
        {"memory": "05"},
    ):
        assert [row["id"] for row in store.rows(same)] == everything
    assert len(store.rows({"options": '{"head": "linear"}'})) == 6
    assert (
        store.rows({"augment": "True"})
        == store.rows({"net": "mlp"})
        == store.rows({"seed": "99999999999999999999"})
        == []
    )
    with pytest.raises(UnknownName, match="did you mean 'method'"):
        store.rows({"methods": "er"})


WHERE_NOT = [("augment", "yes"), ("lr", "0,1"), ("lr", "nan"), ("seed", "first"), ("memory", "5.5"), ("probe", "drift")]


@pytest.mark.parametrize(("field", "value"), WHERE_NOT)
def test_values_that_a_field_cannot_have(store: Store, field: str, value: str) -> None:
    with pytest.raises(InputError, match=f"{field} is .*, not '{value}'"):
        store.rows({field: value})


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


@pytest.mark.slow
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


@pytest.mark.slow
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
        patch.object(module, "VERSION", 3),
        patch.dict(schema.MIGRATIONS, {2: "ALTER TABLE runs ADD COLUMN note TEXT;"}),
    ):
        store.open()
        store.open()
        assert store.record("run0")["seed"] == 0
    with pytest.raises(StoreError, match="newer holdfast"):
        store.open()


CHANGES = [
    "UPDATE runs SET acc = acc + 0.01 WHERE id = 'run1'",
    "UPDATE runs SET more = replace(more, '2', '3') WHERE id = 'run1'",
    "UPDATE runs SET finished = '2001-01-01 00:00:00' WHERE id = 'run1'",
    "UPDATE evaluations SET correct = '[9,0]' WHERE run = 'run1' AND step = 10",
    "DELETE FROM evaluations WHERE run = 'run1' AND step = 20",
    "UPDATE probes SET value = '0.5' WHERE run = 'run1'",
    "UPDATE artifacts SET content = X'00' WHERE run = 'run1'",
    "DELETE FROM artifacts WHERE run = 'run1'",
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_record_that_was_changed_is_noticed_and_the_others_are_not_concerned(store: Store, change: str) -> None:
    probes = [{"name": "drift", "step": 10, "value": 0.25}]
    for number in range(3):
        store.keep(f"run{number}", {**record(number), "probes": probes}, artifacts={"learner": b"weights"})
    with sqlite3.connect(store.file) as db:
        db.execute(change)
    db.close()

    def everything() -> None:
        store.rows()
        store.record("run1")
        store.artifact("run1", "learner")

    with pytest.raises(StoreError, match="damaged where it has run1: holdfast runs rm"):
        everything()
    for other in (0, 2):
        assert store.record(f"run{other}")["seed"] == other and store.artifact(f"run{other}", "learner") == b"weights"
    store.remove(["run1"])
    store.keep("run1", record(1), artifacts={"learner": b"weights"})
    everything()


@pytest.mark.slow
def test_a_flipped_bit_changes_no_number(store: Store) -> None:
    """What is read is right or refused; what is named as damaged can be removed and kept anew."""
    rng = random.Random(0)
    ids = [f"{number:016x}" for number in range(3)]
    for number, run in enumerate(ids):
        store.keep(run, record(number, evaluations=20), artifacts={"learner": rng.randbytes(500)})
    whole, rows = store.file.read_bytes(), store.rows()
    right = {run: store.record(run) for run in ids}
    refused = 0
    for _ in range(300):
        content = bytearray(whole)
        content[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        store.file.write_bytes(content)
        damaged: list[str] = []
        with suppress(StoreError):
            sound, damaged = store.sound_rows()
            assert all(row in rows for row in sound) and len(sound) + len(damaged) == 3
        for run in ids:
            try:
                assert store.record(run) == right[run]
            except StoreError:
                refused += 1
        if damaged:
            store.remove(damaged)
            for run in set(ids) - {row["id"] for row in store.rows()}:
                store.keep(run, right[run])
            assert len(store.rows()) == 3
    assert refused > 10


def test_what_an_older_version_kept_is_sealed_when_it_is_first_read(tmp_path: Path) -> None:
    file = tmp_path / "runs.sqlite"
    shutil.copy(Path(__file__).parents[1] / "releases" / "0.1.0" / "runs.sqlite", file)
    run, *_ = (row["id"] for row in Store(file).rows())
    assert Store(file).record(run)["status"] == "done"
    with sqlite3.connect(file) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (2,)
        db.execute("UPDATE runs SET acc = 1 WHERE id = ?", (run,))
    db.close()
    with pytest.raises(StoreError, match=run):
        Store(file).rows()


@pytest.mark.parametrize("beside", ["runs.claims", "runs.snapshots", "runs.sqlite-wal"])
def test_a_store_that_was_emptied_is_not_taken_for_a_new_one(beside: str, tmp_path: Path) -> None:
    store = Store(tmp_path / "runs.sqlite")
    store.file.touch()
    store.open()  # a process was killed when it had just made the file
    store.file.write_bytes(b"")
    (tmp_path / beside).write_bytes(b"something")
    for read in (store.open, store.rows):
        with pytest.raises(StoreError, match=f"is empty, but {beside} beside it shows .* remove it to begin anew"):
            read()
    assert (tmp_path / beside).read_bytes() == b"something" and store.file.stat().st_size == 0
    store.file.unlink()
    (tmp_path / "runs.sqlite-wal").unlink(missing_ok=True)
    store.open()
    assert store.rows() == []


def replace_again_and_again(file: Path, until: Path) -> None:
    while not until.exists():
        for evaluations in (3, 300):
            Store(file).keep("run0", record(evaluations=evaluations))


def test_a_record_that_is_being_replaced_is_read_whole(store: Store, tmp_path: Path) -> None:
    store.keep("run0", record())
    until = tmp_path / "until"
    writer = multiprocessing.get_context("forkserver").Process(target=replace_again_and_again, args=(store.file, until))
    writer.start()
    try:
        read = [len(store.record("run0")["evaluations"]) for _ in range(300)]
        while len(set(read)) == 1 and writer.is_alive():
            read.append(len(store.record("run0")["evaluations"]))
    finally:
        until.touch()
        writer.join()
    assert set(read) == {3, 300}
