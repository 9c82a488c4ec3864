"""The paper as far as a store has it: every table and figure of which at least one run is there."""

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.paper import tuned
from holdfast.paper.artifacts import ARTIFACTS, badges
from holdfast.paper.figure import PaperFigure
from holdfast.paper.in_store import InStore
from holdfast.paper.measures import MEASURES
from holdfast.paper.setting import Picks
from holdfast.paper.table import Cell, PaperTable
from holdfast.report.compare import Comparison, compare


@dataclass(frozen=True)
class Column:
    """A column of the paper's table, which is a table of its own here."""

    title: str
    measures: list[str]
    rows: list[tuple[str, list[Cell]]]
    comparison: Comparison | None


@dataclass(frozen=True)
class Section:
    """A table or a figure, and how many of its settings have runs."""

    name: str
    title: str
    place: str
    miniature: bool
    tuned: bool
    there: int
    wanted: int
    runs: list[str]
    columns: Sequence[Column] = ()
    notes: Sequence[str] = ()
    picture: str | None = None  # SVG

    @property
    def key(self) -> str:
        return "-".join([self.name, *self.badges])

    @property
    def badges(self) -> list[str]:
        return badges(tuned=self.tuned, miniature=self.miniature)


def sections(found: InStore, seeds: Mapping[str, int], *, quick: bool, picks: Picks | None = None) -> list[Section]:
    """`seeds` of all runs by their ids. With `picks`, only what has runs with hyper-parameters of them."""
    found.quick, found.picks = quick, picks or {}
    shown = []
    for artifact in ARTIFACTS.values():
        settings = set(artifact.settings())
        ids = {setting: found.ids(setting) for setting in settings}
        if any(of_setting for setting, of_setting in ids.items() if picks is None or setting.own_pick(picks)):
            runs = sorted({run for of_setting in ids.values() for run in of_setting.values()})
            there = sum(map(bool, ids.values()))
            shown.append(_section(artifact, found, seeds, (there, len(settings), runs)))
    return shown


def _section(
    artifact: PaperTable | PaperFigure, found: InStore, seeds: Mapping[str, int], extent: tuple[int, int, list[str]]
) -> Section:
    head = artifact.name, artifact.title, artifact.place, found.quick, bool(found.picks), *extent
    if isinstance(artifact, PaperFigure):
        drawable = importlib.util.find_spec("matplotlib") is not None
        return Section(*head, picture=artifact.svg(found) if drawable else None)
    cells = list(artifact.cells(found, comparable=not found.quick))
    columns = [
        Column(
            line.title,
            [MEASURES[measure][0] for measure in measures],
            rows,
            compare({title: by_seed(of_row[0], seeds) for title, of_row in rows if of_row[0].values}),
        )
        for line, measures, rows in artifact.parts(cells)
    ]
    notes = [*artifact.notes, tuned.note(artifact.settings(), found.picks)] if found.picks else artifact.notes
    return Section(*head, columns=columns, notes=notes)


def by_seed(cell: Cell, seeds: Mapping[str, int]) -> dict[int, float]:
    return {seeds[run]: value for run, value in zip(cell.runs, cell.values, strict=True)}
