"""Runs whose processes are killed, stopped or doubled."""

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from holdfast.errors import InUse
from holdfast.runs.backends.local import Local
from holdfast.runs.run import run
from holdfast.runs.spec import RunSpec
from holdfast.runs.store import Store
from holdfast.runs.sweep import MOST_DEATHS, Sweep
from holdfast.runs.worker import Advanced, Event
from holdfast.streams import named
from reliability.outcome import counted

SLOW = """
import time
from holdfast import ERACE

class Slow(ERACE):
    def loss(self, net, new, old=None):
        time.sleep(0.02)
        return super().loss(net, new, old)
"""
COMMAND = "import sys; from holdfast.commands.main import main; sys.exit(main(sys.argv[1:]))"
NOT_THE_RUN = {"seconds", "train_seconds", "command", "id", "status", "why", "finished"}


@dataclass(frozen=True)
class Scenario:
    """A folder with a stream, and a run on it that takes about two seconds."""

    folder: Path
    spec: RunSpec

    @property
    def store(self) -> Store:
        return Store(self.folder / "runs.sqlite")

    def command(self) -> "subprocess.Popen[bytes]":
        """The run, as a command in a process of its own."""
        spec = self.spec
        words = ["run", "--stream", spec.stream, "--method", spec.method, "--seeds", "1", "--jobs", "1"]
        words += ["--memory", str(spec.memory), "--eval-every", str(spec.eval_every), "--updates", "1"]
        words += ["--snapshot-every", "0.1", "--out", str(self.folder)]
        nowhere = subprocess.DEVNULL
        return subprocess.Popen([sys.executable, "-c", COMMAND, *words], stdout=nowhere, stderr=nowhere)

    def flaw(self, specs: list[RunSpec]) -> str | None:
        """What is wrong with the records in the store: each run must be there once, as an undisturbed one is."""
        records = [self.store.record(row["id"]) for row in self.store.rows()]
        if failed := [record for record in records if record["status"] != "done"]:
            return f"{failed[0]['title']} {failed[0]['status']}: {failed[0]['why']}"
        found = sorted(json.dumps(_run_itself(record), sort_keys=True) for record in records)
        right = sorted(json.dumps(_run_itself(run(spec, self.folder)), sort_keys=True) for spec in specs)
        return None if found == right else f"{len(found)} records for {len(specs)} runs, or other ones"


@contextmanager
def scenario() -> Iterator[Scenario]:
    torch.set_num_threads(1)  # as the runs in other processes have it
    with TemporaryDirectory() as name:
        folder = Path(name)
        rng = np.random.default_rng(0)
        centres, train_y, test_y = 3 * rng.standard_normal((6, 8)), np.repeat(range(6), 30), np.repeat(range(6), 10)
        train_x, test_x = ((centres[y] + rng.standard_normal((len(y), 8))).astype("f4") for y in (train_y, test_y))
        np.savez(folder / "blobs.npz", train_x=train_x, train_y=train_y, test_x=test_x, test_y=test_y)
        (folder / "slow.py").write_text(SLOW)
        method = f"{folder / 'slow.py'}:Slow"
        spec = RunSpec(stream=f"arrays:{folder / 'blobs.npz'}:batch=2", method=method, memory=4, eval_every=7)
        yield Scenario(folder, spec)


@counted
def runs_killed(effort: int) -> Iterator[str | None]:
    """The whole command is killed at random moments and given again: the record is the undisturbed one."""
    rng = random.Random(effort)
    for _ in range(max(1, effort // 3)):
        with scenario() as there:
            for _ in range(3):
                with there.command() as command:
                    _wait_for(there.folder / "runs.snapshots", command)
                    time.sleep(rng.random())
                    command.kill()
                yield None
            with there.command() as command:
                command.wait()
            yield there.flaw([there.spec])


@counted
def workers_killed(effort: int) -> Iterator[str | None]:
    """A sweep whose workers are killed at random: every run is there exactly once, and none differs."""
    rng = random.Random(effort)
    for _ in range(effort):
        kills = 0

        def kill_sometimes(event: Event) -> None:
            nonlocal kills
            workers = multiprocessing.active_children()
            if isinstance(event, Advanced) and workers and kills < MOST_DEATHS - 1 and rng.random() < 0.3:
                os.kill(rng.choice(workers).pid or 0, signal.SIGKILL)
                kills += 1

        with scenario() as there:
            specs = [replace(there.spec, seed=seed) for seed in range(4)]
            there.store.open()
            Sweep(specs, there.store, there.folder, snapshot_every=0.1).run(Local(there.folder, 2), kill_sometimes)
            yield from [None] * kills
            yield there.flaw(specs)


@counted
def told_to_stop(effort: int) -> Iterator[str | None]:
    """SIGINT and SIGTERM in mid-step: it saves, ends in less than 5 s, and the same command goes on."""
    rng = random.Random(effort)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it, and so would ours
    for sent in [signal.SIGINT, signal.SIGTERM] * max(1, effort // 2):
        with scenario() as there:
            with there.command() as command:
                _wait_for(there.folder / "runs.snapshots", command)
                time.sleep(rng.random() / 2)
                command.send_signal(sent)
                began = time.monotonic()
                code = command.wait()
            took = time.monotonic() - began
            with there.command() as command:
                command.wait()
            wrong = f"{sent.name}: exit code {code} after {took:.1f} s" if code != 128 + sent or took > 5 else None
            yield wrong or there.flaw([there.spec])
    signal.signal(signal.SIGINT, handler)


@counted
def two_at_one_run(effort: int) -> Iterator[str | None]:
    """While a command is at a run, another is refused within a second and told the pid; killing the first frees it."""
    for _ in range(effort):
        with scenario() as there:
            with there.command() as command:
                _wait_for(there.folder / "runs.snapshots", command)
                second = Sweep([there.spec], there.store, there.folder, snapshot_every=0.1)
                began = time.monotonic()
                try:
                    second.run(Local(there.folder, 1))
                    yield "the second was not refused"
                except InUse as error:
                    took = time.monotonic() - began
                    yield None if error.pid == command.pid and took < 1 else f"refused after {took:.1f} s: {error}"
                command.kill()
                command.wait()
                second.run(Local(there.folder, 1))
            yield there.flaw([there.spec])


@counted
def same_seed_twice(effort: int) -> Iterator[str | None]:
    """The same run here and in another process: not one bit of the record differs."""
    with scenario() as there:
        fast = replace(there.spec, stream=there.spec.stream.replace("batch=2", "batch=10"))
        methods = ("er-ace", "er-aml", "der++", "icarl")
        specs = [replace(fast, seed=seed, method=method) for seed in range(effort) for method in methods]
        there.store.open()
        Sweep(specs, there.store, there.folder).run(Local(there.folder, 2))
        for spec in specs:
            first, second = run(spec, there.folder), run(spec, there.folder)
            yield None if _run_itself(first) == _run_itself(second) else f"{spec.title} differs from itself"
        yield there.flaw(specs)


@counted
def streams_started_anywhere(effort: int) -> Iterator[str | None]:
    """Batch i of a fresh stream is batch i of one that was read from its beginning."""
    rng = random.Random(effort)
    with scenario() as there:
        for order, seed in [(order, seed) for order in ("split", "iid") for seed in range(effort)]:
            stream = f"{there.spec.stream},order={order}"
            read = named(stream, there.folder, seed)
            batches = [read.batch(i) for i in range(len(read))]
            for i in rng.sample(range(len(batches)), 20):
                x, y, task = named(stream, there.folder, seed).batch(i)
                same = np.array_equal(x, batches[i][0]) and np.array_equal(y, batches[i][1]) and task == batches[i][2]
                yield None if same else f"{order}, seed {seed}: batch {i} differs"


def _run_itself(record: dict[str, Any]) -> Any:
    """What must not differ: everything but how long it took and who asked for it."""
    return json.loads(json.dumps({key: value for key, value in record.items() if key not in NOT_THE_RUN}))


def _wait_for(folder: Path, command: "subprocess.Popen[bytes]") -> None:
    """Until there is a snapshot, or the command is over."""
    while command.poll() is None and not (folder.is_dir() and any(folder.iterdir())):
        time.sleep(0.01)
