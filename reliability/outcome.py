"""What a figure found."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Outcome:
    tried: int
    lost: list[str]  # a line each time the promise was broken
    skipped: list[str] = field(default_factory=list)  # what cannot be tried here, and why


class Skipped(str):
    """A trial that this machine does not allow; it says why."""


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
        skipped: list[str] = [line for line in found if isinstance(line, Skipped)]
        lost = [line for line in found if line and not isinstance(line, Skipped)]
        return Outcome(len(found) - len(skipped), lost, skipped)

    return measure


def together(*parts: Measure) -> Measure:
    def measure(effort: int) -> Outcome:
        outcomes = [part(effort) for part in parts]
        return Outcome(
            sum(each.tried for each in outcomes),
            [line for each in outcomes for line in each.lost],
            [line for each in outcomes for line in each.skipped],
        )

    return measure
