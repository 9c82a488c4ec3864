"""The folder of a learner that is open, and what has to hold whatever its user does to it."""

import os
import stat
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import holdfast
from holdfast import ERACE, Learner, mlp
from holdfast.durable import DurableLearner
from holdfast.errors import InUse, WriteError
from holdfast.storage import locks
from reliability import durable_learner


@dataclass
class Scenario:
    """A learner that is open, and where its folder has come to since."""

    top: Path
    opened_at: Path
    learner: DurableLearner
    folder: Path | None  # where it is now; None if it is gone
    names: list[Path]  # that have led to it
    strangers: dict[str, object] = field(default_factory=dict)  # files of others in it
    outside: dict[Path, object] = field(default_factory=dict)  # and elsewhere
    mounts: list[Path] = field(default_factory=list)
    observed: int = 0

    def new_name(self, what: str) -> Path:
        """Of a folder above it that does not exist yet."""
        return self.top / f"{what} {len(list(self.top.iterdir()))}"

    def watch(self, folder: Path) -> None:
        """What is there from now on stays as it is."""
        self.outside |= {path: look_of(path) for path in [folder, *folder.rglob("*")]}

    def leads_to_it(self, name: Path) -> bool:
        with suppress(OSError):
            return self.folder is not None and os.path.samefile(name, self.folder)
        return False

    def flaw(self) -> str | None:
        """What is wrong with the lock, with learning once more, or with the files of others."""
        for name in [name for name in self.names if self.leads_to_it(name)][-1:]:
            if not is_refused(name):
                return f"a second one was opened through {name.relative_to(self.top)}"
        before = self.learner.state_hash()
        try:
            self.learner.observe(*durable_learner.batch(self.observed))
            self.observed += 1
            if not self.leads_to_it(self.opened_at):
                return "it learned in a folder that is not there any more"
        except WriteError as error:
            if self.leads_to_it(self.opened_at):
                return f"it did not learn any more: {error}"
            if self.learner.state_hash() != before:
                return "it refused a batch, but changed"
        return self._flaw_of_files()

    def flaw_at_the_end(self) -> str | None:
        try:
            self.learner.close()
            if not self.leads_to_it(self.opened_at):
                return "it was closed as if nothing had happened"
        except WriteError as error:
            if self.leads_to_it(self.opened_at):
                return f"it could not be closed: {error}"
        if (flaw := self._flaw_of_files()) or self.folder is None:
            return flaw
        with closing(opened(self.folder)) as again:
            if again.state_hash() != right_after(self.observed):
                return "opened again, it is another one"
        return self._flaw_of_files()

    def _flaw_of_files(self) -> str | None:
        there = {self.folder / name: look for name, look in self.strangers.items()} if self.folder else {}
        changed = [path for path, look in (there | self.outside).items() if look_of(path) != look]
        return f"a file of others was touched: {changed[0].relative_to(self.top)}" if changed else None


def look_of(path: Path) -> object:
    """What others would see of a file, or of which files are in a folder."""
    try:
        mode = stat.S_IFMT(path.lstat().st_mode)
    except OSError:
        return None
    if stat.S_ISREG(mode):
        return mode, path.read_bytes()
    return mode, sorted(os.listdir(path)) if stat.S_ISDIR(mode) else os.readlink(path) if stat.S_ISLNK(mode) else ""


def opened(folder: Path) -> DurableLearner:
    return holdfast.open(folder, mlp((3,), width=4), ERACE(), memory=5, pending=3, checkpoint_every=3)


def is_refused(folder: Path) -> bool:
    without_waiting = SimpleNamespace(sleep=lambda seconds: None)  # for a holder that may be about to say who it is
    try:
        with patch.object(locks, "time", without_waiting):
            opened(folder).close()
    except InUse:
        return True
    return False


@cache
def right_after(batches: int) -> str:
    """The state of a learner that nobody has disturbed."""
    learner = Learner(mlp((3,), width=4), ERACE(), memory=5, pending=3)
    for number in range(batches):
        learner.observe(*durable_learner.batch(number))
    return learner.state_hash()
