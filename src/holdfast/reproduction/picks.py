"""Whose hyper-parameters a run has: the authors' picks, which are data, or one's own."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Literal, NamedTuple

Whose = Literal["text", "released"]
NOTES: Mapping[Whose, str] = {
    "text": "Hyper-parameters: the authors' picks, the best on average over M, as the text says (--picks text).",
    "released": "Hyper-parameters: the authors' picks for each M, as the released code loads them (--picks released).",
}


class HyperParameters(NamedTuple):
    lr: float
    options: str = ""  # of the method, as on the command line


Picks = Mapping[tuple[str, str, bool], HyperParameters]  # one's own, by dataset, method, augmentation
OTHERWISE = HyperParameters(0.01)


def authors(whose: Whose, dataset: str, method: str, *, memory: int, augment: bool) -> HyperParameters:
    """What the search has not tried with such a memory is as the text has it."""
    found = _picks()["text"][dataset].get(method)
    if whose == "released":
        found = _picks()["released"][dataset].get(method, {}).get(str(memory), found)
    return HyperParameters(**found[augment]) if found else OTHERWISE


@cache
def _picks() -> dict[str, Any]:
    return tomllib.loads((resources.files("holdfast.reproduction") / "picks.toml").read_text(encoding="utf-8"))
