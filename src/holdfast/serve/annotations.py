"""Which samples the annotations of Label Studio have brought: it says of one that is deleted only its number."""

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from holdfast.durable import DurableLearner
from holdfast.memory import Memory
from holdfast.memory.class_index import Slots
from holdfast.memory.encoded import fingerprint
from holdfast.serve.decoding import Label
from holdfast.serve.refusals import Refused

FILE = "label-studio.sqlite"  # beside the learner
TABLE = """CREATE TABLE IF NOT EXISTS annotations
    (id INTEGER PRIMARY KEY, task INTEGER NOT NULL, sample INTEGER NOT NULL, label TEXT NOT NULL)"""


@dataclass(frozen=True, slots=True)
class Row:
    """Neither the sample nor the label, which may have to be forgotten, but what they are recognised by."""

    sample: int
    label: str

    @classmethod
    def of(cls, samples: Tensor, label: Label) -> "Row":
        return cls(fingerprint(samples[0].cpu().numpy()), _digest(label))


class Annotations:
    def __init__(self, rows: sqlite3.Connection) -> None:
        self._rows = rows

    @classmethod
    @contextmanager
    def of(cls, folder: Path) -> Iterator["Annotations"]:
        try:
            with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as rows:
                rows.execute(TABLE)
                yield cls(rows)
        except sqlite3.Error:
            raise Refused(503, "what is known of annotations cannot be read or written now", Retry_After="5") from None

    def find(self, annotation: int) -> Row | None:
        found = self._rows.execute("SELECT sample, label FROM annotations WHERE id = ?", [annotation]).fetchone()
        return None if found is None else Row(*found)

    def of_task(self, task: int) -> list[int]:
        return [each for (each,) in self._rows.execute("SELECT id FROM annotations WHERE task = ?", [task])]

    def note(self, annotation: int, task: int, row: Row) -> None:
        values = [annotation, task, row.sample, row.label]
        self._rows.execute("INSERT OR REPLACE INTO annotations VALUES (?, ?, ?, ?)", values)

    def remove(self, annotation: int) -> None:
        self._rows.execute("DELETE FROM annotations WHERE id = ?", [annotation])


def forget(learner: DurableLearner, row: Row) -> None:
    """One sample, if it is still held: others may have annotated the same one in the same way."""

    def held(memory: Memory) -> Slots:
        for index in np.flatnonzero(memory.class_counts).tolist():
            if _digest(learner.labels[index]) == row.label:
                members = memory.members(index)
                return np.asarray(members[memory.fingerprints(members) == row.sample][:1], np.int64)
        return np.empty(0, np.int64)

    if len(learner.at_rest(lambda: held(learner.memory))):  # or all kept checkpoints would go for nothing
        learner.forget_held(held)


def _digest(label: object) -> str:
    return hashlib.blake2b(repr(label).encode(errors="replace"), digest_size=16).hexdigest()
