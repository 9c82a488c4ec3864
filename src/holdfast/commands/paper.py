"""`holdfast paper`: runs what a table or figure lacks, and renders it."""

import argparse
import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from rich.console import Console

from holdfast.commands.execution import execution, say_what_is_missing, terminal_for
from holdfast.commands.options import add_execution
from holdfast.commands.runs import opened
from holdfast.commands.standing import carry_out_plan, show_claims, show_coverage
from holdfast.datasets.get import data_root
from holdfast.errors import InputError, UnknownName
from holdfast.laboratory.execution import do_missing
from holdfast.paper import tuned
from holdfast.paper.artifacts import ARTIFACTS, badges
from holdfast.paper.estimate import estimate
from holdfast.paper.figure import PaperFigure
from holdfast.paper.picks import NOTES, Picks
from holdfast.paper.setting import Setting, only
from holdfast.paper.table import PaperTable
from holdfast.runs.grid import check_number
from holdfast.runs.identity import RecordIndex, kind
from holdfast.runs.spec import RunSpec
from holdfast.runs.store import Record, Store
from holdfast.runs.sweep import Sweep
from holdfast.storage import files

MINIATURE = "A miniature on the embedded images: its numbers are not to be compared with the published ones."


def describe(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="T1 to T9, F1 to F10, all; or list, coverage, claims")
    plan = "do the missing runs that are most worth so many core-hours; with --estimate only say which"
    add("--plan", type=float, metavar="HOURS", help=plan)
    add("--seeds", type=int, default=3, metavar="N", help="seeds 0 to N-1 (default 3; the paper has 10)")
    add("--only", action="append", default=[], metavar="FIELD=VALUE", help="as method=er-ace,memory=20,dataset=cifar10")
    add("--quick", action="store_true", help="a miniature on the embedded data: minutes instead of days")
    add("--estimate", action="store_true", help="say how long it would take here, and do nothing")
    add("--render", action="store_true", help="run nothing: what is in the store, with the rest as missing")
    picks = "the authors' hyper-parameters: as the text has them, or by M as the released code does (default text)"
    add("--picks", choices=("text", "released"), default="text", help=picks)
    add("--tuned", action="store_true", help="with what holdfast tune has chosen, not with the authors' picks")
    add_execution(parser)
    parser.set_defaults(command=paper)


def paper(options: argparse.Namespace) -> int:
    if options.names == ["list"]:
        return _list()
    if options.plan is not None:
        return carry_out_plan(options, _names(options, also=("claims",)))
    if options.names in (["claims"], ["coverage"]):
        return {"claims": show_claims, "coverage": show_coverage}[options.names[0]](options)
    names = _names(options)
    if options.seeds < 1:
        raise InputError(f"--seeds must be 1 or more, not {options.seeds}")
    wanted = only(options.only)
    picks = tuned.needed(options.out, miniature=options.quick) if options.tuned else {}
    settings = [setting for name in names for setting in ARTIFACTS[name].settings() if setting.fits(wanted)]
    check_number(len(set(settings)) * options.seeds)
    specs: dict[Setting, list[RunSpec]] = {
        setting: setting.specs(options.seeds, quick=options.quick, picks=picks, whose=options.picks)
        for setting in settings
    }
    if not specs:
        raise InputError(f"--only {','.join(options.only)}: nothing of {', '.join(names)} is like that")
    if options.render and options.fresh:
        raise InputError("--render runs nothing, so --fresh has nothing to repeat: leave one of them out")
    store = opened(options) if options.render else _store(options)
    there = RecordIndex(store.rows({"status": "done"}) if store.file.exists() and not options.fresh else [])
    specs = _each_run_once(specs, there)
    runs = [
        run for seed in range(options.seeds) for of_setting in specs.values() for run in of_setting if run.seed == seed
    ]
    console = terminal_for(options)
    if options.tuned:
        console.print(tuned.note(list(specs), picks, options.picks), highlight=False)
    if options.estimate:
        store.open()
        console.print(estimate(Sweep(runs, store, data_root(options.data)), options.jobs))
        return 0
    plans = None if options.render else do_missing(runs, execution(options), console)
    if plans is None:
        ids = {run: record["id"] for run in runs if (record := there.run(run))}
    else:
        ids = {run: plans.ids[run] for run in plans.done()}
    _render_all(console, names, Found(store, specs, ids), options, picks)
    return say_what_is_missing(plans) if plans else 0


def _names(options: argparse.Namespace, also: Sequence[str] = ()) -> list[str]:
    """Of tables and figures; without any, a plan is for all that there is."""
    known = [*ARTIFACTS, *also]
    if options.names == ["all"] or (options.plan is not None and not options.names):
        return known
    for name in options.names:
        if name not in known:
            raise UnknownName("table or figure", name, ["list", "all", "claims", "coverage", *ARTIFACTS])
    if not options.names:
        raise InputError("name a table or figure, or give --plan HOURS; holdfast paper list shows what there is")
    return list(options.names)


def _render_all(
    console: Console, names: Sequence[str], found: "Found", options: argparse.Namespace, picks: Picks
) -> None:
    folder = options.out / "paper"
    files.make_folder(folder)
    for name in names:
        artifact = ARTIFACTS[name]
        if isinstance(artifact, PaperTable):
            asked_for = [setting for setting in artifact.settings() if setting in found.settings]
            whose = tuned.note(asked_for, picks, options.picks) if options.tuned else NOTES[options.picks]
            notes = [whose] + [MINIATURE] * options.quick
            artifact = replace(artifact, notes=[*artifact.notes, *notes])
        file = folder / "-".join([name, *badges(options.picks, tuned=options.tuned, miniature=options.quick)])
        _render(console, artifact, found, file, comparable=not options.quick)


def _store(options: argparse.Namespace) -> Store:
    """Open if it is there: a process may have been killed when it had just made the file."""
    store = Store(options.out / "runs.sqlite")
    if store.file.exists():
        store.open()
    return store


def _list() -> int:
    for name, artifact in ARTIFACTS.items():
        print(f"{name:4} {artifact.title} ({artifact.place}); {len(set(artifact.settings()))} settings")
    return 0


def _each_run_once(specs: Mapping[Setting, Sequence[RunSpec]], there: RecordIndex) -> dict[Setting, list[RunSpec]]:
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


class Found:
    """The records of a setting, by seed; none for settings that were not asked for."""

    def __init__(self, store: Store, specs: Mapping[Setting, Sequence[RunSpec]], ids: Mapping[RunSpec, str]) -> None:
        self.settings = list(specs)
        self._store, self._specs, self._ids = store, specs, ids
        self._records: dict[str, Record] = {}

    def __call__(self, setting: Setting) -> list[Record]:
        return [self._record(self._ids[spec]) for spec in self._specs.get(setting, []) if spec in self._ids]

    def _record(self, run: str) -> Record:
        if run not in self._records:
            self._records[run] = self._store.record(run)
        return self._records[run]


def _render(
    console: Console, artifact: PaperTable | PaperFigure, found: "Found", file: Path, *, comparable: bool
) -> None:
    """`file` has no suffix yet."""
    if isinstance(artifact, PaperFigure):
        for path in artifact.render(found, file):
            console.print(f"{artifact.name}: {path}", highlight=False)
        return
    cells = list(artifact.cells(found, comparable=comparable))
    for table in artifact.render(cells):
        console.print(table)
    for note in artifact.notes:
        console.print(note, style="dim")
    files.write(file.with_suffix(".md"), artifact.markdown(cells).encode())
    files.write(file.with_suffix(".json"), json.dumps([cell.as_json() for cell in cells], indent=1).encode())
