"""The service in a process of its own."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TINY = ("--net", "mlp", "--shape", "4", "--memory", "50")


@dataclass
class Process:
    running: subprocess.Popen[str]
    address: str
    log: Path

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.running.send_signal(how)
        return self.running.wait(60)


@contextmanager
def started(
    folder: Path | None,
    log: Path,
    *options: str,
    env: dict[str, str] | None = None,
    run: Sequence[str] = ("-m", "holdfast"),
) -> Iterator[Process]:
    """Ready when it has said where it is: connections wait from then on."""
    command = [sys.executable, *run, "serve", *([] if folder is None else [str(folder)])]
    with log.open("a") as errors:
        running = subprocess.Popen(
            [*command, "--port", "0", *options],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, **(env or {})},
        )
    with running:
        try:
            assert running.stdout is not None
            line = running.stdout.readline()
            found = re.search(r"https?://\S+", line)
            assert found is not None, (line, log.read_text())
            yield Process(running, found[0], log)
        finally:
            running.kill()
