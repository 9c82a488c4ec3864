"""Logs whose entries stand in another order, are missing, there twice, or come from another log."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.durable import log
from holdfast.durable.log import FRAME, HEAD, Identity, Log
from holdfast.errors import CheckpointError
from reliability import durable_learner
from reliability.disk import FaultyDisk
from reliability.outcome import counted
from reliability.stage import State, contents, put_back

Frames = list[bytes]
LEARNER, OTHER = b"a" * 16, b"b" * 16


@dataclass(frozen=True)
class Written:
    """A log as it stands in a file, and others that its entries may be mixed with."""

    head: bytes
    frames: Frames  # each entry with what stands before it; a seal last if it was closed
    entries: int
    twin: Frames  # of the same log in a copy of its folder, which went on otherwise
    foreign: list[Frames]
    is_safe: bool  # whether each entry was synced before the next was written

    def flaw(self, mixed: Frames, found: int | None) -> str | None:
        """What is wrong with reading so many entries from it, or with refusing it if that is None."""
        ours = self.twin if mixed[:1] == self.twin[:1] else self.frames  # a twin is as right, up to its first change
        same = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(mixed, ours, strict=False))))
        rest, seal = mixed[same:], ours[self.entries :]
        if found is None:
            return None if rest else "refused, though only its end is missing"
        if any(frame in seal or (self.is_safe and frame in ours) for frame in rest):
            return "not noticed"
        return None if found == min(same, self.entries) else f"{found} entries were read, {same} are right"


def swapped(frames: Frames, _: Frames, rng: random.Random) -> Frames:
    i, j = rng.randrange(len(frames)), rng.randrange(len(frames))
    frames[i], frames[j] = frames[j], frames[i]
    return frames


def dropped(frames: Frames, _: Frames, rng: random.Random) -> Frames:
    place = rng.randrange(len(frames))
    return frames[:place] + frames[place + rng.choice((1, 1, 2)) :]


def doubled(frames: Frames, _: Frames, rng: random.Random) -> Frames:
    frames.insert(rng.randint(0, len(frames)), rng.choice(frames))
    return frames


def inserted(frames: Frames, foreign: Frames, rng: random.Random) -> Frames:
    frames.insert(rng.randint(0, len(frames)), rng.choice(foreign))
    return frames


def exchanged(frames: Frames, foreign: Frames, rng: random.Random) -> Frames:
    """One for that which stands at its place in the other log."""
    place = rng.randrange(min(len(frames), len(foreign)))
    frames[place] = foreign[place]
    return frames


CHANGES: list[Callable[[Frames, Frames, random.Random], Frames]] = [swapped, dropped, doubled, inserted, exchanged]


def mixed_up(written: Written, rng: random.Random) -> Frames:
    """Other frames than it has, one change or several later."""
    while True:
        frames = list(written.frames)
        for _ in range(rng.choice((1, 1, 2, 3))):
            if frames:
                frames = rng.choice(CHANGES)(frames, rng.choice(written.foreign), rng)
        if frames != written.frames:
            return frames


@counted
def entries_mixed_up(effort: int) -> Iterator[str | None]:
    """It is noticed. Where it looks like the end that a crash leaves, the entries before it are read, and no others."""
    rng = random.Random(effort)
    identity = Identity.new(LEARNER)
    with TemporaryDirectory() as name, FaultyDisk(Path(name)):  # without a fault: it spares the real disk
        for number in range(5000 * effort):
            if number % 100 == 0:
                written = a_log(Path(name) / "log", identity, rng)
            mixed = mixed_up(written, rng)
            found = log.examined(written.head + b"".join(mixed), identity)
            wrong = written.flaw(mixed, None if found.flaw else len(found.entries))
            yield f"log number {number}: {wrong}" if wrong else None


def a_log(path: Path, identity: Identity, rng: random.Random) -> Written:
    sizes = [rng.choice((20, 20, 30)) for _ in range(rng.randint(2, 8))]
    closed, syncs_later = rng.random() < 0.5, rng.random() < 0.3

    def frames_of(identity: Identity) -> Frames:
        one = Log(path, identity, durable_learner.NEVER if syncs_later else 0.0)
        for size in sizes:
            one.append(rng.randbytes(size))
        (one.close if closed else one.abandon)()
        return frames_in(path.read_bytes())

    twin = frames_of(identity)
    foreign = [frames_of(Identity.new(LEARNER)), frames_of(Identity.new(OTHER)), twin]
    return Written(identity.head, frames_of(identity), len(sizes), twin, foreign, is_safe=not syncs_later)


def frames_in(whole: bytes) -> Frames:
    frames, place = [], HEAD.size
    while place < len(whole):
        length = FRAME.unpack_from(whole, place)[2]
        frames.append(whole[place : place + FRAME.size + length])
        place += len(frames[-1])
    return frames


@dataclass(frozen=True)
class Home:
    """A durable learner with a log, the log it had before that, and the log of another learner."""

    folder: Path
    files: dict[Path, bytes]
    log: Path
    states: list[State]  # after each number of entries
    strange: list[bytes]
    written: Written
    closed: bool

    def found_with(self, content: bytes) -> State | None:
        """The state it opens in with this as its log; None if it is refused and nothing was changed."""
        put_back(self.folder, self.files | {self.log: content})
        before = contents(self.folder)
        try:
            return durable_learner.state(self.folder)
        except CheckpointError:
            return None if contents(self.folder) == before else "refused, but changed"
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    def flaw(self, mixed: Frames) -> str | None:
        found = self.found_with(self.written.head + b"".join(mixed))
        if found is not None and found not in self.states:
            return f"another state than may be there: {found}"
        if self.closed and len(mixed) < self.written.entries and mixed == self.written.frames[: len(mixed)]:
            return None if found is None else "a log that was closed and is shorter now is not noticed"
        return self.written.flaw(mixed, None if found is None else self.states.index(found))


@contextmanager
def a_home(*, closed: bool) -> Iterator[Home]:
    with TemporaryDirectory() as name, FaultyDisk(Path(name)):
        folder = Path(name)
        strange: list[bytes] = []
        for where in (folder / "another", folder):
            learner = durable_learner.opened(where, checkpoint_every=100)
            for operation in durable_learner.OPERATIONS[:3]:
                operation(learner)
            strange.append(log_of(where).read_bytes())
            learner.checkpoint()
            states = [learner.state_hash()]
            for operation in durable_learner.OPERATIONS[5:10]:
                operation(learner)
                states.append(learner.state_hash())
            (learner.close if closed else partial(durable_learner.kill, learner))()
            strange.append(log_of(where).read_bytes())
        whole = strange.pop()
        foreign = list(map(frames_in, strange))
        written = Written(whole[: HEAD.size], frames_in(whole), len(states) - 1, [], foreign, is_safe=True)
        yield Home(folder, contents(folder), log_of(folder), states, strange, written, closed)


def log_of(folder: Path) -> Path:
    (file,) = durable_learner.folder_of(folder).glob("log.*")
    return file


@counted
def learners_with_mixed_up_logs(effort: int) -> Iterator[str | None]:
    """A learner whose log was mixed up or is another one is refused and left as it is, or has lost a torn end."""
    rng = random.Random(effort)
    for closed in (True, False):
        with a_home(closed=closed) as durable_files:
            for content in durable_files.strange:
                yield None if durable_files.found_with(content) is None else "the log of another was not noticed"
            for number in range(12 * effort):
                flaw = durable_files.flaw(mixed_up(durable_files.written, rng))
                yield f"learner number {number}: {flaw}" if flaw else None
