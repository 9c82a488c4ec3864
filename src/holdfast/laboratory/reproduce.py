"""The paper's tables and figures as a function call: the runs behind them are done, then they are drawn."""

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from holdfast.arguments import AT_LEAST_ONE, whole
from holdfast.errors import InputError, UnknownName
from holdfast.laboratory.execution import Execution, do_missing
from holdfast.laboratory.results import Results
from holdfast.report import html
from holdfast.report.terminal import terminal
from holdfast.reproduction import tuned
from holdfast.reproduction.artifacts import ARTIFACTS, badges
from holdfast.reproduction.figure import PaperFigure
from holdfast.reproduction.measures import MEASURES
from holdfast.reproduction.picks import NOTES, Picks, Whose
from holdfast.reproduction.setting import Setting, only
from holdfast.reproduction.table import Cell, PaperTable
from holdfast.runs.grid import check_number
from holdfast.runs.identity import RecordIndex, kind
from holdfast.runs.spec import RunSpec
from holdfast.runs.store import Record, Store
from holdfast.runs.sweep import Sweep
from holdfast.storage import files

MINIATURE = "A miniature on the embedded images: its numbers are not to be compared with the published ones."
Specs = dict[Setting, list[RunSpec]]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Which tables and figures, from which runs. The options of the command line have these names."""

    names: Sequence[str]
    seeds: int = 3
    only: Sequence[str] = ()
    quick: bool = False
    picks: Whose = "text"
    tuned: bool = False
    render: bool = False

    def check(self, how: Execution) -> None:
        for name in self.names:
            if name not in ARTIFACTS:
                raise UnknownName("table or figure", name, ["all", *ARTIFACTS])
        whole("seeds", self.seeds, AT_LEAST_ONE)
        if self.picks not in NOTES:
            raise UnknownName("set of picks", self.picks, NOTES)
        if self.render and how.fresh:
            raise InputError("--render runs nothing, so --fresh has nothing to repeat: leave one of them out")
        if self.render and not how.store.file.is_file():
            raise InputError(f"there are no runs in {how.out}; holdfast run --out {how.out} makes some")


@dataclass(frozen=True)
class Needed:
    """The runs behind what was asked for."""

    asked: Asked
    store: Store
    specs: Specs
    there: RecordIndex
    chosen: Picks  # by `holdfast tune`

    @property
    def runs(self) -> list[RunSpec]:
        """The first seed of everything comes first."""
        every = list(chain.from_iterable(self.specs.values()))
        return [run for seed in range(self.asked.seeds) for run in every if run.seed == seed]

    def note(self, settings: Sequence[Setting]) -> str:
        """Whose hyper-parameters these settings have."""
        if not self.asked.tuned:
            return NOTES[self.asked.picks]
        return tuned.note(settings, self.chosen, self.asked.picks)


def needed(asked: Asked, how: Execution) -> Needed:
    """Finds the mistakes in what was asked for, before anything starts."""
    asked.check(how)
    wanted = only(asked.only)
    chosen = tuned.needed(Path(how.out), miniature=asked.quick) if asked.tuned else {}
    settings = [setting for name in asked.names for setting in ARTIFACTS[name].settings() if setting.fits(wanted)]
    check_number(len(set(settings)) * asked.seeds)
    specs: Specs = {
        setting: setting.specs(asked.seeds, quick=asked.quick, picks=chosen, whose=asked.picks) for setting in settings
    }
    if not specs:
        raise InputError(f"--only {','.join(asked.only)}: no run of {', '.join(asked.names)} is like that")
    store = how.store
    if store.file.exists():  # a process may have been killed when it had just made the file
        store.open()
    there = RecordIndex(store.rows({"status": "done"}) if store.file.exists() and not how.fresh else [])
    return Needed(asked, store, _each_run_once(specs, there), there, chosen)


def reproduce(of: Needed, how: Execution, console: Console) -> "PaperResults":
    """Does the runs that are missing, unless only what is there is to be drawn."""
    sweep = None if of.asked.render else do_missing(of.runs, how, console)
    if sweep is None:
        ids = {run: record["id"] for run in of.runs if (record := of.there.run(run))}
    else:
        ids = {run: sweep.ids[run] for run in sweep.done()}
    return PaperResults(of, sweep, ids)


def paper(
    *names: str,
    seeds: int = 3,
    only: str = "",
    quick: bool = False,
    picks: Whose = "text",
    tuned: bool = False,
    render: bool = False,
    progress: bool = True,
    **how: Any,
) -> "PaperResults":
    """Does the runs behind tables and figures of the paper, and makes these. `holdfast paper` is the same call.

    Args:
        names: T1 to T9, F1 to F10, or "all".
        seeds: their number; the paper has 10.
        only: only some of the runs, such as "method=er-ace,memory=20".
        quick: a miniature on the embedded images: minutes instead of days.
        picks: the authors' hyper-parameters, as the text has them ("text") or by memory size ("released").
        tuned: use the hyper-parameters that `holdfast tune` has chosen.
        render: nothing is run; what is not in `out` yet is shown as missing.
        progress: whether to show progress.
        how: how it is done, as for `holdfast.run`: out, jobs, fresh, ...

    Returns:
        The tables and figures, and the results of the runs behind them.

    Raises:
        InputError: if something is unknown or does not go together; nothing has then been run.
        KeyboardInterrupt: if it was interrupted. What was done is kept, and the same call continues from there.

    Examples:
        >>> import holdfast
        >>> found = holdfast.paper("T7", quick=True, only="method=er", seeds=1, progress=False)
        >>> found.names, len(found.results)
        (['T7'], 2)
    """
    known = [each.name for each in fields(Execution)]
    for name in how:
        if name not in known:
            raise UnknownName("argument", name, [*known, "seeds", "only", "quick", "picks", "tuned", "render"])
    if not names:
        raise InputError(f"name a table or figure: {', '.join(ARTIFACTS)} or all")
    chosen = list(ARTIFACTS) if "all" in names else list(names)
    asked = Asked(
        names=chosen, seeds=seeds, only=[only] if only else [], quick=quick, picks=picks, tuned=tuned, render=render
    )
    execution = Execution(**how)
    results = reproduce(needed(asked, execution), execution, terminal(stderr=True, quiet=not progress))
    if results.sweep is not None and results.sweep.stopped:
        raise KeyboardInterrupt
    return results


class PaperResults:
    """Tables and figures of the paper, with our numbers beside the published ones. A notebook displays them."""

    def __init__(self, of: Needed, sweep: Sweep | None, ids: Mapping[RunSpec, str]) -> None:
        self.sweep = sweep  # None if nothing was to be run
        self._of, self._ids = of, ids
        self._records: dict[str, Record] = {}

    @property
    def names(self) -> list[str]:
        """What was asked for."""
        return list(self._of.asked.names)

    @cached_property
    def results(self) -> Results:
        """Of the runs behind it; there are none with `render=True`.

        Raises:
            InputError: if nothing was to be run.
        """
        if self.sweep is None:
            raise InputError("with render=True nothing is run: holdfast runs list shows what is there")
        return Results(self.sweep)

    def records(self, setting: Setting) -> list[Record]:
        """The records of one setting, by seed; none if it was not asked for."""
        return [self._record(self._ids[spec]) for spec in self._of.specs.get(setting, []) if spec in self._ids]

    def cells(self, name: str) -> list[Cell]:
        """Reads the numbers of a table.

        Args:
            name: T1 to T9.

        Returns:
            One entry for each number, with `row`, `column`, `measure`, `values`, `ours`, `theirs` and `verdict`.

        Raises:
            InputError: if it is not a table that was asked for.
        """
        return list(self._table(name).cells(self.records, comparable=not self._of.asked.quick))

    def tables(self, name: str) -> list[Table]:
        """Makes a table of the paper as `holdfast paper` prints it.

        Args:
            name: T1 to T9.

        Returns:
            One table of rich for each column of the paper's.

        Raises:
            InputError: if it is not a table that was asked for.
        """
        return self._table(name).render(self.cells(name))

    def figure(self, name: str) -> str:
        """Draws a figure of the paper.

        Args:
            name: F1 to F10.

        Returns:
            The figure as SVG.

        Raises:
            InputError: if it is not a figure that was asked for.
        """
        artifact = self._artifact(name)
        if not isinstance(artifact, PaperFigure):
            raise InputError(f"{name} is a table: tables({name!r})")
        return artifact.svg(self.records)

    def notes(self, name: str) -> list[str]:
        """Says what to know about a table.

        Args:
            name: T1 to T9.

        Returns:
            Sentences, such as whose hyper-parameters it has.

        Raises:
            InputError: if it is not a table that was asked for.
        """
        return list(self._table(name).notes)

    def write(self, name: str, folder: str | Path) -> list[Path]:
        """Writes a table as Markdown and JSON, or a figure as PNG and SVG.

        Args:
            name: T1 to T9, F1 to F10.
            folder: the folder; it is created if there is none.

        Returns:
            The files.

        Raises:
            InputError: if it was not asked for.
            WriteError: if they cannot be written.
        """
        asked, folder = self._of.asked, Path(folder)
        files.make_folder(folder)
        file = folder / "-".join([name, *badges(asked.picks, tuned=asked.tuned, miniature=asked.quick)])
        artifact = self._artifact(name)
        if isinstance(artifact, PaperFigure):
            return artifact.render(self.records, file)
        cells, paths = self.cells(name), [file.with_suffix(".md"), file.with_suffix(".json")]
        files.write(paths[0], artifact.markdown(cells).encode())
        files.write(paths[1], json.dumps([cell.as_json() for cell in cells], indent=1).encode())
        return paths

    def _artifact(self, name: str) -> PaperTable | PaperFigure:
        if name not in self.names:
            raise UnknownName("table or figure", name, self.names)
        artifact, of = ARTIFACTS[name], self._of
        if isinstance(artifact, PaperFigure):
            return artifact
        shown = [setting for setting in artifact.settings() if setting in of.specs]
        return replace(artifact, notes=[*artifact.notes, of.note(shown), *[MINIATURE] * of.asked.quick])

    def _table(self, name: str) -> PaperTable:
        artifact = self._artifact(name)
        if not isinstance(artifact, PaperTable):
            raise InputError(f"{name} is a figure: figure({name!r})")
        return artifact

    def _record(self, run: str) -> Record:
        if run not in self._records:
            self._records[run] = self._of.store.record(run)
        return self._records[run]

    def __repr__(self) -> str:
        return f"<PaperResults: {', '.join(self.names)} of {len(self._ids)} runs>"

    def _repr_html_(self) -> str:
        return "".join(
            self.figure(name) if isinstance(ARTIFACTS[name], PaperFigure) else self._as_html(name)
            for name in self.names
        )

    def _as_html(self, name: str) -> str:
        artifact, parts = self._table(name), []
        for column, measures, rows in artifact.parts(self.cells(name)):
            heads = [part for measure in measures for part in (MEASURES[measure][0], "published", "difference")]
            shown = [
                html.row(title, [part for cell in cells for part in (cell.ours, cell.theirs, cell.verdict)])
                for title, cells in rows
            ]
            title = f"{name}: {artifact.title}: {column.title}"
            parts.append(html.table(["method", *heads], shown, title, " ".join(artifact.notes)))
        return "".join(parts)


def _each_run_once(specs: Mapping[Setting, Sequence[RunSpec]], there: RecordIndex) -> Specs:
    """Probes change nothing: a run with those of a figure is one for a table too, in the store or still to be made."""
    made = {spec: there.run(spec) for spec in chain.from_iterable(specs.values())}
    run_of = {spec: (kind(spec), spec.seed) for spec, record in made.items() if record is None}
    asked: dict[Hashable, dict[str, None]] = {}  # the probes, in their order
    for spec, run in run_of.items():
        asked.setdefault(run, {}).update(dict.fromkeys(spec.probe))

    def once(spec: RunSpec) -> RunSpec:
        record = made[spec]
        return replace(spec, probe=tuple(asked[run_of[spec]] if record is None else record["probe"]))

    return {setting: [once(spec) for spec in of_setting] for setting, of_setting in specs.items()}
