"""`holdfast paper coverage`, `claims` and `--plan`: how far a store has come, and what to do next."""

import argparse
import math
import sys
from collections.abc import Sequence
from functools import lru_cache

from holdfast import datasets
from holdfast.arguments import AT_LEAST_ONE, whole
from holdfast.commands.execution import execution, progress_for, say_what_is_missing, terminal_for
from holdfast.commands.runs import opened
from holdfast.datasets.get import data_root
from holdfast.errors import InputError
from holdfast.laboratory.execution import do_missing
from holdfast.reproduction import budget, claims, coverage, tuned
from holdfast.reproduction.artifacts import ARTIFACTS, badges
from holdfast.reproduction.budget import Wanted
from holdfast.reproduction.estimate import Estimates
from holdfast.reproduction.figures import FIGURES
from holdfast.reproduction.in_store import InStore
from holdfast.reproduction.setting import only
from holdfast.reproduction.tables import TABLES
from holdfast.reproduction.text_claims import CLAIMS
from holdfast.runs.identity import RecordIndex
from holdfast.runs.store import Store
from holdfast.runs.sweep import begun
from holdfast.storage import files
from holdfast.streams.named import parse

RECORDS_AT_HAND = 256


def show_coverage(options: argparse.Namespace) -> int:
    cells = coverage.published_cells(_in_store(options, opened(options)))
    console = terminal_for(options)
    lines = coverage.by_table(cells)
    console.print(coverage.drawn(lines))
    console.print(str(lines[-1][1]), highlight=False)
    return 0


def show_claims(options: argparse.Namespace) -> int:
    """What is in the store decides; nothing is run."""
    judged = claims.judge(CLAIMS, _in_store(options, opened(options)))
    terminal_for(options).print(claims.drawn(judged))
    folder = options.out / "paper"
    files.make_folder(folder)
    file = folder / "-".join(["claims", *badges(options.picks, tuned=options.tuned, miniature=options.quick)])
    files.write(file.with_suffix(".md"), (claims.markdown(judged) + "\n").encode())
    files.write(file.with_suffix(".json"), claims.as_json(judged))
    return 0


def carry_out_plan(options: argparse.Namespace, names: Sequence[str]) -> int:
    _check(options)
    store = Store(options.out / "runs.sqlite")
    store.open()
    there = _in_store(options, store)
    wanted, absent = _with_data(_missing(options, names, there), options)
    rows = store.rows()
    failed = RecordIndex(row for row in rows if row["status"] == "failed")
    if not options.retry_failed:
        wanted = [each for each in wanted if failed.run(each.spec) is None]
    estimates = Estimates((row for row in rows if row["status"] == "done"), data_root(options.data))
    if saved := begun(store):
        for each in wanted:
            each.begun = estimates.plan(each.spec).run_id in saved
    console = terminal_for(options)
    with progress_for(options).status("estimating how long runs take"):
        chosen = budget.choose(wanted, options.plan, estimates.seconds)
    if wanted and not chosen:
        cheapest = min(estimates.seconds(each.spec) for each in wanted)
        raise InputError(f"--plan {options.plan:g}: the shortest missing run takes {cheapest / 3600:.2g} hours or so")
    console.print(budget.drawn(chosen, options.plan) if chosen else "there is nothing to do: no run is missing")
    _say(options, there, absent)
    if options.estimate or not chosen:
        return 0
    plans = do_missing([each.wanted.spec for each in chosen], execution(options), progress_for(options))
    _say(options, _in_store(options, store))
    return say_what_is_missing(plans)


def _check(options: argparse.Namespace) -> None:
    if not 0 < options.plan < math.inf:
        raise InputError(f"--plan takes a number of hours above 0, not {options.plan:g}")
    if options.render or options.fresh:
        raise InputError("--plan does missing runs: leave out --render and --fresh")
    whole("seeds", options.seeds, AT_LEAST_ONE)


def _in_store(options: argparse.Namespace, store: Store) -> InStore:
    picks = tuned.needed(options.out, miniature=options.quick) if options.tuned else {}
    load = lru_cache(RECORDS_AT_HAND)(store.record)
    return InStore(load, store.rows({"status": "done"}), quick=options.quick, picks=picks, whose=options.picks)


def _missing(options: argparse.Namespace, names: Sequence[str], there: InStore) -> list[Wanted]:
    fields = only(options.only)
    cells = coverage.published_cells(there, [name for name in names if name in TABLES])
    others = {name: ARTIFACTS[name].settings() for name in names if name in FIGURES}
    if "claims" in names:
        others["claims"] = claims.settings(CLAIMS)
    fitting = {
        name: [cell for cell in of_table if all(setting.fits(fields) for setting in cell.settings)]
        for name, of_table in cells.items()
    }
    settings = {name: [each for each in of_name if each.fits(fields)] for name, of_name in others.items()}
    if fields and not any((*fitting.values(), *settings.values())):
        raise InputError(f"--only {','.join(options.only)}: no run of {', '.join(names)} is like that")
    return budget.missing(fitting, settings, there, options.seeds)


def _with_data(wanted: Sequence[Wanted], options: argparse.Namespace) -> tuple[list[Wanted], list[str]]:
    """Those whose dataset is there, and how to get the others."""
    get = {row.name: row.status for row in datasets.listing(data_root(options.data)) if row.status != "present"}
    absent = dict.fromkeys(parse(each.spec.stream).kind for each in wanted)
    return [each for each in wanted if parse(each.spec.stream).kind not in get], [get[n] for n in absent if n in get]


def _say(options: argparse.Namespace, there: InStore, absent: Sequence[str] = ()) -> None:
    console = terminal_for(options)
    for command in absent:
        print(f"holdfast: runs on a dataset that is not here are left out: {command}", file=sys.stderr)
    cells = coverage.published_cells(there)
    if not options.quick:
        console.print(str(coverage.by_table(cells)[-1][1]), highlight=False)
