"""Files that end where they should not."""

import sqlite3
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.errors import CheckpointError, HoldfastError
from holdfast.runs.store import Store
from reliability.disk import FaultyDisk
from reliability.outcome import counted
from reliability.scenarios import STORE, file_of, load, record, records, save, store
from reliability.stage import contents, put_back

PAGE = 4096


def kept(store: Store) -> object:
    store.keep("next", record(9, 1))
    return store.record("next")["evaluations"]


def left(store: Store) -> object:
    store.remove(["run1"])
    return store.status(["run0", "run1"])


COMMANDS: Mapping[str, Callable[[Store], object]] = {
    "open": lambda store: store.open(),
    "rows": lambda store: store.rows(),
    "status": lambda store: store.status(["run0", "run1"]),
    "record": lambda store: [store.record(row["id"]) for row in store.rows()],
    "keep": kept,
    "remove": left,
}


@counted
def cut_at_every_byte(effort: int) -> Iterator[str | None]:
    """Of a log, all complete records are there, and writing goes on. Of other files, it is noticed."""
    for trials in (
        cut_log(effort),
        cut_store(effort, runs=3, evaluations=12),  # ends with evaluations
        cut_store(effort, runs=40, evaluations=0),  # ends with runs
        cut_checkpoint(effort),
    ):
        yield from trials


def cut_log(effort: int) -> Iterator[str | None]:
    with TemporaryDirectory() as name:
        folder = Path(name)
        log = Path(f"{file_of(folder)}-wal")
        with FaultyDisk(folder):
            states, ends = [records(folder)], []
            with closing(sqlite3.connect(file_of(folder))) as reader:
                reader.execute("SELECT count(*) FROM runs").fetchall()  # keeps the log from being moved into the file
                for number in range(3):
                    store(folder).keep(f"run{number}", record(number, 4))
                    states.append(records(folder))
                    ends.append(log.stat().st_size)
                whole = contents(folder)
        for cut in cuts(len(whole[log]), 200 * effort):
            put_back(folder, whole | {log: whole[log][:cut]})
            flaw = STORE.flaw(folder, [states[bisect_right(ends, cut)]])
            yield f"log cut at byte {cut}: {flaw}" if flaw else None


def cut_store(effort: int, runs: int, evaluations: int) -> Iterator[str | None]:
    with TemporaryDirectory() as name:
        folder = Path(name)
        file = file_of(folder)
        with FaultyDisk(folder):
            store(folder).open()
            for number in range(runs):
                store(folder).keep(f"run{number}", record(number, evaluations))
            whole = file.read_bytes()
            right = {command: answer(command, file, whole) for command in COMMANDS}
            anywhere = cuts(len(whole), 20 * effort)[1:]
            last_page = [len(whole) - PAGE + place for place in cuts(PAGE, 20 * effort)]
            for cut, command in product(sorted({*anywhere, *last_page}), COMMANDS):
                found = answer(command, file, whole[:cut])
                right_or_refused = found == right[command] or isinstance(found, HoldfastError)
                yield None if right_or_refused else f"store cut at byte {cut}, {command}: {found!r}"


def answer(command: str, file: Path, content: bytes) -> object:
    """Of a store with this content, or its error."""
    put_back(file.parent, {file: content})
    try:
        return COMMANDS[command](Store(file))
    except Exception as error:
        return error


def cut_checkpoint(effort: int) -> Iterator[str | None]:
    with TemporaryDirectory() as name:
        save(Path(name), 0)
        file = Path(name) / "learner"
        whole = file.read_bytes()
        for cut in cuts(len(whole), 500 * effort)[:-1]:
            file.write_bytes(whole[:cut])
            try:
                load(Path(name))
                yield f"checkpoint cut at byte {cut}: read as if it were whole"
            except CheckpointError:
                yield None


def cuts(size: int, count: int) -> list[int]:
    """About so many places in a file, evenly, and its end."""
    return [*range(0, size, max(1, size // count)), size]
