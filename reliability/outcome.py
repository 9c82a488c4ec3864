"""What a figure found."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    tried: int
    lost: list[str]  # a line each time the promise was broken


Measure = Callable[[int], Outcome]


@dataclass(frozen=True)
class Figure:
    promise: str
    measure: Measure  # takes the effort: 1 is small, ten times as much tries about ten times as often


def counted(trials: Callable[[int], Iterator[str | None]]) -> Measure:
    """A figure from its trials, each of which gives None or what was lost."""

    @functools.wraps(trials)
    def measure(effort: int) -> Outcome:
        found = list(trials(effort))
        return Outcome(len(found), [line for line in found if line])

    return measure


def together(*parts: Measure) -> Measure:
    def measure(effort: int) -> Outcome:
        outcomes = [part(effort) for part in parts]
        return Outcome(sum(each.tried for each in outcomes), [line for each in outcomes for line in each.lost])

    return measure
