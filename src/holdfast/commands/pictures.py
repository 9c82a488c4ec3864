"""The pictures that commands leave beside the store."""

import hashlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from holdfast.datasets import Dataset
from holdfast.runs.store import Record

RUNS = "Runs"  # says in a picture which runs it shows


def draw(console: Console, group: Sequence[Record], setting: Sequence[str], folder: Path, data: Dataset | None) -> None:
    """Of the runs of one setting: accuracy along the stream and, with their data, what becomes of classes."""
    if importlib.util.find_spec("matplotlib") is None:
        console.print("no picture: it needs matplotlib, pip install 'holdfast[plots]'")
        return
    from holdfast.report import figures

    shown = {
        "anytime": figures.drawn(group),
        "classes": figures.confusions(group) if data else None,
        "mistakes": figures.mistakes(group, data) if data else None,
    }
    of_runs = _digest(group)
    for name, figure in ((name, figure) for name, figure in shown.items() if figure is not None):
        file = "-".join([name, *setting]).replace("/", "_").replace(" ", "-") + ".png"
        path = _free(folder / file, of_runs)
        figures.write(figure, path, dpi=160, metadata={RUNS: of_runs})
        console.print(f"picture: {path}", highlight=False, soft_wrap=True)


def _digest(group: Sequence[Record]) -> str:
    return hashlib.sha256(" ".join(sorted(record["id"] for record in group)).encode()).hexdigest()[:16]


def _free(path: Path, of_runs: str) -> Path:
    """A picture of other runs is left as it is, one of the same runs is replaced."""
    number, free = 1, path
    while free.exists() and _runs_in(free) != of_runs:
        number += 1
        free = path.with_stem(f"{path.stem}-{number}")
    return free


def _runs_in(path: Path) -> str | None:
    from PIL import Image

    try:
        with Image.open(path) as picture:
            return picture.info.get(RUNS)
    except (OSError, ValueError):
        return None
