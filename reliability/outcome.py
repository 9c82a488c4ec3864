"""What a figure found."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    tried: int
    lost: list[str]  # a line each time the promise was broken


@dataclass(frozen=True)
class Figure:
    promise: str
    measure: Callable[[int], Outcome]  # takes the effort: 1 is small, ten times as much tries about ten times as often


def counted(trials: Callable[[int], Iterator[str | None]]) -> Callable[[int], Outcome]:
    """A figure from its trials, each of which gives None or what was lost."""

    @functools.wraps(trials)
    def measure(effort: int) -> Outcome:
        found = list(trials(effort))
        return Outcome(len(found), [line for line in found if line])

    return measure
