"""Carrying out many runs: what is missing, with progress and loggers; then a table and pictures."""

import argparse
import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from holdfast.commands.preparation import compute_features
from holdfast.datasets.get import data_root
from holdfast.errors import InputError
from holdfast.loggers import Loggers
from holdfast.machine import cores
from holdfast.measure import precision
from holdfast.measure.evaluate import SAMPLES_COMPARED
from holdfast.report.live import Live
from holdfast.report.tables import by_setting, summary
from holdfast.report.terminal import terminal
from holdfast.runs.backends.local import Local
from holdfast.runs.spec import RunSpec
from holdfast.runs.store import Record, Store
from holdfast.runs.sweep import Backend, Sweep
from holdfast.runs.worker import Event
from holdfast.storage import files


def carry_out(specs: Sequence[RunSpec], options: argparse.Namespace) -> int:
    console = terminal_for(options)
    plans = do_missing(specs, options, console)
    _show_results(console, plans, options)
    return say_what_is_missing(plans)


def terminal_for(options: argparse.Namespace) -> Console:
    """Where stdout is to hold the records, nothing else goes there."""
    return terminal(stderr=files.is_stdout(options.json))


def do_missing(specs: Sequence[RunSpec], options: argparse.Namespace, console: Console) -> Sweep:
    """Runs what is not in the store yet, where and how the options say."""
    _check(options)
    store = Store(options.out / "runs.sqlite")
    how = {"snapshot_every": options.snapshot_every, "keep_learners": options.keep_learners}
    plans = Sweep(specs, store, data_root(options.data), **how, precision=precision.asked(options.precision))
    for stream, source in plans.sources.items():
        for note in source.dataset.notes:
            console.print(f"{stream}: {note}", highlight=False)
    loggers = Loggers(options.log, options.out, plans.ids)
    backend = _backend(options, plans)
    store.open()
    repeat = list(plans.ids) if options.fresh else plans.failed() if options.retry_failed else []
    _say_what_is_there(console, plans, repeat)
    compute_features(plans.to_do(repeat), plans.sources, console)
    with loggers, Live(console, plans.to_do(repeat)) as live:

        def show(event: Event) -> None:
            live.show(event)
            loggers.show(event)

        plans.run(backend, show, repeat)
    if options.json:
        files.output(options.json, json.dumps(plans.records(), separators=(",", ":")).encode())
    return plans


def _check(options: argparse.Namespace) -> None:
    if options.jobs is not None and options.jobs < 1:
        raise InputError(f"--jobs must be 1 or more, not {options.jobs}")
    if not 0 < options.snapshot_every < float("inf"):
        raise InputError(f"--snapshot-every must be above 0 seconds, not {options.snapshot_every}")
    if options.json not in (None, files.STDOUT) and (options.json.is_dir() or not options.json.parent.is_dir()):
        raise InputError(f"--json {options.json}: give a file in a folder that exists")


def _backend(options: argparse.Namespace, plans: Sweep) -> Backend:
    if options.backend == "local":
        if options.address or options.cpus_per_run or options.gpus_per_run:
            raise InputError("--address, --cpus-per-run and --gpus-per-run are for --backend ray")
        return Local(data_root(options.data), options.jobs or cores())
    from holdfast.runs.backends.ray import Cluster

    return Cluster(
        plans.sources,
        plans.ids,
        options.address,
        jobs=options.jobs,
        cpus=options.cpus_per_run or 1,
        gpus=options.gpus_per_run or 0,
    )


def _say_what_is_there(console: Console, plans: Sweep, repeat: Sequence[RunSpec]) -> None:
    if done := len(set(plans.done()).difference(repeat)):
        notes = "".join(f", {note}" for note in plans.differences())
        console.print(
            f"{done} of {len(plans.ids)} runs are in {plans.store.file} already{notes} (--fresh repeats them)"
        )
    if failed := len(set(plans.failed()).difference(repeat)):
        console.print(f"{failed} of {len(plans.ids)} runs failed before (--retry-failed repeats them)")


def _show_results(console: Console, plans: Sweep, options: argparse.Namespace) -> None:
    done = plans.rows()
    if done:
        console.print(summary(done))
        worst = min(zip(plans.done(), done, strict=True), key=lambda pair: float(pair[1]["fast_path_agreement"]))
        samples = min(SAMPLES_COMPARED, len(plans.sources[worst[0].stream].dataset.test_y))
        share = f"{100 * worst[1]['fast_path_agreement']:.1f} %"
        console.print(f"fast evaluation path: the plain net's answer on {share} of {samples} test samples")
        _draw(console, plans.records(), options.out)


def _draw(console: Console, records: list[Record], folder: Path) -> None:
    """A picture a setting, with all methods in it."""
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
