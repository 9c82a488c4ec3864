"""The folder of a durable learner: the learner at some moment, and a log of what was done to it since."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast import checkpoint, files, log
from holdfast.claims import Claim
from holdfast.errors import InputError, WriteError

LEARNER, LOCK = "learner", "lock"
OURS = re.compile(r"learner|lock|log\.\d+|\.learner\.[0-9a-f]+")  # the last is what a killed writer leaves behind
LOG_BYTES = 2**26

Serialized = Callable[[int], bytes]  # the learner, with the number of the log that follows


class Home:
    def __init__(self, folder: Path, sync_every: float, checkpoint_every: int) -> None:
        """Claims it for this process, or says which one has it."""
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file; a learner lives in a folder")
        files.make_folder(folder)
        self.learner_file = folder / LEARNER
        strangers = sorted(file.name for file in folder.iterdir() if not OURS.fullmatch(file.name))
        if self.is_new and strangers:
            raise InputError(f"{folder} is not the folder of a learner: there is {strangers[0]} in it")
        self._folder = folder
        self._pid = os.getpid()
        self._sync_every = sync_every
        self._checkpoint_every = checkpoint_every
        self._claim = Claim(folder / LOCK, f"the learner in {folder}")
        self._log: log.Log | None = None
        self._number = 0
        self.conditions: dict[str, Any] = {}  # it was written under, see machine.py
        self._kept = 0

    @property
    def is_new(self) -> bool:
        return not self.learner_file.exists()

    @property
    def log_is_full(self) -> bool:
        """Or cannot be appended to for another reason that a new one mends."""
        return self._log is not None and (
            self._log.failed or self._kept >= self._checkpoint_every or self._log.size >= LOG_BYTES
        )

    def entries(self) -> list[bytes]:
        """Of the log, from the moment on at which the learner was written."""
        with checkpoint.distrust(self.learner_file):
            manifest = checkpoint.read(self.learner_file)[1]
            self._number = int(manifest["log"])
            self.conditions = dict(manifest.get("conditions", {}))
        return log.read(self._log_file)

    def go_on(self, serialized: Serialized, *, anew: bool) -> None:
        """Opens the log. It can be used only if it is empty: nobody knows what follows its last whole entry."""
        if anew or self._log_file.stat().st_size:
            self.start_anew(serialized)
        else:
            self._log = log.Log(self._log_file, self._sync_every)
            self._remove_other_logs()

    def start_anew(self, serialized: Serialized) -> None:
        """Writes the learner as it is, with an empty log."""
        self._check_open()
        self._number += 1
        try:
            following = log.Log(self._log_file, self._sync_every)
            try:
                files.write(self.learner_file, serialized(self._number))
            except BaseException:
                following.close()
                raise
            if self._log is not None:
                self._log.spoil()  # nobody needs it any more: that it is safe is not waited for
                self._log.close()
            self._log, self._kept = following, 0
            self._remove_other_logs()
        except BaseException:
            if self._log is not None:
                self._log.spoil()  # the folder may know of a newer one by now
            raise

    def keep(self, entry: bytes) -> None:
        self._check_open()
        assert self._log is not None
        self._log.append(entry)
        self._kept += 1

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """If what is done inside fails after it was kept, the log does not tell the truth and is not gone on with."""
        before = self._log, self._log and self._log.size
        try:
            yield
        except BaseException:
            if self._log is not None and (self._log, self._log.size) != before:
                self._log.spoil()
            raise

    def mend(self, serialized: Serialized) -> None:
        """Writes the learner if the log does not tell the truth about it."""
        if self._is_ours and self._claim.held and self._log is not None and self._log.failed:
            self.start_anew(serialized)

    def leave(self) -> None:
        if not self._is_ours:
            return
        try:
            if self._log is not None:
                self._log.close()
        finally:
            self._claim.release()

    @property
    def _log_file(self) -> Path:
        return self._folder / f"log.{self._number}"

    @property
    def _is_ours(self) -> bool:
        """False in a process that was forked from the one that has opened it."""
        return os.getpid() == self._pid

    def _check_open(self) -> None:
        if not self._is_ours:
            raise WriteError(
                f"the learner in {self._folder} belongs to process {self._pid}, which this one was forked from; "
                "holdfast.open it after the fork"
            )
        if not self._claim.held:
            raise WriteError(f"the learner in {self._folder} is closed; holdfast.open it again")

    def _remove_other_logs(self) -> None:
        for file in self._folder.iterdir():
            if file != self._log_file and OURS.fullmatch(file.name) and file.name not in (LEARNER, LOCK):
                files.remove(file)
