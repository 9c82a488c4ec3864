"""Methods of one setting against each other, over the seeds they share."""

from collections.abc import Mapping
from dataclasses import dataclass

from rich import box
from rich.table import Table

from holdfast.report import html
from holdfast.report.statistics import Paired, paired

CAPTION = "row minus column over the seeds that both have, with its 95 % confidence interval"


@dataclass(frozen=True)
class Comparison:
    """Row minus column; None where no seed is shared, and on the diagonal."""

    titles: list[str]
    rows: list[tuple[str, list[Paired | None]]]

    def table(self) -> Table:
        """For a terminal."""
        table = Table(caption=CAPTION, box=box.SIMPLE_HEAD, pad_edge=False)
        for number, name in enumerate(("", *self.titles)):
            table.add_column(name, justify="right" if number else "left")
        for name, pairs in self.rows:
            table.add_row(name, *map(_shown, pairs))
        return table

    def _repr_html_(self) -> str:
        rows = [html.row(name, map(_shown, pairs)) for name, pairs in self.rows]
        return html.table(["", *self.titles], rows, caption=CAPTION)


def _shown(pair: Paired | None) -> str:
    if pair is None:
        return ""
    reach = "" if pair.low is None or pair.high is None else f" [{pair.low:+.1f}, {pair.high:+.1f}]"
    return f"{pair.difference:+.1f}{reach} (n = {pair.n})"


def compare(values: Mapping[str, Mapping[int, float | None]]) -> Comparison | None:
    """Values by title and seed; None where there is nothing to compare."""
    rows = [
        (title, [paired(ours, theirs) if other != title else None for other, theirs in values.items()])
        for title, ours in values.items()
    ]
    return Comparison(list(values), rows) if any(any(pairs) for _, pairs in rows) else None
