"""Samples on their way through a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from holdfast.nets import Net


@dataclass(frozen=True, slots=True)
class Task:
    """Where the stream is. Only methods that declare needs_task_ids are told.

    Classes are numbered by their first appearance, so those of task k are starts[k], ..., starts[k + 1] - 1.
    A task that comes back counts as another one: its classes are those of an earlier task by then.
    """

    id: int
    starts: tuple[int, ...]  # the first class of every task so far, the present one last
    teacher: Net | None = None  # the net as it was when the present task began, for methods that need_teacher

    @property
    def start(self) -> int:
        """Classes below it are those of earlier tasks."""
        return self.starts[-1]

    def without(self, label: int) -> Task:
        """The same, with a teacher that has never known the class."""
        if self.teacher is None or label >= self.teacher.seen:
            return self
        teacher = self.teacher.frozen()
        teacher.head.renew(label)
        return replace(self, teacher=teacher)


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples with their class indices, and whatever else a method keeps beside them."""

    x: Tensor
    y: Tensor
    extra: Mapping[str, Tensor] = field(default_factory=dict)
    task: Task | None = None

    def __len__(self) -> int:
        return len(self.y)
