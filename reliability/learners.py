"""A durable learner whose processes are killed, stopped and doubled."""

import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from holdfast import ERACE, Learner, mlp
from holdfast.errors import InUse
from reliability import durable_learner
from reliability.outcome import counted

SAVE_AND_EXIT = {"SIGINT": signal.SIGINT, "SIGTERM": signal.SIGTERM, "SIGTERM, told to exit": signal.SIGTERM}


@dataclass
class Life:
    """A process that learns until it is ended."""

    process: BaseProcess
    messages: Connection
    begun_with: int  # operations

    def end(self, how: signal.Signals) -> int:
        """How many operations it had acknowledged."""
        assert self.process.pid is not None
        os.kill(self.process.pid, how)
        acknowledged = self.begun_with
        with suppress(EOFError):
            while True:
                acknowledged = self.messages.recv()
        self.process.join()
        return acknowledged


def operation(learner: Learner) -> int:
    """The next one. Which that is depends on how many were done: so many are done then."""
    done = learner.step + learner.pending.asked
    x, y = durable_learner.batch(done % 50)
    if done % 4 == 1:
        learner.ask(x)
    elif done % 4 == 2:
        learner.tell(learner.pending.asked - 1, y)
    else:
        if done % 8 == 7:
            learner.forget_samples(durable_learner.batch((done - 1) % 50)[0])  # done twice, it is the same
        learner.observe(x, y)
    return done + 1


def live(folder: Path, messages: Connection, exits_at_sigterm: bool) -> None:
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if exits_at_sigterm:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with suppress(KeyboardInterrupt), durable_learner.opened(folder, checkpoint_every=7) as learner:
        messages.send(learner.step + learner.pending.asked)
        while True:
            messages.send(operation(learner))


@contextmanager
def life(folder: Path, exits_at_sigterm: bool = False) -> Iterator[Life]:
    context = multiprocessing.get_context("forkserver")  # the one that runs have
    context.set_forkserver_preload(["holdfast.runs.worker", "torch._dynamo"])
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=live, args=(folder, theirs, exits_at_sigterm), daemon=True)
    process.start()
    theirs.close()
    try:
        yield Life(process, ours, ours.recv())
    finally:
        process.kill()
        process.join()
        ours.close()


@counted
def learners_killed(effort: int) -> Iterator[str | None]:
    """Killed at random moments many times in a row: nothing acknowledged is lost, and it ends as if undisturbed."""
    rng = random.Random(effort)
    with TemporaryDirectory() as name:
        acknowledged = 0
        for _ in range(10 * effort):
            with life(Path(name)) as one:
                begun = one.begun_with
                yield (
                    None if begun - acknowledged in (0, 1) else f"{acknowledged} operations acknowledged, {begun} there"
                )
                time.sleep(rng.random() / 10)
                acknowledged = one.end(signal.SIGKILL)
        yield flaw_at_the_end(Path(name), acknowledged)


@counted
def learners_told_to_stop(effort: int) -> Iterator[str | None]:
    """In mid-step: it ends in less than 5 s with everything acknowledged, and goes on as if undisturbed."""
    rng = random.Random(effort)
    with TemporaryDirectory() as name:
        for what, how in list(SAVE_AND_EXIT.items()) * (2 * effort):
            with life(Path(name), exits_at_sigterm="exit" in what) as one:
                time.sleep(rng.random() / 10)
                began = time.monotonic()
                acknowledged = one.end(how)
                took = time.monotonic() - began
            flaw = flaw_at_the_end(Path(name), acknowledged)
            yield f"{what}: {flaw or f'it took {took:.1f} s'}" if flaw or took > 5 else None


@counted
def two_at_one_learner(effort: int) -> Iterator[str | None]:
    """While a process has it, another is refused within a second and told the pid; killing the first frees it."""
    with TemporaryDirectory() as name:
        for _ in range(2 * effort):
            with life(Path(name)) as one:
                began = time.monotonic()
                try:
                    durable_learner.opened(Path(name)).close()
                    yield "the second was not refused"
                except InUse as error:
                    took = time.monotonic() - began
                    yield None if error.pid == one.process.pid and took < 1 else f"refused after {took:.1f} s: {error}"
                acknowledged = one.end(signal.SIGKILL)
                began = time.monotonic()
                flaw = flaw_at_the_end(Path(name), acknowledged, more=0)
                took = time.monotonic() - began
                yield flaw or (f"opened after {took:.1f} s" if took > 5 else None)


def flaw_at_the_end(folder: Path, acknowledged: int, more: int = 10) -> str | None:
    """What is wrong with the learner in the folder, compared with one that was never disturbed."""
    same = Learner(mlp((3,), width=4), ERACE(), memory=5, pending=3)
    with durable_learner.opened(folder) as learner:
        done = learner.step + learner.pending.asked
        if done - acknowledged not in (0, 1):
            return f"{acknowledged} operations acknowledged, {done} there"
        while done % 8 == 7 or more > 0:  # erasing may be done where the operation it belongs to is not
            done, more = operation(learner), more - 1
    while same.step + same.pending.asked < done:
        operation(same)
    return None if same.state_hash() == learner.state_hash() else f"after {done} operations it is another learner"
