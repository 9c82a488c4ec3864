"""What the paper reports, to stand beside our own numbers."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class Published:
    mean: float | None = None  # None where only a range is given
    se: float | None = None
    low: float | None = None
    high: float | None = None


NUMBERS = tuple(Published.__dataclass_fields__)


def published(artifact: str, measure: str, method: str, **setting: object) -> Published | None:
    """`published("T1", "acc", "er-ace", dataset="cifar10", memory=20, augment=False)`; None where the paper is silent.

    A cell is found by all the fields it has; what else the setting says is ignored. Options of a method are in
    alphabetical order.
    """
    wanted = setting | {"measure": measure, "method": method}
    for cell in cells().get(artifact, []):
        if all(key in NUMBERS or wanted.get(key) == value for key, value in cell.items()):
            return Published(**{key: float(cell[key]) for key in NUMBERS if key in cell})
    return None


def place(artifact: str) -> str:
    """Where in the paper a table stands."""
    return str(_tables()[artifact]["place"])


@cache
def cells() -> dict[str, list[dict[str, Any]]]:
    """Every number of every table with the fields that identify it."""
    return {name: [table.get("common", {}) | line for line in table["values"]] for name, table in _tables().items()}


@cache
def _tables() -> dict[str, dict[str, Any]]:
    return tomllib.loads((resources.files("holdfast.reproduction") / "published.toml").read_text(encoding="utf-8"))
