"""A learner that lived in memory, or in a file of its own, gets a folder to live in."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast import __version__, machine
from holdfast.durable import backups
from holdfast.errors import InputError
from holdfast.learner import Learner
from holdfast.learner.soundness import check_values
from holdfast.learner.state import serialized
from holdfast.memory import codecs
from holdfast.storage import checkpoint

if TYPE_CHECKING:
    from holdfast.durable.backups import Serialized


def adopt(learner: Learner | str | Path, folder: str | Path) -> None:
    """Makes a folder of a learner that has none, for `holdfast.open` and `holdfast serve`.

    The learner in the folder goes on with the same bits. The one in memory, or in the file, stays as it is: what it
    learns later does not get into the folder.

    Args:
        learner: a `Learner`, or a file that `Learner.save` or `holdfast runs save` has written. Of a file, neither
            encoder nor method is needed; those that are not built in are passed to `holdfast.open`.
        folder: the new folder; it is written whole or not at all.

    Raises:
        CheckpointError: if the file is missing or damaged.
        InputError: if `folder` exists, or the learner is something else.
        LabelError: if a label cannot be written to a file.
        WriteError: if it cannot be written.

    Examples:
        >>> import numpy as np, holdfast
        >>> learner = holdfast.Learner(holdfast.mlp((2,)), holdfast.ERACE(), memory=100)
        >>> learner.observe(np.array([[0.0, 1.0], [1.0, 0.0]]), ["wren", "kite"])
        >>> holdfast.adopt(learner, "birds")
        >>> with holdfast.open("birds") as birds:
        ...     birds.classes, birds.state_hash() == learner.state_hash()
        (['wren', 'kite'], True)
    """
    if isinstance(learner, Learner):
        learner.at_rest(partial(backups.write, Path(folder), partial(with_conditions, learner)))
    elif isinstance(learner, str | Path):
        backups.check_target(Path(folder))
        backups.write(Path(folder), _saved(Path(learner)))
    else:
        raise InputError(f"learner must be a Learner or the file of one, not {type(learner).__name__}")


def conditions(learner: Learner) -> dict[str, Any]:
    return machine.conditions(learner.device.type, codec=learner.memory.codec_version)


def with_conditions(learner: Learner, **manifest: Any) -> bytes:
    """As a folder holds it."""
    return serialized(learner, {"conditions": conditions(learner), "holdfast": __version__} | manifest)


def _saved(file: Path) -> Serialized:
    tensors, values = checkpoint.read(file)
    if "log" in values:
        raise InputError(f"{file} belongs to a learner that lives in a folder: holdfast learner backup copies that")
    with checkpoint.distrust(file):
        check_values(values)
        codec = _version(values["memory"].get("codec"))
    where = {"conditions": machine.conditions(codec=codec), "holdfast": __version__}
    return lambda **manifest: checkpoint.pack(tensors, values | where | manifest)


def _version(codec: str | None) -> str:
    try:
        found = codecs.find(codec)
    except InputError:  # of one's own: it is known when the folder is opened
        return ""
    return "" if found is None else found.version
