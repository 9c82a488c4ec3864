"""Records that another store has exported: what they must have, and whether they are those that are here."""

import gzip
import json
import lzma
import math
import re
import reprlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from holdfast.errors import InputError
from holdfast.runs import schema
from holdfast.runs.earlier import completed
from holdfast.runs.spec import CHOICES, FIELDS, LATER
from holdfast.runs.store import Record

MEASURED = ("status", "acc", "aaa", "forgetting", "train_macs", "state_hash")  # beside evaluations and probes
ADDED = ("confusion", "mistakes")  # which records of before do not have
MAY_BE_NONE = {"why", *(name for name, choice in CHOICES.items() if choice.usual is None)}
NEEDED = {"title", "why", "evaluations", *FIELDS} - LATER.keys()
NEEDED_WHEN_DONE = {
    *("acc", "aaa", "train_macs", "memory_bytes", "seconds", "updates", "fast_path_agreement"),
    *("tasks", "task_ends"),
}
KINDS = {**schema.KINDS, "why": "TEXT", "finished": "TEXT", "options": "DICT", "probe": "LIST", "usual": "DICT"}
PARTS = {
    "evaluations": {"step": "INTEGER", "seen": "INTEGER", "aa": "REAL", "correct": "LIST", "total": "LIST"},
    "probes": {"name": "TEXT", "step": "INTEGER", "value": "ANY"},
}


MOST_BYTES = 2**31  # of the text in a compressed file: a small one may claim to hold anything
OPENERS: dict[str, Callable[[Path], BufferedIOBase]] = {".gz": gzip.GzipFile, ".xz": lzma.LZMAFile}


def packed(records: Iterable[Record], file: Path) -> bytes:
    """What `read` reads, compressed if the file is called .gz or .xz; the same records give the same bytes."""
    text = ("[" + ",\n".join(map(json.dumps, records)) + "]\n").encode()
    if file.suffix == ".gz":
        return gzip.compress(text, mtime=0)
    return lzma.compress(text) if file.suffix == ".xz" else text


def read(file: Path) -> list[Record]:
    try:
        records = json.loads(_content(file))
    except (OSError, EOFError, lzma.LZMAError, zlib.error, ValueError, RecursionError) as error:
        raise InputError(f"{file} cannot be read: {error}") from error
    if not isinstance(records, list):
        raise InputError(f"{file} holds no records of runs; holdfast runs export --json makes such files")
    for number, record in enumerate(records, 1):
        for flaw in _flaws(record):
            raise InputError(f"{file} holds something other than records of runs: in number {number}, {flaw}")
    return [completed(record) for record in records]


def _content(file: Path) -> bytes:
    if file.suffix not in OPENERS:
        return file.read_bytes()
    with OPENERS[file.suffix](file) as opened:
        content = opened.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise InputError(f"{file} cannot be read: it holds more than {MOST_BYTES:,} bytes")
    return content


def difference(here: Record, there: Record) -> str | None:
    """None if both have measured the same, however long it took; otherwise what each found, and where they ran."""
    both = [name for name in ADDED if here.get(name) is not None and there.get(name) is not None]
    if _measured(here) == _measured(there) and all(here[name] == there[name] for name in both):
        return None
    ran_here, ran_there = here.get("environment", {}), there.get("environment", {})
    unlike = [name for name in {**ran_here, **ran_there} if ran_here.get(name) != ran_there.get(name)]
    where = ", ".join(f"{name} {ran_here.get(name)} and {ran_there.get(name)}" for name in unlike)
    return f"{_outcome(here)} here and {_outcome(there)} there ({where or 'in the same environment'})"


def _measured(record: Record) -> Record:
    evaluations = [{**each, "macs": each.get("macs")} for each in record["evaluations"]]
    probes = sorted(record.get("probes", []), key=lambda probe: (probe["name"], probe["step"]))
    return {name: record.get(name) for name in MEASURED} | {"evaluations": evaluations, "probes": probes}


def _outcome(record: Record) -> str:
    return "failed" if record["status"] == "failed" else f"Acc {100 * record['acc']:.1f} %"


def _flaws(record: Any) -> Iterator[str]:
    """What is wrong with a record, the worst first."""
    if not isinstance(record, dict) or not isinstance(run := record.get("id"), str):
        yield "there is no id"
        return
    if not re.fullmatch("[0-9a-f]{16}", run):
        yield f"the id is {reprlib.repr(run)}, not 16 hexadecimal digits"
    if (status := record.get("status")) not in ("done", "failed"):
        yield f"the status is {reprlib.repr(status)}, neither done nor failed"
    needed = NEEDED | NEEDED_WHEN_DONE if status == "done" else NEEDED
    has = {name for name, value in record.items() if value is not None or name in MAY_BE_NONE}
    yield from (f"there is no {name}" for name in sorted(needed - has))
    yield from (f"{name} is {reprlib.repr(record[name])}" for name in _wrong(record, KINDS))
    yield from (f"the {part} are not what they should be" for part in PARTS if not _are_parts(record, part))
    if not _are_answers(record):
        yield "classes, confusion and mistakes do not go together"


def _are_parts(record: Record, part: str) -> bool:
    rows, kinds = record.get(part, []), PARTS[part]
    return (
        isinstance(rows, list)
        and all(isinstance(row, dict) and not _wrong(row, kinds) for row in rows)
        and all(row.get(name) is not None for row in rows for name in kinds)
        and all(row.get("macs") is None or _is_whole(row["macs"]) for row in rows)
        and len({(row.get("name"), row["step"]) for row in rows}) == len(rows)
    )


def _are_answers(record: Record) -> bool:
    """Names of classes, and rows of three numbers, two of which are classes: which, depends."""
    names = record.get("classes") or []
    classes = {"confusion": slice(0, 2), "mistakes": slice(1, 3)}
    rows = {part: record.get(part) or [] for part in classes}
    if not isinstance(names, list) or not all(map(_is_text, names)) or not all(map(_is_list, rows.values())):
        return False
    return all(
        isinstance(row, list)
        and len(row) == 3
        and all(map(_is_whole, row))
        and min(row) >= 0
        and max(row[classes[part]]) < len(names)
        for part, of_part in rows.items()
        for row in of_part
    )


def _wrong(values: Record, kinds: Mapping[str, str]) -> list[str]:
    """The fields whose values are not of their kind."""
    return [name for name in kinds if values.get(name) is not None and not IS_A[kinds[name]](values[name])]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value and value.encode(errors="replace").decode() == value


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_whole(value: Any) -> bool:
    return type(value) is int and abs(value) < 2**63


IS_A: dict[str, Callable[[Any], bool]] = {
    "ANY": lambda value: True,
    "BOOLEAN": lambda value: isinstance(value, bool),
    "DICT": lambda value: isinstance(value, dict),
    "LIST": _is_list,
    "TEXT": _is_text,
    "INTEGER": _is_whole,
    "MEMORY": lambda value: _is_whole(value) or _is_text(value),
    "REAL": lambda value: _is_whole(value) or (isinstance(value, float) and math.isfinite(value)),
}
