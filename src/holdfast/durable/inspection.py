"""What is in the folder of a durable learner, without its net or method, also while another process learns with it."""

import os
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.durable.history import Kept, kept
from holdfast.durable.snapshot import Snapshot, take
from holdfast.learner import operations
from holdfast.learner.labels import FORGOTTEN, Labels, decode
from holdfast.learner.pending import Pending
from holdfast.learner.soundness import check_values
from holdfast.learner.state import part
from holdfast.memory.class_index import Journal
from holdfast.storage import checkpoint
from holdfast.storage.locks import user


@dataclass(frozen=True, slots=True)
class ClassSummary:
    """A class: how many of its samples the memory of the checkpoint holds, and how many came since."""

    label: Hashable
    in_memory: int
    since: int


@dataclass(frozen=True, slots=True)
class MemorySummary:
    """The memory of the checkpoint: what became of it since is known when the log has been repeated."""

    kind: str
    held: int
    capacity: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class CheckpointSummary:
    """The last time the learner was written as a whole."""

    step: int
    nbytes: int
    written_by: dict[str, Any]  # versions and other conditions


@dataclass(frozen=True, slots=True)
class LogSummary:
    """The changes since then."""

    file: str
    entries: int
    nbytes: int
    sealed: bool  # it was closed; otherwise it is in use, or its process was killed
    torn: int  # bytes at its end of an entry that was never finished


@dataclass(frozen=True, slots=True)
class Inspection:
    """What `holdfast.inspect` finds."""

    folder: Path
    step: int
    classes: tuple[ClassSummary, ...]
    method: str
    options: dict[str, Any]
    net: dict[str, Any] | None  # how a built-in one is made; None for one of your own
    parameters: int
    memory: MemorySummary
    pending: int  # that are open
    checkpoint: CheckpointSummary
    log: LogSummary
    kept: tuple[Kept, ...]  # checkpoints to go back to, the latest first
    files: dict[str, int]  # bytes of everything in the folder, also of what is kept
    pid: int | None  # of the process that has it, as far as is known
    host: str  # of that process, if it is another machine


def inspect(folder: str | Path) -> Inspection:
    """Describes the learner in a folder, as it is at one moment.

    It takes no lock, so the learner may be in use, and needs neither net nor method, even if these are your own.

    Args:
        folder: of the learner.

    Returns:
        Its step, classes, memory, log, kept checkpoints, sizes, and which process has it.

    Raises:
        CheckpointError: if the folder is damaged; `holdfast.verify` says more.
    """
    found = take(Path(folder))
    with checkpoint.distrust(f"the learner in {folder}"):
        return _inspection(found, past(found))


def past(found: Snapshot) -> "Past":
    """What a checkpoint and its log tell without a net."""
    entries = found.reading.sound(found.log_file)
    with checkpoint.distrust(f"the learner in {found.folder}"):
        check_values(found.manifest)
        told = Past(found)
        for entry in entries:
            told.add(operations.from_bytes(entry))
        return told


class Past:
    """What can be told from a checkpoint and its log without a net: how many steps, which classes and questions."""

    def __init__(self, found: Snapshot) -> None:
        values = found.manifest
        self.step: int = values["step"]
        self.labels, self.since = Labels(), Counter[Hashable]()
        self.labels.restore(decode(label) for label in values["labels"])
        self.pending = Pending(values["questions"]["room"])
        self.pending.unpack(part("questions", found.tensors), values["questions"])

    def add(self, operation: operations.Operation) -> None:
        if isinstance(operation, operations.Asked):
            self.pending.add(operation.x, Journal())
            return
        if isinstance(operation, operations.Adjusted):
            return
        self.labels.admit(operation.y)
        self.since.update(operation.y)
        if isinstance(operation, operations.Told):
            self.pending.remove(operation.ticket, Journal())
        self.step += isinstance(operation, operations.Observed | operations.Told)


def _inspection(found: Snapshot, past: Past) -> Inspection:
    values = found.manifest
    net = values["settings"]["net"]
    pid, host = user(found.folder) or (None, "")
    return Inspection(
        folder=found.folder,
        step=past.step,
        classes=tuple(_classes(found, past)),
        method=str(values["method"]["name"]),
        options=dict(values["method"]["options"]),
        net=None if net is None else {**net, "name": str(net["name"]), "shape": list(net["shape"])},
        parameters=sum(tensor.numel() for tensor in part("net", found.tensors).values()),
        memory=_memory(found),
        pending=len(past.pending),
        checkpoint=CheckpointSummary(
            step=values["step"],
            nbytes=found.size,
            written_by={"holdfast": values.get("holdfast"), **values.get("conditions", {})},
        ),
        log=LogSummary(
            file=found.place.name,
            entries=len(found.reading.entries),
            nbytes=len(found.log_bytes),
            sealed=found.reading.sealed,
            torn=len(found.log_bytes) - found.reading.end,
        ),
        kept=tuple(kept(found.folder)),
        files=dict(sorted(_sizes(found.folder))),
        pid=pid,
        host=host,
    )


def _classes(found: Snapshot, past: Past) -> Iterator[ClassSummary]:
    counts: list[int] = part("memory", found.tensors)["class_counts"].tolist()
    for index, label in enumerate(past.labels):
        if label is not FORGOTTEN:
            yield ClassSummary(label, counts[index] if index < len(counts) else 0, past.since[label])


def _memory(found: Snapshot) -> MemorySummary:
    held = part("memory", found.tensors)
    nbytes = sum(tensor.numel() * tensor.element_size() for tensor in held.values())
    counts, capacity = held["counts"].tolist(), held["capacity"].tolist()
    return MemorySummary(found.manifest["memory"]["kind"], int(counts[1]), int(capacity[0]), nbytes)


def _sizes(folder: Path) -> Iterator[tuple[str, int]]:
    for place, _, names in os.walk(folder):
        for file in (Path(place, name) for name in names):
            with suppress(FileNotFoundError):  # removed meanwhile
                if file.is_file():
                    yield file.relative_to(folder).as_posix(), file.stat().st_size
