"""What commands do with many runs: carry them out, then print a table and draw pictures."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from rich.console import Console

from holdfast.commands.pictures import draw
from holdfast.laboratory.execution import Execution, do_missing
from holdfast.measure.evaluate import SAMPLES_COMPARED
from holdfast.report import tables
from holdfast.report.groups import by_setting
from holdfast.report.terminal import terminal
from holdfast.runs.spec import RunSpec
from holdfast.runs.sweep import Sweep
from holdfast.storage import files
from holdfast.streams.named import TASKS


def execution(options: argparse.Namespace) -> Execution:
    return Execution(**{each.name: getattr(options, each.name) for each in fields(Execution)})


def carry_out(specs: Sequence[RunSpec], options: argparse.Namespace) -> int:
    console, how = terminal_for(options), execution(options)
    plans = do_missing(specs, how, progress_for(options))
    _show_results(console, plans, how, by_class=options.by_class)
    if options.quiet and (count := plans.made_elsewhere()):  # it is said otherwise where runs are under way
        console.print(f"{count} of {len(plans.ids)} runs were made under other conditions (processor, torch, threads)")
    return say_what_is_missing(plans)


def terminal_for(options: argparse.Namespace) -> Console:
    """For results. Where stdout is to hold the records, nothing else goes there."""
    return terminal(stderr=files.is_stdout(options.json))


def progress_for(options: argparse.Namespace) -> Console:
    """For what is under way."""
    return terminal(stderr=True, quiet=options.quiet)


def _show_results(console: Console, plans: Sweep, how: Execution, *, by_class: bool | None) -> None:
    done = plans.rows()
    if not done:
        return
    console.print(tables.summary(done, plans.baselines(), plans.failures()))
    worst = min(zip(plans.done(), done, strict=True), key=lambda pair: float(pair[1]["fast_path_agreement"]))
    samples = min(SAMPLES_COMPARED, len(plans.sources[worst[0].stream].dataset.test_y))
    share = f"{100 * worst[1]['fast_path_agreement']:.1f} %"
    console.print(f"fast evaluation path: the plain net's answer on {share} of {samples} test samples")
    for setting, group in by_setting(plans.records()).items():
        dataset = plans.sources[group[0]["stream"]].dataset
        wanted = by_class if by_class is not None else dataset.name not in TASKS
        if wanted:
            console.print(tables.by_class(group, dataset.classes))
        draw(console, group, setting, Path(how.out), dataset if wanted else None)


def say_what_is_missing(plans: Sweep) -> int:
    failed = plans.failed()
    for spec in failed:
        why = plans.store.record(plans.ids[spec])["why"].strip()
        print(f"holdfast: {spec.title} seed {spec.seed} failed: {why}", file=sys.stderr)
    if plans.stopped:
        print(
            f"holdfast: stopped; {len(plans.done())} of {len(plans.ids)} runs are kept in {plans.store.file}, "
            "the same command continues the others",
            file=sys.stderr,
        )
        return 130
    return 1 if failed else 0
