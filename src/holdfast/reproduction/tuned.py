"""tuned.json: what `holdfast tune` has tried and chosen, and how; `holdfast paper --tuned` takes it from there."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.errors import InputError, InUse
from holdfast.reproduction.picks import HyperParameters, Picks, Whose
from holdfast.reproduction.setting import Setting
from holdfast.storage import files
from holdfast.storage.locks import NameLocks

Choice = dict[str, Any]

FORMAT = 1
WHAT_FOR = ("dataset", "method", "augment", "miniature")  # the last choice for the same replaces earlier ones


def file_in(folder: Path) -> Path:
    return folder / "tuned.json"


def read(folder: Path) -> list[Choice]:
    """All choices so far."""
    file = file_in(folder)
    try:
        content = json.loads(file.read_text())
        if content["format"] != FORMAT:
            raise InputError(f"{file} has format {content['format']}; this holdfast knows {FORMAT}")
        choices: list[Choice] = content["choices"]
        for choice in choices:
            _key(choice), _picked(choice)
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise InputError(f"{file} cannot be read, or holdfast tune has not written it ({error!r})") from error
    return choices


def add(folder: Path, choices: Sequence[Choice]) -> None:
    """Leaves the others as they are."""
    with _alone(folder):
        merged = {_key(choice): choice for choice in (*read(folder), *choices)}
        content = {"format": FORMAT, "choices": [merged[key] for key in sorted(merged)]}
        files.write(file_in(folder), json.dumps(content, indent=1).encode() + b"\n")


def picks(folder: Path, *, miniature: bool) -> Picks:
    """Miniatures are tuned by miniatures only, and nothing else is."""
    return {
        (choice["dataset"], choice["method"], choice["augment"]): _picked(choice)
        for choice in read(folder)
        if choice["miniature"] == miniature
    }


def needed(folder: Path, *, miniature: bool) -> Picks:
    if not file_in(folder).exists():
        raise InputError(f"--tuned: there is no {file_in(folder)} yet; holdfast tune --out {folder} writes it")
    return picks(folder, miniature=miniature)


def note(settings: Sequence[Setting], picks: Picks, whose: Whose = "text") -> str:
    """Whose hyper-parameters these settings have; `whose`: those that `picks` has none for."""
    authors = "the authors' picks" + " for each M" * (whose == "released")
    others = [setting for setting in settings if setting.own_pick(picks) is None]
    names = dict.fromkeys(f"{s.name}{' augmented' * s.augment} on {s.dataset}" for s in others)
    if names and len(others) == len(settings):
        return f"Hyper-parameters: {authors}; tuned.json has none for {', '.join(names)}."
    rest = f"; {authors} where it has none: {', '.join(names)}" if names else ""
    return f"Hyper-parameters: tuned picks, from tuned.json{rest}."


def _key(choice: Choice) -> tuple[Any, ...]:
    return tuple(choice[name] for name in WHAT_FOR)


def _picked(choice: Choice) -> HyperParameters:
    return HyperParameters(choice["chosen"]["lr"], choice["chosen"]["options"])


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Waits for other processes that are writing: they need milliseconds."""
    with NameLocks(folder / "runs.claims") as claims:
        while True:
            try:
                claims.take({"tuned.json": "tuned.json"})
                break
            except InUse:
                time.sleep(0.01)
        yield
