"""Runs that are planned, stopped and taken up again."""

from pathlib import Path
from typing import Any

from holdfast.runs.plan import Plan, plan
from holdfast.runs.run import Run
from holdfast.runs.spec import RunSpec
from holdfast.streams.named import source


def planned(spec: RunSpec, root: Path = Path()) -> Plan:
    return plan(spec, source(spec.stream, root))


def stopped_after_every_step(spec: RunSpec, root: Path) -> dict[str, Any]:
    """The record of a run that was taken up from a snapshot after each step."""
    run = Run(planned(spec, root))
    while not run.done:
        run.advance()
        snapshot = run.snapshot()
        run = Run(planned(spec, root))
        assert run.take_up(snapshot)
    return run.record()
