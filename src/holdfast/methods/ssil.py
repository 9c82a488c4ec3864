from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

import torch
from torch import Tensor

from holdfast.batch import Batch
from holdfast.losses import cross_entropy, distillation
from holdfast.methods.base import Method
from holdfast.methods.options import Positive, renamed
from holdfast.nets import Net


@dataclass(frozen=True, kw_only=True)
class SSIL(Method):
    """Separated softmax: incoming samples compete among the current task's classes, replayed ones among earlier.

    Args:
        head: `linear`, or `cosine`: logits are cosines divided by 0.1.
        replay: how many samples are replayed in each step.
        distil: the net also keeps, task by task, the answers of the net at the last task switch, on replayed samples
            (`rehearsal`) or on incoming ones as well.
        temperature: of distillation.
    """

    needs_task_ids: ClassVar[bool] = True

    distil: Literal[False, "rehearsal", "incoming+rehearsal"] = renamed(False, {"incoming+rehearsal": True})
    temperature: Positive = 2.0

    @property
    def needs_teacher(self) -> bool:
        return self.distil is not False

    def loss(self, net: Net, new: Batch, old: Batch | None = None) -> Tensor:
        task = new.task
        assert task is not None
        present = torch.arange(task.start, net.seen, device=new.y.device)
        logits = net(new.x)
        # An earlier class that comes back competes, too: without it the loss of its samples would be infinite.
        loss = cross_entropy(logits, new.y, among=torch.cat([present, new.y]))
        if old is not None:
            replayed = net(old.x)
            loss = loss + cross_entropy(replayed[:, : task.start], old.y)
            if task.teacher is not None and self.distil == "rehearsal":
                loss = loss + self._keep(task.starts, task.teacher, old.x, replayed) / self.temperature**2
            elif task.teacher is not None:
                both = torch.cat([new.x, old.x]), torch.cat([logits, replayed])
                loss = loss + self._keep(task.starts, task.teacher, *both)
        return loss

    def _keep(self, starts: tuple[int, ...], teacher: Net, x: Tensor, answers: Tensor) -> Tensor:
        with torch.no_grad():
            kept = teacher(x)
        tasks = [slice(start, stop) for start, stop in pairwise(starts) if stop > start]
        return torch.stack([distillation(answers[:, t], kept[:, t], self.temperature) for t in tasks]).sum()
