"""Methods of one setting against each other, over the seeds they share."""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.report.statistics import Paired, paired


@dataclass(frozen=True)
class Comparison:
    """Row minus column; None where no seed is shared, and on the diagonal."""

    titles: list[str]
    rows: list[tuple[str, list[Paired | None]]]


def compare(values: Mapping[str, Mapping[int, float | None]]) -> Comparison | None:
    """Values by title and seed; None where there is nothing to compare."""
    rows = [
        (title, [paired(ours, theirs) if other != title else None for other, theirs in values.items()])
        for title, ours in values.items()
    ]
    return Comparison(list(values), rows) if any(any(pairs) for _, pairs in rows) else None
