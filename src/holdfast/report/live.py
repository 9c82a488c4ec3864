"""What one sees while runs are under way: a bar a run on a terminal, a line now and then elsewhere."""

import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from holdfast.runs.pool import Advanced, Event, Failed, Finished, Started
from holdfast.runs.spec import RunSpec

SECONDS_BETWEEN_LINES = 30


class Live:
    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        self._total = total
        self._done = 0
        self._bars: dict[RunSpec, TaskID] = {}
        self._last_line: dict[RunSpec, float] = {}
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]} {task.fields[accuracy]} {task.fields[left]}"),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )

    def __enter__(self) -> "Live":
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._progress.stop()

    def show(self, event: Event) -> None:
        name = f"{event.spec.title} seed {event.spec.seed}"
        match event:
            case Started(spec):
                self._bars[spec] = self._progress.add_task(name, total=None, speed="starting", accuracy="", left="")
                self._last_line[spec] = time.monotonic()
            case Advanced(spec, p):
                speed = p.step / max(p.seconds, 1e-9)
                left = (p.steps - p.step) / max(speed, 1e-9)
                fields: dict[str, Any] = {
                    "speed": f"{speed:.1f} updates/s",
                    "accuracy": "" if p.aa is None else f"AA {100 * p.aa:.1f} %",
                    "left": f"{_clock(left)} left",
                }
                self._progress.update(self._bars[spec], total=p.steps, completed=p.step, **fields)
                if not self._console.is_terminal and time.monotonic() - self._last_line[spec] > SECONDS_BETWEEN_LINES:
                    self._last_line[spec] = time.monotonic()
                    self._line(f"{name}: {p.step}/{p.steps}, " + ", ".join(filter(None, fields.values())))
            case Finished(spec, record):
                self._done += 1
                self._progress.remove_task(self._bars[spec])
                self._line(
                    f"{name}: Acc {100 * record['acc']:.1f} %, AAA {100 * record['aaa']:.1f} %, "
                    f"{record['seconds']:.0f} s ({self._done}/{self._total})"
                )
            case Failed(spec, why):
                self._done += 1
                self._progress.remove_task(self._bars[spec])
                self._line(f"{name} failed: {why.strip().splitlines()[-1]}")

    def _line(self, text: str) -> None:
        self._progress.console.print(text, highlight=False, markup=False, soft_wrap=True)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
