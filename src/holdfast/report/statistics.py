"""Mean and standard error over seeds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


def mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """The standard error of one value is unknown: None, not nan."""
    n = len(values)
    mean = math.fsum(values) / n
    if n == 1:
        return mean, None
    return mean, math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1) / n)


def show(values: Sequence[float | None], scale: float = 100) -> str:
    """In per cent; – where there is nothing to measure."""
    known = [scale * v for v in values if v is not None]
    if not known:
        return "–"
    mean, error = mean_and_error(known)
    return f"{mean:.1f}" if error is None else f"{mean:.1f} ± {error:.1f}"


def with_seeds(values: Sequence[float], digits: int = 1) -> str:
    """Mean ± standard error (seeds)."""
    mean, error = mean_and_error(values)
    return f"{mean:.{digits}f} " + ("(n = 1)" if error is None else f"± {error:.{digits}f} ({len(values)})")


def agreement(values: Sequence[float], mean: float, error: float | None, digits: int = 1) -> str:
    """How far our values are from a published mean, and whether that is within two standard errors of it."""
    ours, ours_error = mean_and_error(values)
    difference = f"{ours - mean:+.{digits}f}"
    if ours_error is None or error is None:
        return difference
    two = 2 * math.hypot(ours_error, error)
    return f"{difference} {'within' if abs(ours - mean) <= two else 'beyond'} {two:.{digits}f}"


@dataclass(frozen=True)
class Paired:
    """The mean difference over shared seeds, with its 95 % confidence interval; None for a single seed."""

    n: int
    difference: float
    low: float | None
    high: float | None


def paired(ours: Mapping[int, float | None], others: Mapping[int, float | None]) -> Paired | None:
    """Values by seed, None where one is missing; the result is None if no seed has a value on both sides."""
    pairs = [(value, others.get(seed)) for seed, value in sorted(ours.items())]
    differences = [a - b for a, b in pairs if a is not None and b is not None]
    if not differences:
        return None
    mean, error = mean_and_error(differences)
    if error is None:
        return Paired(1, mean, None, None)
    reach = error * student_t(len(differences) - 1)
    return Paired(len(differences), mean, mean - reach, mean + reach)


def student_t(freedom: int) -> float:
    """The 97.5 % quantile of Student's t, by bisection on its distribution function (Simpson's rule)."""
    low, high = 1.9, 13.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if _above(middle, freedom) > 0.025 else (low, middle)
    return high


def _above(t: float, freedom: int, steps: int = 400) -> float:
    """The probability above t: with t = √n·tan(a), an integral of cosⁿ⁻¹ over the angle a."""
    start = math.atan(t / math.sqrt(freedom))
    width = (math.pi / 2 - start) / steps
    heights = [math.cos(start + i * width) ** (freedom - 1) for i in range(steps + 1)]
    area = width / 3 * (heights[0] + heights[-1] + 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2]))
    return area * math.gamma((freedom + 1) / 2) / (math.sqrt(math.pi) * math.gamma(freedom / 2))
