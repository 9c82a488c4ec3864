"""The files of a learner cut short or with a flipped bit."""

import random
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.durable.log import FRAME, HEAD
from holdfast.errors import CheckpointError
from holdfast.storage.locks import NOBODY, FolderLock, signed
from reliability import durable_learner
from reliability.cuts import cuts
from reliability.disk import FaultyDisk
from reliability.outcome import counted
from reliability.stage import State, contents, put_back


@dataclass(frozen=True)
class Home:
    """A durable learner with some entries in its log."""

    folder: Path
    files: dict[Path, bytes]
    checkpoint: Path
    log: Path
    states: list[State]  # after each number of entries
    ends: list[int]  # of each entry

    def damaged(self, file: Path, content: bytes, *, closed: bool = False) -> None:
        """`closed`: with what says how long the log was when it was closed; a process that is killed leaves no such."""
        unclosed = {durable_learner.folder_of(self.folder) / FolderLock.NAME: signed(NOBODY, "").encode()}
        put_back(self.folder, self.files | ({} if closed else unclosed) | {file: content})

    def flaw_of_a_cut(self, file: Path, cut: int) -> str | None:
        self.damaged(file, self.files[file][:cut], closed=True)
        if file == self.checkpoint or cut < self.ends[-1]:
            noticed = self._flaw_of_not_noticing()
            if noticed or file == self.checkpoint or cut < HEAD.size:
                return noticed
            self.damaged(file, self.files[file][:cut])
        return durable_learner.IN_FOLDER.flaw(self.folder, [self.states[bisect_right(self.ends, cut)]])

    def flaw_of_a_flip(self, file: Path, place: int, bit: int) -> str | None:
        content = bytearray(self.files[file])
        content[place] ^= 1 << bit
        self.damaged(file, bytes(content))
        if file == self.log and place >= self.ends[-1]:  # what seals it
            return durable_learner.IN_FOLDER.flaw(self.folder, [self.states[-1]])
        return self._flaw_of_not_noticing()

    def _flaw_of_not_noticing(self) -> str | None:
        before = contents(self.folder)
        try:
            durable_learner.opened(self.folder).close()
        except CheckpointError:
            return None if contents(self.folder) == before else "noticed, but something was changed"
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return "not noticed"


@contextmanager
def durable_files() -> Iterator[Home]:
    with TemporaryDirectory() as name, FaultyDisk(Path(name)):  # without a fault: it spares the real disk
        folder = Path(name)
        with durable_learner.opened(folder) as learner:
            (log,) = durable_learner.folder_of(folder).glob("log.*")
            states, ends = [learner.state_hash()], []
            for operation in durable_learner.OPERATIONS[:4]:
                operation(learner)
                states.append(learner.state_hash())
                ends.append(log.stat().st_size)
        yield Home(folder, contents(folder), durable_learner.folder_of(folder) / "learner", log, states, ends)


@counted
def learners_cut(effort: int) -> Iterator[str | None]:
    """Of a log, all complete entries count and learning goes on, unless it was closed with more; then it is refused.

    A cut checkpoint is refused and left as it is.
    """
    with durable_files() as there:
        for file, most in ((there.log, 60), (there.checkpoint, 100)):
            for cut in cuts(len(there.files[file]), most * effort**2)[: -1 if file == there.checkpoint else None]:
                flaw = there.flaw_of_a_cut(file, cut)
                yield f"{file.name} cut at byte {cut}: {flaw}" if flaw else None


@counted
def bits_flipped(effort: int) -> Iterator[str | None]:
    """Noticed wherever it is in a learner that was closed; in what seals its log, it is of no account."""
    rng = random.Random(effort)
    with durable_files() as there:
        frames = [place + field for place in (HEAD.size, *there.ends) for field in range(FRAME.size)]
        for file, most in ((there.log, 100), (there.checkpoint, 200)):
            places = cuts(len(there.files[file]), most * effort**2)[:-1]
            if file == there.log:
                places += rng.sample(frames, min(len(frames), 40 * effort))
            for place in places:
                flaw = there.flaw_of_a_flip(file, place, bit := rng.randrange(8))
                yield f"{file.name}, bit {bit} of byte {place} flipped: {flaw}" if flaw else None
