"""Two containers with one volume: processes that cannot see each other, each of them the first of its own."""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from holdfast.errors import HoldfastError
from reliability import durable_learner, learners, spaces
from reliability.outcome import Skipped, counted

OWN = spaces.MOUNTS | spaces.HOST_NAME | spaces.PROCESSES
HOSTS = (("first", "second"), ("same", "same"))  # containers may be called alike

Work = Callable[[Path, Connection], None]


class NotAllowed(Exception):
    pass


@dataclass
class Container:
    pid: int  # of its first process, seen from outside
    messages: Connection

    def hear(self) -> Any:
        if not self.messages.poll(spaces.SECONDS):
            raise TimeoutError("a container says nothing")
        return self.messages.recv()

    def kill(self) -> Any:
        """All of it at once. The last that it has said."""
        os.kill(self.pid, signal.SIGKILL)
        last = None
        with suppress(EOFError):
            while True:
                last = self.hear()
        return last


@contextmanager
def container(host: str, work: Work, folder: Path) -> Iterator[Container]:
    ours, theirs = spaces.context().Pipe(duplex=False)
    process = spaces.context().Process(target=_contain, args=(host, work, folder, theirs), daemon=True)
    process.start()
    theirs.close()
    inside = Container(0, ours)
    try:
        if isinstance(pid := inside.hear(), str):
            raise NotAllowed(pid)
        inside.pid = pid
        yield inside
    finally:
        with suppress(ProcessLookupError):
            if inside.pid:
                os.kill(inside.pid, signal.SIGKILL)
        process.join()
        ours.close()


def _contain(host: str, work: Work, folder: Path, messages: Connection) -> None:
    """Its first process begins when it is known outside."""
    try:
        spaces.enter(OWN, host)
    except (OSError, AttributeError) as error:
        messages.send(f"no containers here: {error}")
        return
    known, tell = os.pipe()
    first = os.fork()
    if first == 0:
        os.read(known, 1)
        work(folder, messages)
        os._exit(0)
    messages.send(first)
    messages.close()
    os.write(tell, b"x")
    os.waitpid(first, 0)


def look(folder: Path, messages: Connection) -> None:
    """Tries to open it, and says what came of it."""
    began = time.monotonic()
    try:
        durable_learner.opened(folder).close()
        messages.send(("opened", None, 0.0))
    except HoldfastError as error:
        messages.send((str(error), os.getpid(), time.monotonic() - began))


@counted
def two_containers(effort: int) -> Iterator[str | None]:
    """The second is refused at once, whatever their names; killing the first frees the learner, with all of it."""
    rng = random.Random(effort)
    try:
        for hosts in HOSTS * effort:
            with TemporaryDirectory() as name:
                yield from flaws_of_sharing(Path(name), *hosts, rng.random() / 10)
    except NotAllowed as error:
        yield Skipped(str(error))


def flaws_of_sharing(folder: Path, first: str, second: str, seconds: float, look: Work = look) -> Iterator[str | None]:
    with container(first, partial(learners.live, exits_at_sigterm=False), folder) as holder:
        begun = holder.hear()
        with container(second, look, folder) as other:
            said, pid, took = other.hear()
        told = f"process 1 on {first}" if first != second else "in use by"
        yield None if pid == 1 and told in said and took < 1 else f"not refused at once and by name: {said}, {took} s"
        time.sleep(seconds)
        acknowledged = holder.kill() or begun
    with container(second, partial(learners.live, exits_at_sigterm=False), folder) as successor:
        done = successor.hear()
        yield None if done - acknowledged in (0, 1) else f"{acknowledged} operations acknowledged, {done} there"
        acknowledged = successor.kill() or done
    yield learners.flaw_at_the_end(folder, acknowledged)
