"""What one sees while runs are under way: a table and bars on a terminal, a line now and then elsewhere."""

import time
from collections.abc import Callable, Hashable, Sequence
from types import TracebackType
from typing import Any

from rich import box
from rich.console import Console
from rich.live import Live as Screen
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Table

from holdfast.runs.identity import work
from holdfast.runs.spec import RunSpec
from holdfast.runs.worker import Advanced, Event, Failed, Finished, Noted, Started

SECONDS_BETWEEN_LINES = 30
SECONDS_BETWEEN_PICTURES = 0.25


class Live:
    def __init__(self, console: Console, specs: Sequence[RunSpec]) -> None:
        self._console = console
        self._outlook = Outlook(specs)
        self._rows: dict[RunSpec, TaskID] = {}
        self._last_line: dict[RunSpec, float] = {}
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]} {task.fields[accuracy]} {task.fields[left]}"),
            console=console,
        )
        self._notebook: _Notebook | None = None
        self._screen = Screen(console=console, transient=True, get_renderable=self._picture, refresh_per_second=4)

    def __enter__(self) -> "Live":
        if self._console.is_terminal:
            self._screen.start()
        elif self._console.is_jupyter and not self._console.quiet:
            self._notebook = _Notebook(self._picture)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._screen.stop()
        if self._notebook is not None:
            self._notebook.end()

    def show(self, event: Event) -> None:
        self._show(event)
        if self._notebook is not None:
            self._notebook.refresh()

    def _show(self, event: Event) -> None:
        name = f"{event.spec.title} seed {event.spec.seed}"
        match event:
            case Started(spec):
                self._outlook.started(spec)
                if spec not in self._rows:
                    self._rows[spec] = self._bars.add_task(name, total=None, speed="starting", accuracy="", left="")
                    self._last_line[spec] = time.monotonic()
            case Noted(_, text):
                self._line(f"{name} {text}")
            case Advanced(spec, p, anytime):
                self._outlook.advanced(spec, p.step / p.steps, p.seconds)
                speed = p.step / max(p.seconds, 1e-9)
                fields: dict[str, Any] = {
                    "speed": f"{speed:.1f} updates/s",
                    "left": f"{clock((p.steps - p.step) / max(speed, 1e-9))} left",
                }
                if anytime:
                    fields["accuracy"] = f"AA {100 * anytime[-1][1]:.1f} %"
                self._bars.update(self._rows[spec], total=p.steps, completed=p.step, **fields)
                if not self._sees_bars and time.monotonic() - self._last_line[spec] > SECONDS_BETWEEN_LINES:
                    self._last_line[spec] = time.monotonic()
                    self._line(f"{name}: {p.step}/{p.steps}, " + ", ".join(fields.values()))
            case Finished(spec, record):
                self._ended(spec, failed=False)
                figures = f"Acc {100 * record['acc']:.1f} %, AAA {100 * record['aaa']:.1f} %, {record['seconds']:.0f} s"
                if self._notebook is None:
                    self._line(f"{name}: {figures} ({self._outlook})")
            case Failed(spec, why):
                self._ended(spec, failed=True)
                self._line(f"{name} failed: {why.strip().splitlines()[-1]} ({self._outlook})")

    def _ended(self, spec: RunSpec, *, failed: bool) -> None:
        self._outlook.ended(spec, failed=failed)
        if spec in self._rows:  # not if its worker died before it began
            self._bars.remove_task(self._rows.pop(spec))

    @property
    def _sees_bars(self) -> bool:
        return self._console.is_terminal or self._notebook is not None

    def _picture(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for name in self._outlook.counts:
            table.add_column(name, justify="right")
        table.add_column("time left", justify="right")
        table.add_row(*map(str, self._outlook.counts.values()), clock(self._outlook.seconds_left()))
        both = Table.grid()
        both.add_row(table)
        both.add_row(self._bars)
        return both

    def _line(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True)


class _Notebook:
    """One output of a cell that is replaced as runs go on, and empty when they have ended."""

    def __init__(self, picture: Callable[[], Table]) -> None:
        from IPython.display import display

        self._picture = picture
        self._shown = time.monotonic()
        self._output = display(picture(), display_id=True)

    def refresh(self) -> None:
        if time.monotonic() - self._shown > SECONDS_BETWEEN_PICTURES:
            self._shown = time.monotonic()
            self._output.update(self._picture())

    def end(self) -> None:
        from IPython.display import HTML

        self._output.update(HTML(""))


class Outlook:
    """How many runs stand where, and how long it will take, from the speeds measured so far."""

    def __init__(self, specs: Sequence[RunSpec]) -> None:
        self.counts = {"done": 0, "running": 0, "failed": 0, "waiting": len(specs)}
        self._left = dict.fromkeys(specs, 1.0)  # the share of it that is to be done
        self._running: set[RunSpec] = set()
        self._seconds: dict[Hashable, float] = {}  # a whole run of such work

    def started(self, spec: RunSpec) -> None:
        if spec not in self._running:
            self._running.add(spec)
            self.counts["waiting"] -= 1
            self.counts["running"] += 1

    def advanced(self, spec: RunSpec, share: float, seconds: float) -> None:
        self._left[spec] = 1 - share
        self._seconds[work(spec)] = seconds / share

    def ended(self, spec: RunSpec, *, failed: bool) -> None:
        self.started(spec)
        self._running.discard(spec)
        self._left.pop(spec, None)
        self.counts["running"] -= 1
        self.counts["failed" if failed else "done"] += 1

    def seconds_left(self) -> float | None:
        """Runs of a kind that was not begun yet are taken to last as long as the others on average."""
        if not self._seconds:
            return None
        average = sum(self._seconds.values()) / len(self._seconds)
        seconds = sum(share * self._seconds.get(work(spec), average) for spec, share in self._left.items())
        return seconds / max(1, self.counts["running"])

    def __str__(self) -> str:
        ended = self.counts["done"] + self.counts["failed"]
        return f"{ended}/{ended + len(self._left)}" + (f", {clock(self.seconds_left())} left" if self._left else "")


def clock(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
