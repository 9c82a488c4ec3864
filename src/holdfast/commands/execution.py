"""What commands do with many runs: carry them out, then print a table and draw pictures."""

import argparse
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from rich.console import Console

from holdfast.laboratory.execution import Execution, do_missing
from holdfast.measure.evaluate import SAMPLES_COMPARED
from holdfast.report.groups import by_setting
from holdfast.report.tables import summary
from holdfast.report.terminal import terminal
from holdfast.runs.spec import RunSpec
from holdfast.runs.store import Record
from holdfast.runs.sweep import Sweep
from holdfast.storage import files


def execution(options: argparse.Namespace) -> Execution:
    return Execution(**{each.name: getattr(options, each.name) for each in fields(Execution)})


def carry_out(specs: Sequence[RunSpec], options: argparse.Namespace) -> int:
    console, how = terminal_for(options), execution(options)
    plans = do_missing(specs, how, console)
    _show_results(console, plans, how)
    return say_what_is_missing(plans)


def terminal_for(options: argparse.Namespace) -> Console:
    """Where stdout is to hold the records, nothing else goes there."""
    return terminal(stderr=files.is_stdout(options.json))


def _show_results(console: Console, plans: Sweep, how: Execution) -> None:
    done = plans.rows()
    if done:
        console.print(summary(done, plans.baselines()))
        worst = min(zip(plans.done(), done, strict=True), key=lambda pair: float(pair[1]["fast_path_agreement"]))
        samples = min(SAMPLES_COMPARED, len(plans.sources[worst[0].stream].dataset.test_y))
        share = f"{100 * worst[1]['fast_path_agreement']:.1f} %"
        console.print(f"fast evaluation path: the plain net's answer on {share} of {samples} test samples")
        _draw(console, plans.records(), Path(how.out))


def _draw(console: Console, records: list[Record], folder: Path) -> None:
    """A picture for each setting, with all methods in it."""
    if importlib.util.find_spec("matplotlib") is None:
        console.print("no picture: it needs matplotlib, pip install 'holdfast[plots]'")
        return
    from holdfast.report.figures import anytime

    for setting, group in by_setting(records).items():
        path = folder / ("-".join(["anytime", *setting]).replace("/", "_") + ".png")
        anytime(group, path)
        console.print(f"picture: {path}", highlight=False)


def say_what_is_missing(plans: Sweep) -> int:
    failed = plans.failed()
    for spec in failed:
        why = plans.store.record(plans.ids[spec])["why"].strip()
        print(f"holdfast: {spec.title} seed {spec.seed} failed: {why}", file=sys.stderr)
    if plans.stopped:
        print(
            f"holdfast: stopped; {len(plans.done())} of {len(plans.ids)} runs are kept in {plans.store.file}, "
            "the same command goes on with the others where they are",
            file=sys.stderr,
        )
        return 130
    return 1 if failed else 0
