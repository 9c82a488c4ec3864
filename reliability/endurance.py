"""Long streams: memory, time and disk stay what they were. Each in a process of its own: nothing else counts."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from numpy.typing import NDArray

from holdfast import ERACE, Learner, mlp
from holdfast import open as open_learner
from reliability.outcome import counted

SAMPLES, BATCH = {1: 15_000}, 50
ROUNDS = 50  # after each of which memory and disk are looked at
PAGE = os.sysconf("SC_PAGE_SIZE")
MOST_GROWTH = 2**20
MOST_SLOWER = {1: 2.0}  # tenths of few steps tell it less exactly
COMMAND = "import sys; from reliability.endurance import endure; endure(int(sys.argv[1]), sys.argv[2])"


@counted
def flat(effort: int) -> Iterator[str | None]:
    """From the first tenth on, memory grows by at most 1 MiB, and steps take as long at the end as they did."""
    samples = SAMPLES.get(effort, 100_000 * effort)
    for what in ("plain", "durable"):
        with TemporaryDirectory() as name:
            folder = "" if what == "plain" else str(Path(name) / "home")
            command = [sys.executable, "-c", COMMAND, str(samples), folder]
            told = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
        found = flaws(**told, most_slower=MOST_SLOWER.get(effort, 1.2))
        yield from (f"{what}, {samples} samples: {flaw}" if flaw else None for flaw in found)


def flaws(resident: list[float], slower: float, disk: list[float], most_slower: float) -> Iterator[str | None]:
    grown = max(resident) - resident[ROUNDS // 10]
    yield f"memory grew by {grown / 2**20:.1f} MiB" if grown > MOST_GROWTH else None
    yield f"steps take {slower:.2f} times as long" if slower > most_slower else None
    half = ROUNDS // 2
    more = max(disk[half:]) - max(disk[:half])
    yield f"{more} more bytes on the disk" if more > 2**14 else None


def endure(samples: int, folder: str) -> None:
    torch.set_num_threads(1)  # threads that wait for each other use a processor, too
    for number in range(200_000):  # Python makes its table of names anew, and larger, when so many have come and gone
        sys.intern(f"name {number}")
    net, method = mlp((4,), width=8), ERACE()
    durable_files = open_learner(folder, net, method, memory=200, sync_every=1, checkpoint_every=50) if folder else None
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((40 * BATCH, 4)).astype(np.float32), rng.integers(0, 10, 40 * BATCH).tolist()
    steps = samples // BATCH
    seconds = np.ones((steps, 2))  # of the step, and of something that takes always as long on a calm machine
    resident, disk = [0] * ROUNDS, [0] * ROUNDS
    with durable_files or nullcontext(Learner(net, method, memory=200)) as learner:
        for step in range(steps):
            rows = slice(step % 40 * BATCH, (step % 40 + 1) * BATCH)
            began = time.process_time()
            learner.observe(x[rows], y[rows])
            between = time.process_time()
            bare_step()
            seconds[step] = between - began, time.process_time() - between
            if (step + 1) % (steps // ROUNDS) == 0:
                number = step * ROUNDS // steps
                resident[number] = int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
                disk[number] = sum(file.stat().st_size for file in Path(folder).iterdir()) if folder else 0
    print(json.dumps({"resident": resident, "slower": slower_at_the_end(seconds), "disk": disk}))


def bare_step() -> None:
    weight = torch.ones(8, 8, requires_grad=True)
    for _ in range(5):
        torch.autograd.backward((torch.ones(BATCH, 8) @ weight).relu().sum())


def slower_at_the_end(seconds: NDArray[np.float64]) -> float:
    """The last tenth compared with the second: their faster steps, relative to bare ones. Other load only adds time."""
    tenth = len(seconds) // 10
    early, late = (np.quantile(part, 0.1, axis=0) for part in (seconds[tenth : 2 * tenth], seconds[-tenth:]))
    return float(late[0] / late[1] * early[1] / early[0])
