"""`holdfast run`: some methods on one stream, several seeds, then a table and a picture."""

import argparse
import importlib.util
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from holdfast.datasets.get import data_root
from holdfast.errors import InputError
from holdfast.report.live import Live
from holdfast.report.tables import summary
from holdfast.runs.pool import Failed, Finished, run_all
from holdfast.runs.records import Record, Records, write_json
from holdfast.runs.run import prepare
from holdfast.runs.spec import RunSpec, parse_method

DEFAULT_METHODS = ["er", "er-ace", "er-aml"]


@dataclass(slots=True)
class Outcome:
    done: dict[RunSpec, Record] = field(default_factory=dict)
    failed: list[Failed] = field(default_factory=list)
    stopped: bool = False


def compare(options: argparse.Namespace) -> int:
    specs = specs_of(options)
    jobs = cores() if options.jobs is None else options.jobs
    check(options, specs, jobs)
    records = Records(options.out)
    records.open()
    console = Console()
    outcome = _run_missing(specs, records, jobs, options, console)

    finished = [outcome.done[spec] for spec in specs if spec in outcome.done]
    if finished:
        console.print(summary(finished))
        console.print(_agreement(finished), highlight=False)
        _picture(console, finished, options.out / "anytime.png")
    if options.json:
        write_json(options.json, finished)
    for failure in outcome.failed:
        print(f"holdfast: {failure.spec.title} seed {failure.spec.seed} failed: {failure.why}", file=sys.stderr)
    if outcome.stopped:
        print(f"holdfast: stopped; {len(finished)} of {len(specs)} runs are kept in {options.out}", file=sys.stderr)
        return 130
    return 1 if outcome.failed else 0


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def specs_of(options: argparse.Namespace) -> list[RunSpec]:
    if options.seeds < 1:
        raise InputError(f"--seeds must be 1 or more, not {options.seeds}")
    specs = [
        RunSpec(
            stream=options.stream,
            method=name,
            options=chosen,
            memory=options.memory,
            seed=seed,
            lr=options.lr,
            augment=options.augment,
            eval_every=options.eval_every,
            eval_mode=options.eval,
            net=options.net,
        )
        for seed in range(options.seeds)
        for name, chosen in map(parse_method, options.method or DEFAULT_METHODS)
    ]
    return list(dict.fromkeys(specs))


def check(options: argparse.Namespace, specs: list[RunSpec], jobs: int) -> None:
    """Finds every mistake before anything is started or written."""
    if jobs < 1:
        raise InputError(f"--jobs must be 1 or more, not {jobs}")
    if options.json and (options.json.is_dir() or not options.json.parent.is_dir()):
        raise InputError(f"--json {options.json}: give a file in a folder that exists")
    for spec in specs:
        if spec.seed == 0:
            prepare(spec, data_root(options.data))


def _run_missing(
    specs: list[RunSpec], records: Records, jobs: int, options: argparse.Namespace, console: Console
) -> Outcome:
    outcome = Outcome()
    if not options.fresh:
        outcome.done = {spec: record for spec in specs if (record := records.find(spec))}
    if outcome.done:
        console.print(f"{len(outcome.done)} of {len(specs)} runs are in {options.out} already (--fresh repeats them)")
    missing = [spec for spec in specs if spec not in outcome.done]
    events = run_all(missing, data_root(options.data), jobs)
    with Live(console, len(missing)) as live:
        try:
            for event in events:
                if isinstance(event, Finished):
                    records.keep(event.spec, event.record)
                    outcome.done[event.spec] = event.record
                elif isinstance(event, Failed):
                    outcome.failed.append(event)
                live.show(event)
        except KeyboardInterrupt:
            outcome.stopped = True
        finally:
            events.close()
    return outcome


def _agreement(records: list[Record]) -> str:
    worst = min(record["fast_path_agreement"] for record in records)
    return f"fast evaluation path: the plain net's answer on {100 * worst:.1f} % of 500 test samples"


def _picture(console: Console, records: list[Record], path: Path) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        console.print("no picture: it needs matplotlib, pip install 'holdfast[plots]'", markup=False)
        return
    from holdfast.report.figures import anytime

    anytime(records, path)
    console.print(f"picture: {path}", highlight=False)
