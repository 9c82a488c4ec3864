"""The folder of a durable learner: the learner at some moment, and a log of what was done to it since."""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from holdfast.durable import log
from holdfast.durable.snapshot import LEARNER, LOG, Place, Snapshot, is_left_behind, stamp, take
from holdfast.errors import CheckpointError, InputError, WriteError
from holdfast.memory.class_index import Journal
from holdfast.storage import files
from holdfast.storage.locks import FolderLock

FIRST_LOG = "log.1"

Serialized = Callable[..., bytes]  # the learner, with these values in its manifest


class LogHasEnded(Exception):
    """No entry can follow, but a checkpoint may."""


class Folder:
    """Held by one process at a time. Only what the learner's own file names, or bears its mark, is ever removed."""

    def __init__(self, path: Path, sync_every: float, checkpoint_every: int) -> None:
        """Locks it for this process, or says which one has it."""
        self.path = path.absolute()
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{path} is a file; a learner lives in a folder")
        files.make_folder(self.path)
        self._sync_every = sync_every
        self._checkpoint_every = checkpoint_every
        self._id = os.urandom(16)
        self._log: log.Log | None = None
        self._place: Place | None = None
        self._kept = 0
        self._written: object = None  # which file the learner was last written to
        self._ahead = False  # whether the disk may have what memory has not, or `_log` not be its log
        self._pid = os.getpid()
        self._lock = FolderLock(self.path, f"the learner in {path}")
        try:
            if self.is_new:
                self._clear()
            self._lock.sign()
        except BaseException:
            self._lock.release()
            raise

    @property
    def is_new(self) -> bool:
        return not self.learner_file.exists()

    @property
    def learner_file(self) -> Path:
        return self.path / LEARNER

    @property
    def needs_checkpoint(self) -> bool:
        """Whether the log has an entry too few or too many, or files were removed or replaced."""
        return self._log is not None and (
            not self.takes_entries or not self._log.is_in_place or self._written != stamp(self.learner_file)
        )

    @property
    def takes_entries(self) -> bool:
        """Whether the log is the one that a reader would find, and sound, and not full."""
        return self._log is not None and not self._log.failed and not self._ahead and self._log.size < log.FULL

    @property
    def is_ahead(self) -> bool:
        """Whether what was refused or taken back may be on the disk."""
        return self._is_ours and (self._ahead or (self._log is not None and self._log.is_uncertain))

    @property
    def wants_checkpoint(self) -> bool:
        """Whether the log is long, or what is on the disk does not tell the truth, which a new one mends."""
        if self._log is None:
            return False
        return self._kept >= self._checkpoint_every or self.needs_checkpoint

    def read(self) -> Snapshot:
        """The learner as it was written, and the log since then."""
        found = take(self.path)
        self._place = found.place
        if self._place.identity is not None:
            self._id = self._place.identity.learner
        return found

    def go_on(self, serialized: Serialized, *, anew: bool) -> None:
        """Opens the log again if nothing is in it; otherwise nobody knows what follows its last whole entry."""
        assert self._place is not None
        if anew or self._place.identity is None:
            self.checkpoint(serialized)
        else:
            self._written = stamp(self.learner_file)
            self._log = log.Log(self.path / self._place.name, self._place.identity, self._sync_every)
            self._remove_others(set())

    def checkpoint(self, serialized: Serialized) -> None:
        """Writes the learner as it is, with an empty log. Wherever this is cut off, `_ahead` stays true."""
        self._check()
        self._ahead = True
        place = self._free_place()
        assert place.identity is not None
        following = log.Log(self.path / place.name, place.identity, self._sync_every)
        files.write(self.learner_file, serialized(log=place.as_json()))
        if self._log is not None:
            self._log.abandon()  # nobody needs it any more: that it is safe is not waited for
        self._log, self._kept = following, 0
        self._written = stamp(self.learner_file)
        replaced, self._place = self._place, place
        self._remove_others({replaced.name} if replaced else set())
        self._ahead = False

    def go_back(self, serialized: Serialized) -> None:
        """Writes the learner, which a change that failed has left as it was, if the disk may have it otherwise."""
        if self.is_ahead:
            with suppress(WriteError):
                self.checkpoint(serialized)

    def disown(self) -> None:
        """What is on the disk is not to be."""
        self._ahead = True

    def keep(self, entry: bytes, journal: Journal) -> None:
        self._check()
        if not self.takes_entries:
            raise LogHasEnded
        assert self._log is not None
        journal.on_undo(partial(self._log.end, self._log.size))
        self._log.append(entry)
        self._kept += 1

    def leave(self, serialized: Serialized) -> None:
        """Lets others have it. If the log does not tell the truth about the learner, it is written once more."""
        if not self._is_ours or not self._lock.held:
            return
        try:
            if self.needs_checkpoint:
                self.checkpoint(serialized)
            self._check()
        finally:
            try:
                self._lock.sign_off(None if self._log is None else self._log.close())
            finally:
                self._lock.release()

    def abandon(self) -> None:
        """Lets others have it as it is on the disk."""
        if self._is_ours and self._lock.held:
            try:
                if self._log is not None:
                    self._log.abandon()
                self._lock.sign_off()
            finally:
                self._lock.release()

    @property
    def _is_ours(self) -> bool:
        """False in a process that was forked from the one that has opened it."""
        return os.getpid() == self._pid

    def _check(self) -> None:
        if not self._is_ours:
            raise WriteError(
                f"the learner in {self.path} belongs to process {self._pid}, which this one was forked from; "
                "holdfast.open it after the fork"
            )
        if not self._lock.held:
            raise WriteError(f"the learner in {self.path} is closed; holdfast.open it again")
        if not self._lock.is_in_place:
            raise WriteError(
                f"the folder {self.path} was removed, moved or replaced while it was open: nothing more is learned; "
                "put it back, or save the learner elsewhere with learner.save(file)"
            )

    def _clear(self) -> None:
        """A folder without a learner may hold nothing but what a process left that was killed when it made one."""
        there = sorted(file for file in self.path.iterdir() if not FolderLock.is_signature(file))
        for file in there:
            if is_left_behind(file):
                continue
            if not LOG.fullmatch(file.name) or log.identity_of(file) is None:
                raise InputError(f"{self.path} is not the folder of a learner: there is {file.name} in it")
            if file.name != FIRST_LOG or file.stat().st_size != log.HEAD.size:
                raise CheckpointError(
                    f"{self.path} has the log {file.name} of a learner, but not the learner itself: bring the file "
                    f"{LEARNER} back from a copy, or move {file.name} away to begin anew"
                )
        for file in there:
            files.remove(file)

    def _free_place(self) -> Place:
        return Place.free(self.path, self._id)

    def _remove_others(self, names: set[str]) -> None:
        """Files of these names, other logs of this learner, and what a killed writer left behind."""
        assert self._place is not None
        for file in list(self.path.iterdir()):
            ours = file.name in names or is_left_behind(file) or self._place.is_of_this_learner(file)
            if ours and file.name != self._place.name:
                files.remove(file)
