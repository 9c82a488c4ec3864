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
    """The current task. Only methods that declare `needs_task_ids` are told.

    Classes are numbered by their first appearance, so those of task k are starts[k], ..., starts[k + 1] - 1. A task
    that comes back counts as another one: its classes are those of an earlier task by then.

    Args:
        id: what the stream calls the task.
        starts: the first class of every task so far, the current one last.
        teacher: the net as it was when the current task began, for methods that need it.
    """

    id: int
    starts: tuple[int, ...]  # the first class of every task so far, the present one last
    teacher: Net | None = None  # the net as it was when the present task began, for methods that need_teacher

    @property
    def start(self) -> int:
        """Classes below it are those of earlier tasks."""
        return self.starts[-1]

    def without(self, label: int) -> Task:
        """The same task, with a teacher that has never known a class.

        Args:
            label: the index of the class.

        Returns:
            The task.
        """
        if self.teacher is None or label >= self.teacher.seen:
            return self
        teacher = self.teacher.frozen()
        teacher.head.renew(label)
        return replace(self, teacher=teacher)


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples with their class indices, and whatever else a method keeps beside them.

    Args:
        x: the samples; the first axis is the batch.
        y: the class index of each sample, in the order of the first appearance of classes.
        extra: what a method keeps beside samples, by name.
        task: the task, for methods that need to be told.
    """

    x: Tensor
    y: Tensor
    extra: Mapping[str, Tensor] = field(default_factory=dict)
    task: Task | None = None

    def __len__(self) -> int:
        return len(self.y)
