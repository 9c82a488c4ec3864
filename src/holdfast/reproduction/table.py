"""Tables of the paper: which runs are behind each cell, and our numbers beside the published ones."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import fill
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from holdfast.report.statistics import agreement, with_seeds
from holdfast.reproduction.measures import MEASURES, PUBLISHED_AS
from holdfast.reproduction.published import Published, place, published
from holdfast.reproduction.setting import RecordsOf, Setting
from holdfast.runs.store import Record

MOST_COLUMNS = 4  # of a table on a terminal of 80 columns


@dataclass(frozen=True)
class Line:
    """A row or a column: its title, and what it says about the runs."""

    title: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Cell:
    """A number of ours, with the run that each value comes from, and the published one."""

    row: str
    column: str
    measure: str
    values: list[float]
    runs: list[str]
    paper: Published | None
    comparable: bool = True  # a miniature is not
    choice: str = ""  # which runs were better, beside the accuracy, where the paper has the better of two
    settings: tuple[Setting, ...] = ()  # of its runs: two where the paper has the better one

    def as_json(self) -> dict[str, Any]:
        paper = {key: value for key, value in vars(self.paper).items() if value is not None} if self.paper else None
        fields = {name: value for name, value in vars(self).items() if name != "settings"}
        return {**fields, "paper": paper, "agreement": self.verdict}

    @property
    def ours(self) -> str:
        return with_seeds(self.values, self._digits) if self.values else "missing"

    @property
    def theirs(self) -> str:
        if self.paper is None:
            return "–"
        if self.paper.mean is None:
            return f"{self.paper.low:g} to {self.paper.high:g}"
        return f"{self.paper.mean:g}" + ("" if self.paper.se is None else f" ± {self.paper.se:g}")

    @property
    def verdict(self) -> str:
        """The difference, and whether it lies within two standard errors."""
        if not self.comparable or not self.values or self.paper is None or self.paper.mean is None:
            return ""
        return agreement(self.values, self.paper.mean, self.paper.se, self._digits)

    @property
    def _digits(self) -> int:
        return 4 if self.measure == "drift" else 1


@dataclass(frozen=True)
class PaperTable:
    name: str
    title: str
    rows: Sequence[Line]
    columns: Sequence[Line]
    measures: Sequence[str]
    best_of_augmentation: bool = False
    notes: Sequence[str] = field(default=())

    @property
    def place(self) -> str:
        return place(self.name)

    def settings(self) -> list[Setting]:
        return [setting for row in self.rows for column in self.columns for setting in self._settings(row, column)]

    def cells(self, found: RecordsOf, *, comparable: bool = True) -> Iterator[Cell]:
        for row in self.rows:
            for column in self.columns:
                yield from self._cells(found, row, column, self.measures, comparable=comparable)

    def cell(self, found: RecordsOf, row: str, column: str, measure: str, *, comparable: bool = True) -> Cell:
        """By the titles of its row and column."""
        (of_row,) = (line for line in self.rows if line.title == row)
        (of_column,) = (line for line in self.columns if line.title == column)
        (only,) = self._cells(found, of_row, of_column, [measure], comparable=comparable)
        return only

    def _cells(
        self, found: RecordsOf, row: Line, column: Line, measures: Sequence[str], *, comparable: bool
    ) -> Iterator[Cell]:
        settings = tuple(self._settings(row, column))
        choice, records = _better({setting: found(setting) for setting in settings})
        for measure in measures:
            measured = [(record["id"], MEASURES[measure][1](record)) for record in records]
            runs = [run for run, value in measured if value is not None]
            values = [value for _, value in measured if value is not None]
            what: dict[str, Any] = {"dataset": "cifar10", "augment": False} | dict(row.settings) | dict(column.settings)
            paper = published(self.name, PUBLISHED_AS.get(measure, measure), **what)
            beside = choice if measure == "acc" else ""
            yield Cell(row.title, column.title, measure, values, runs, paper, comparable, beside, settings)

    def parts(self, cells: Sequence[Cell]) -> Iterator[tuple[Line, list[str], list[tuple[str, list[Cell]]]]]:
        """A table for each column of the paper's: the column, the measures shown, and the cells of each row."""
        for column in self.columns:
            shown = self._shown(column, cells)
            rows = [(row.title, [_at(cells, row, column, measure) for measure in shown]) for row in self.rows]
            yield column, shown, rows

    def render(self, cells: Sequence[Cell]) -> list[Table]:
        """One table per column of the paper's; in each cell ours, below it the published value and the difference."""
        tables = []
        for column, shown, rows in self.parts(cells):
            width = math.ceil(len(shown) / math.ceil(len(shown) / MOST_COLUMNS)) if shown else 1
            for start in range(0, len(shown), width):
                part = slice(start, start + width)
                title = f"{self.name}  {self.title}: {column.title}"
                tables.append(_drawn(title, shown[part], [(name, of_row[part]) for name, of_row in rows]))
        return tables

    def markdown(self, cells: Sequence[Cell]) -> str:
        parts = [f"# {self.name}: {self.title}", f"`{self.place}` in the paper. Ours: mean ± standard error (seeds)."]
        for column, shown, rows in self.parts(cells):
            parts += [f"## {column.title}", as_markdown(shown, rows)]
        return "\n\n".join([*parts, *self.notes]) + "\n"

    def _shown(self, column: Line, cells: Sequence[Cell]) -> list[str]:
        """Measures for which the paper has a value in this column."""
        return [m for m in self.measures if any(c.paper for c in cells if (c.column, c.measure) == (column.title, m))]

    def _settings(self, row: Line, column: Line) -> list[Setting]:
        chosen = {**row.settings, **column.settings}
        fields = {name: value for name, value in chosen.items() if name in Setting.__dataclass_fields__}
        extra = ",".join(f"{name}={chosen[name]}" for name in ("distinct", "share") if name in chosen)
        if extra:
            fields["stream"] = ",".join(filter(None, (fields.get("stream", ""), extra)))
        if "run" in chosen:
            fields["method"] = chosen["run"]
        if self.best_of_augmentation and "augment" not in fields:
            return [Setting(**fields, augment=augment) for augment in (False, True)]
        return [Setting(**fields)]


def as_markdown(measures: Sequence[str], rows: Sequence[tuple[str, list[Cell]]]) -> str:
    """A column of the paper's table."""
    heads = [part for measure in measures for part in (MEASURES[measure][0], "published", "difference")]
    lines = [f"| method | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for title, of_row in rows:
        texts = [part for cell in of_row for part in (_ours(cell), cell.theirs, cell.verdict)]
        lines.append(f"| {title} | {' | '.join(texts)} |")
    return "\n".join(lines)


def _at(cells: Sequence[Cell], row: Line, column: Line, measure: str) -> Cell:
    return next(c for c in cells if (c.row, c.column, c.measure) == (row.title, column.title, measure))


def _drawn(title: str, measures: Sequence[str], rows: Sequence[tuple[str, list[Cell]]]) -> Table:
    """As narrow as it can be with every number and word whole: four measures take 80 columns."""
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    names, texts = [name for name, _ in rows], [[_text(cell) for cell in of_row] for _, of_row in rows]
    table.add_column("method", min_width=max(len(word) for name in names for word in name.split()))
    for measure, of_measure in zip(measures, zip(*texts, strict=True), strict=True):
        width = max(line.cell_len for text in of_measure for line in text.split())
        head = fill(MEASURES[measure][0], width, break_long_words=False, break_on_hyphens=False)
        table.add_column(head, justify="right", no_wrap=True)
    for name, of_row in zip(names, texts, strict=True):
        table.add_row(name, *of_row)
    return table


def _ours(cell: Cell) -> str:
    return f"{cell.ours}, {cell.choice}" if cell.choice else cell.ours


def _text(cell: Cell) -> Text:
    below = filter(None, (cell.choice, f"paper {cell.theirs}", cell.verdict))
    return Text("\n").join([Text(cell.ours), *(Text(line, "dim") for line in below)])


def _better(found: Mapping[Setting, list[Record]]) -> tuple[str, list[Record]]:
    """The records with the better accuracy, and of without and with augmentation, which they are."""
    setting, records = max(found.items(), key=lambda item: _mean_accuracy(item[1]))
    if len(found) == 1 or not records:
        return "", records
    choice = "augmented" if setting.augment else "not augmented"
    return choice if all(found.values()) else f"only {choice}", records


def _mean_accuracy(records: Sequence[Record]) -> float:
    return sum(record["acc"] for record in records) / len(records) if records else -1.0
