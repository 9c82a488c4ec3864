"""TensorBoard: a folder of event files a run, below OUT/tensorboard."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.loggers.base import AA, Logger, Row, Tool, settings
from holdfast.runs.spec import RunSpec


class TensorBoard(Tool):
    def __init__(self, out: Path) -> None:
        import torch.utils.tensorboard  # noqa: F401

        self._out = out / "tensorboard"

    def start(self, spec: RunSpec, run: str) -> Logger:
        title = re.sub(r"[^\w.,=+-]+", "_", spec.title).strip("_")[:100]
        return _Run(self._out / f"{title}-s{spec.seed}-{run[:8]}", spec)


class _Run(Logger):
    def __init__(self, folder: Path, spec: RunSpec) -> None:
        super().__init__()
        from torch.utils.tensorboard import SummaryWriter
        from torch.utils.tensorboard.summary import hparams

        self._writer: Any = SummaryWriter(str(folder))
        self._last = math.inf
        # Neither add_hparams, which makes a second run of them, nor the list of all hyper-parameters: TensorBoard would
        # take the list of one run for that of all, and without any it finds those of every run.
        _, start, self._success = hparams(settings(spec), {})
        self._add(start)
        self._writer.flush()

    def missing(self, steps: Sequence[int]) -> Sequence[int]:
        """All from the first that is missing on: points are shown in the order in which they came."""
        missing = super().missing(steps)
        return [step for step in steps if step >= missing[0]] if missing else []

    def send(self, rows: Mapping[int, Row]) -> None:
        for step, row in rows.items():
            if AA in row:
                if step <= self._last:
                    self._drop_from(step)
                self._last = step
            for name, value in row.items():
                self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def end(self, step: int, figures: Row) -> None:
        for name, value in figures.items():
            self._writer.add_scalar(f"final/{name}", value, step)
        self._add(self._success)
        self._writer.close()

    def fail(self, why: str) -> None:
        """A note, not a status: TensorBoard keeps the first status it is told, and the run may be tried again."""
        self._writer.add_text("failed", why)
        self._writer.close()

    def stop(self) -> None:
        self._writer.close()

    def _add(self, summary: Any) -> None:
        self._writer.file_writer.add_summary(summary)

    def _drop_from(self, step: int) -> None:
        """TensorBoard drops what it has of this and later steps, from an earlier attempt, too."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        self._writer.file_writer.add_event(Event(step=step, session_log=SessionLog(status=SessionLog.START)))
