"""Two ways of doing the same thing, timed in turns, so that a noisy machine disturbs both alike."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ratio:
    what: str
    value: float
    bound: float
    at_least: bool = False

    @property
    def holds(self) -> bool:
        return self.value >= self.bound if self.at_least else self.value <= self.bound


def seconds(ways: Mapping[str, Callable[[], object]], rounds: int, warm_up: int = 3) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(warm_up + rounds):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            if turn >= warm_up:
                times[name].append(time.perf_counter() - start)
    return times


def ratio(times: Mapping[str, list[float]], name: str, reference: str) -> float:
    """The median over rounds of how much longer `name` took than `reference` in the same round."""
    return statistics.median(a / b for a, b in zip(times[name], times[reference], strict=True))
