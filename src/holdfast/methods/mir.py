from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional as F

from holdfast.batch import Batch
from holdfast.losses import cross_entropy
from holdfast.methods.base import Extra, Method, StepContext
from holdfast.methods.options import Count
from holdfast.nets import Net


@dataclass(frozen=True, kw_only=True)
class MIR(Method):
    """Maximally interfered retrieval: replays what the incoming batch alone would harm most.

    These are the samples whose loss would rise most by an SGD step on the incoming loss.

    Args:
        head: `linear`, or `cosine`: logits are cosines divided by 0.1.
        replay: how many samples are replayed in each step.
        candidates: how many random samples they are chosen from.
    """

    needs_task_ids: ClassVar[bool] = True

    candidates: Count = 50

    def learn(self, new: Batch, at: StepContext) -> tuple[Tensor, Extra]:
        net = at.net
        loss = self.loss(net, at.view("new", new))
        loss.backward()  # type: ignore[no-untyped-call]
        start = new.task.start if new.task else None
        drawn = at.memory.sample(self.candidates if self.replay else 0, at.rng, below=start)
        if drawn is not None:
            old = self._most_harmed(net, at.view("old", drawn), at.lr)
            replayed = cross_entropy(net(old.x), old.y)
            replayed.backward()  # type: ignore[no-untyped-call]
            loss = loss + replayed
        return loss, {}

    def loss(self, net: Net, new: Batch, old: Batch | None = None) -> Tensor:
        return cross_entropy(net(new.x), new.y)

    @torch.no_grad()
    def _most_harmed(self, net: Net, old: Batch, lr: float) -> Batch:
        now = dict(net.named_parameters())
        then = {name: p if p.grad is None else p - lr * p.grad for name, p in now.items()}
        rise = _losses(net, then, old) - _losses(net, now, old)
        chosen = rise.topk(min(self.replay, len(old))).indices
        return Batch(old.x[chosen], old.y[chosen])


def _losses(net: Net, parameters: Mapping[str, Tensor], batch: Batch) -> Tensor:
    """The loss of each sample with other parameters. The net's own statistics stay as they are."""
    statistics = {name: buffer.clone() for name, buffer in net.named_buffers()}
    return F.cross_entropy(functional_call(net, {**parameters, **statistics}, batch.x), batch.y, reduction="none")
