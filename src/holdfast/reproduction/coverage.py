"""How much of what the paper published has runs of ours beside it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table

from holdfast.reproduction.setting import RecordsOf
from holdfast.reproduction.table import Cell
from holdfast.reproduction.tables import TABLES

JUDGED = ("aaa", "acc", "forgetting", "drift")  # costs do not depend on luck: they need no seeds


def published_cells(found: RecordsOf, names: Iterable[str] = TABLES) -> dict[str, list[Cell]]:
    """Every published accuracy, anytime accuracy, forgetting and drift with ours, by table, each once."""
    cells = {
        name: {(c.measure, c.settings): c for c in TABLES[name].cells(found) if c.paper and c.measure in JUDGED}
        for name in names
    }  # the print repeats methods without memory for every size of it
    return {name: list(of_table.values()) for name, of_table in cells.items()}


@dataclass(frozen=True)
class Coverage:
    """Numbers of published cells."""

    published: int
    run: int
    with_three_seeds: int
    agreeing: int

    def __str__(self) -> str:
        return (
            f"cells with at least one run: {self.run} of {self.published}; with three seeds: {self.with_three_seeds}; "
            f"agreeing within two standard errors: {self.agreeing}"
        )


def coverage(cells: Iterable[Cell]) -> Coverage:
    cells = list(cells)
    return Coverage(
        len(cells),
        run=sum(bool(cell.values) for cell in cells),
        with_three_seeds=sum(len(cell.values) >= 3 for cell in cells),
        agreeing=sum(" within " in cell.verdict for cell in cells),
    )


def by_table(cells: dict[str, list[Cell]]) -> list[tuple[str, Coverage]]:
    """A line for each table, and one for all of them."""
    everything = [cell for of_table in cells.values() for cell in of_table]
    return [*((name, coverage(of_table)) for name, of_table in cells.items()), ("all", coverage(everything))]


HEADS = ("table", "published", "with a run", "with three seeds", "agreeing")


def drawn(lines: Sequence[tuple[str, Coverage]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in HEADS:
        table.add_column(head, justify="left" if head == "table" else "right")
    for name, numbers in lines:
        table.add_row(name, *map(str, vars(numbers).values()), end_section=name == lines[-2][0])
    return table


def markdown(lines: Sequence[tuple[str, Coverage]]) -> str:
    rows = [f"| {name} | {' | '.join(map(str, vars(numbers).values()))} |" for name, numbers in lines]
    return "\n".join([f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|", *rows])
