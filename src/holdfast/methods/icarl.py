from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from holdfast.batch import Batch
from holdfast.losses import binary_cross_entropy
from holdfast.memory import Memory
from holdfast.methods.base import Method, Scores
from holdfast.methods.class_means import nearest_mean
from holdfast.methods.options import added_later
from holdfast.nets import Net


@dataclass(frozen=True, kw_only=True)
class ICaRL(Method):
    """A binary loss for each class; replayed samples keep the answers of the net at the last task switch.

    It answers by the nearest class mean of the memory's features.

    Args:
        head: `linear`, or `cosine`: logits are cosines divided by 0.1.
        replay: how many samples are replayed in each step.
        distil: if False, replayed samples have their labels instead.
    """

    needs_task_ids: ClassVar[bool] = True

    distil: bool = added_later(True, before=True)

    @property
    def needs_teacher(self) -> bool:
        return self.distil

    def loss(self, net: Net, new: Batch, old: Batch | None = None) -> Tensor:
        loss = _on_labels(net, new)
        if old is not None and not self.distil:
            return loss + _on_labels(net, old)
        if old is None or new.task is None or new.task.teacher is None:
            return loss
        with torch.no_grad():
            answers = new.task.teacher(old.x).sigmoid()
        # Classes that the teacher does not know yet are not those of earlier samples.
        return loss + binary_cross_entropy(net(old.x), F.pad(answers, (0, net.seen - answers.shape[1])))

    @property
    def answers_from_memory(self) -> bool:
        return True

    def predictor(self, net: Net, memory: Memory) -> Scores:
        return nearest_mean(net, memory)


def _on_labels(net: Net, batch: Batch) -> Tensor:
    logits = net(batch.x)
    return binary_cross_entropy(logits, F.one_hot(batch.y, net.seen).to(logits))
