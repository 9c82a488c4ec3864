"""Weights & Biases: its own environment variables decide where to, and whether at once or later."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.loggers.base import AA, Logger, Row, Tool, name_of
from holdfast.runs.spec import RunSpec

STEP = "step"  # not W&B's own step, which can only increase: a run that goes on from a snapshot fills in earlier ones
EXIT_CODE_OF_CTRL_C = 255  # as W&B has it


class WandB(Tool):
    def __init__(self, out: Path) -> None:
        import wandb

        self._folder = Path(os.environ.get("WANDB_DIR", out)).resolve()
        if wandb.setup().settings.mode == "online":
            wandb.login()

    def start(self, spec: RunSpec, run: str) -> Logger:
        import wandb

        self._folder.mkdir(parents=True, exist_ok=True)
        started = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "holdfast"),
            id=run,
            name=name_of(spec),
            config={name: value for name, value in spec.as_json().items() if value is not None},
            dir=self._folder,
            resume="allow",
            reinit="create_new",
            settings=wandb.Settings(silent=True, console="off", x_disable_stats=True),
        )
        started.define_metric("*", step_metric=STEP)
        return _Run(started)


class _Run(Logger):
    def __init__(self, run: Any) -> None:
        super().__init__()
        self._run = run

    def send(self, rows: Mapping[int, Row]) -> None:
        for step, row in rows.items():
            self._run.log({STEP: step, **row})

    def end(self, step: int, figures: Row) -> None:
        self._run.summary.update({STEP: step, AA: figures["acc"], **figures})  # the last point sent may be an early one
        self._run.finish()

    def fail(self, why: str) -> None:
        self._run.summary["why"] = why
        self._run.finish(exit_code=1)

    def stop(self) -> None:
        self._run.finish(exit_code=EXIT_CODE_OF_CTRL_C)
