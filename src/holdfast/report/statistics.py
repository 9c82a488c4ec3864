"""Mean and standard error over seeds."""

import math
from collections.abc import Sequence


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
