"""`holdfast paper`: runs what a table or figure lacks, and renders it."""

import argparse
from collections.abc import Sequence
from dataclasses import fields

from rich.console import Console

from holdfast.commands.execution import execution, progress_for, say_what_is_missing, terminal_for
from holdfast.commands.options import add_execution
from holdfast.commands.standing import carry_out_plan, show_claims, show_coverage
from holdfast.errors import InputError, UnknownName
from holdfast.laboratory.reproduce import Asked, PaperResults, needed, reproduce
from holdfast.reproduction.artifacts import ARTIFACTS
from holdfast.reproduction.estimate import estimate
from holdfast.reproduction.figure import PaperFigure
from holdfast.runs.sweep import Sweep


def describe(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="T1 to T9, F1 to F10, all; or list, coverage, claims")
    plan = "do the missing runs most worth this many core-hours; with --estimate only list them"
    add("--plan", type=float, metavar="HOURS", help=plan)
    add("--seeds", type=int, default=3, metavar="N", help="seeds 0 to N-1 (default 3; the paper has 10)")
    add(
        "--only",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="such as method=er-ace,memory=20,dataset=cifar10",
    )
    add("--quick", action="store_true", help="a miniature on the embedded data: minutes instead of days")
    add("--estimate", action="store_true", help="say how long it would take on this machine, and do nothing else")
    add("--render", action="store_true", help="run nothing: show what is in the store, the rest as missing")
    picks = "the authors' hyper-parameters: as the text has them, or by M as the released code does (default text)"
    add("--picks", choices=("text", "released"), default="text", help=picks)
    add("--tuned", action="store_true", help="use what holdfast tune has chosen instead of the authors' picks")
    add_execution(parser)
    parser.set_defaults(command=paper)


def paper(options: argparse.Namespace) -> int:
    if options.names == ["list"]:
        return _list()
    if options.plan is not None:
        return carry_out_plan(options, _names(options, also=("claims",)))
    if options.names in (["claims"], ["coverage"]):
        return {"claims": show_claims, "coverage": show_coverage}[options.names[0]](options)
    chosen = {each.name: getattr(options, each.name) for each in fields(Asked)}
    asked, how = Asked(**{**chosen, "names": _names(options)}), execution(options)
    of, console = needed(asked, how), terminal_for(options)
    if asked.tuned:
        console.print(of.note(list(of.specs)), highlight=False)
    if options.estimate:
        of.store.open()
        console.print(estimate(Sweep(of.runs, of.store, how.root), options.jobs))
        return 0
    results = reproduce(of, how, progress_for(options))
    for name in results.names:
        paths = results.write(name, options.out / "paper")
        if isinstance(ARTIFACTS[name], PaperFigure):
            for path in paths:
                console.print(f"{name}: {path}", highlight=False)
        else:
            _show(console, results, name)
    return say_what_is_missing(results.sweep) if results.sweep else 0


def _show(console: Console, results: PaperResults, name: str) -> None:
    for table in results.tables(name):
        console.print(table)
    for note in results.notes(name):
        console.print(note, style="dim")


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


def _list() -> int:
    for name, artifact in ARTIFACTS.items():
        print(f"{name:4} {artifact.title} ({artifact.place}); {len(set(artifact.settings()))} settings")
    return 0
