"""`holdfast run`: some methods on one stream, several seeds, then a table and a picture."""

import argparse
import importlib.util
import os
import sys
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


def specs_of(options: argparse.Namespace) -> list[RunSpec]:
    if options.seeds < 1:
        raise InputError(f"--seeds must be 1 or more, not {options.seeds}")
    methods = [parse_method(text) for text in options.method or DEFAULT_METHODS]
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
        for name, chosen in methods
    ]
    return list({spec.id(""): spec for spec in specs}.values())


def compare(options: argparse.Namespace) -> int:
    specs = specs_of(options)
    jobs = len(os.sched_getaffinity(0)) if options.jobs is None else options.jobs
    if jobs < 1:
        raise InputError(f"--jobs must be 1 or more, not {jobs}")
    if options.json and not options.json.parent.is_dir():
        raise InputError(f"--json {options.json}: there is no folder {options.json.parent}")
    root = data_root(options.data)
    for spec in specs:
        if spec.seed == 0:
            prepare(spec, root)
    records = Records(options.out)
    records.open()

    done: dict[RunSpec, Record] = {}
    if not options.fresh:
        done = {spec: record for spec in specs if (record := records.find(spec))}
    console = Console()
    if done:
        console.print(f"{len(done)} of {len(specs)} runs are in {options.out} already (--fresh repeats them)")
    failed: list[Failed] = []
    stopped = False
    events = run_all([spec for spec in specs if spec not in done], root, jobs)
    with Live(console, len(specs) - len(done)) as live:
        try:
            for event in events:
                if isinstance(event, Finished):
                    records.keep(event.spec, event.record)
                    done[event.spec] = event.record
                elif isinstance(event, Failed):
                    failed.append(event)
                live.show(event)
        except KeyboardInterrupt:
            stopped = True
        finally:
            events.close()

    ordered = [done[spec] for spec in specs if spec in done]
    if ordered:
        console.print(summary(ordered))
        _picture(console, ordered, options.out / "anytime.png")
    if options.json:
        write_json(options.json, ordered)
    for failure in failed:
        print(f"holdfast: {failure.spec.title} seed {failure.spec.seed} failed: {failure.why}", file=sys.stderr)
    if stopped:
        print(
            f"holdfast: stopped; {len(ordered)} of {len(specs)} runs are kept in {options.out}",
            file=sys.stderr,
        )
        return 130
    return 1 if failed else 0


def _picture(console: Console, records: list[Record], path: Path) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        console.print("no picture: it needs matplotlib, pip install 'holdfast[plots]'", markup=False)
        return
    from holdfast.report.figures import anytime

    anytime(records, path)
    console.print(f"picture: {path}", highlight=False)
