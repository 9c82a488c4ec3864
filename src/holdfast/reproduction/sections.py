"""The paper as far as a store has it: every table and figure of which at least one run is there."""

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.report.compare import Comparison, compare
from holdfast.reproduction import tuned
from holdfast.reproduction.artifacts import ARTIFACTS, badges
from holdfast.reproduction.figure import PaperFigure
from holdfast.reproduction.in_store import InStore
from holdfast.reproduction.measures import MEASURES
from holdfast.reproduction.picks import NOTES, Picks, Whose
from holdfast.reproduction.setting import Setting
from holdfast.reproduction.table import Cell, PaperTable


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
    whose: Whose
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
        return badges(self.whose, tuned=self.tuned, miniature=self.miniature)


def sections(
    found: InStore, seeds: Mapping[str, int], *, quick: bool, picks: Picks | None = None, whose: Whose = "text"
) -> list[Section]:
    """`seeds` of all runs by their ids. With `picks`, or others than the text's, only what has runs with such."""
    found.quick, found.picks, found.whose = quick, picks or {}, whose

    def is_apart(setting: Setting) -> bool:
        return setting.own_pick(found.picks) is not None if picks is not None else setting.has_pick_of_its_own(whose)

    shown = []
    for artifact in ARTIFACTS.values():
        settings = set(artifact.settings())
        ids = {setting: found.ids(setting) for setting in settings}
        if any(of_setting for setting, of_setting in ids.items() if is_apart(setting)):
            runs = sorted({run for of_setting in ids.values() for run in of_setting.values()})
            there = sum(map(bool, ids.values()))
            shown.append(_section(artifact, found, seeds, (there, len(settings), runs)))
    return shown


def _section(
    artifact: PaperTable | PaperFigure, found: InStore, seeds: Mapping[str, int], extent: tuple[int, int, list[str]]
) -> Section:
    head = artifact.name, artifact.title, artifact.place, found.quick, bool(found.picks), found.whose, *extent
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
    whose = tuned.note(artifact.settings(), found.picks) if found.picks else NOTES[found.whose]
    return Section(*head, columns=columns, notes=[*artifact.notes, whose])


def by_seed(cell: Cell, seeds: Mapping[str, int]) -> dict[int, float]:
    return {seeds[run]: value for run, value in zip(cell.runs, cell.values, strict=True)}
