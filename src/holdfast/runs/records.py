"""Records of finished runs, one JSON file each in a folder. A file is there whole or not at all."""

import json
import os
import re
from pathlib import Path
from typing import Any

from holdfast import files
from holdfast.errors import InputError
from holdfast.runs.spec import RunSpec, code_hash

Record = dict[str, Any]


def write_json(path: Path, content: object) -> None:
    files.write(path, json.dumps(content, separators=(",", ":")).encode())


class Records:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"--out {self.folder}: {error.strerror or error}") from error
        if not os.access(self.folder, os.W_OK):
            raise InputError(f"--out {self.folder} is not writable")

    def find(self, spec: RunSpec) -> Record | None:
        """The record of an equal spec made by equal code, if it is there."""
        try:
            record: Record = json.loads(self._path(spec).read_text())
        except (FileNotFoundError, ValueError):
            return None
        return record

    def keep(self, spec: RunSpec, record: Record) -> None:
        write_json(self._path(spec), record)

    def _path(self, spec: RunSpec) -> Path:
        words = f"{spec.stream}-{spec.title}-m{spec.memory}-s{spec.seed}"
        safe = re.sub(r"[^A-Za-z0-9.+=-]+", "_", words.replace("†", ""))[-100:]
        return self.folder / f"{safe}-{spec.id(code_hash(spec.method))}.json"
