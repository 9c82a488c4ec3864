from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples with their class indices, and whatever else a method keeps beside them."""

    x: Tensor
    y: Tensor
    extra: Mapping[str, Tensor] = field(default_factory=dict)
    task: int | None = None  # given only to methods that declare needs_task_ids

    def __len__(self) -> int:
        return len(self.y)
