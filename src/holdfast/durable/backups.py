"""A copy of a durable learner, made while it learns."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from holdfast.durable import log
from holdfast.durable.log import Identity
from holdfast.durable.snapshot import LEARNER, Place, take
from holdfast.errors import InputError
from holdfast.storage import files
from holdfast.storage.locks import NOBODY, FolderLock, signed

Serialized = Callable[..., bytes]  # a learner, with these values in its manifest


def backup(folder: str | Path, target: str | Path) -> None:
    """Copies the learner in a folder into a new folder, even while a process is learning with it.

    The copy has everything that was acknowledged before the call. It is a learner of its own, with another identity,
    so that neither can take the other's files for its own.

    Args:
        folder: of the learner.
        target: the new folder; it is written whole or not at all.

    Raises:
        CheckpointError: if the learner is damaged.
        InputError: if `target` exists.
        WriteError: if it cannot be written.

    Examples:
        >>> import numpy as np, holdfast
        >>> with holdfast.open("weather", holdfast.mlp((2,)), holdfast.ERACE(), memory=100) as learner:
        ...     learner.observe(np.array([[0.0, 1.0], [1.0, 0.0]]), ["up", "right"])
        ...     holdfast.backup("weather", "weather-copy")
        >>> holdfast.open("weather-copy").classes
        ['up', 'right']
    """
    check_target(Path(target))
    found = take(Path(folder), settled=True)
    entries = found.reading.sound(found.log_file)
    write(Path(target), found.serialized, entries)


def check_target(target: Path) -> None:
    """Refuses a folder that exists."""
    if os.path.lexists(target):
        raise InputError(f"{target} exists already: name a new folder")


def write(target: Path, serialized: Serialized, entries: Iterable[bytes] = ()) -> None:
    """A folder with a learner and a log of what was done to it since, as if it had been closed."""
    check_target(target)
    identity = Identity.new(os.urandom(16))
    place = Place("log.1", identity)
    whole = log.closed(identity, entries)
    closing = log.closing_line(identity.salt, len(whole) - log.FRAME.size)
    contents = {LEARNER: serialized(log=place.as_json()), place.name: whole}
    files.write_folder(target, contents | {FolderLock.NAME: signed(NOBODY, closing).encode()})
