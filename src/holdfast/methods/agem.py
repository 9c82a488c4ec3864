from dataclasses import dataclass

import torch
from torch import Tensor, nn

from holdfast.batch import Batch
from holdfast.losses import cross_entropy
from holdfast.methods.base import Extra, Method, StepContext
from holdfast.nets import Net


@dataclass(frozen=True, kw_only=True)
class AGEM(Method):
    """Averaged gradient episodic memory: forbids steps that would, to first order, raise the loss on the memory.

    Args:
        head: `linear`, or `cosine`: logits are cosines divided by 0.1.
        replay: how many samples are replayed in each step.
    """

    def learn(self, new: Batch, at: StepContext) -> tuple[Tensor, Extra]:
        loss = self.loss(at.net, at.view("new", new))
        loss.backward()  # type: ignore[no-untyped-call]
        if (drawn := at.memory.sample(self.replay, at.rng)) is not None:
            trained = [p for p in at.net.parameters() if p.grad is not None]
            harm = self.loss(at.net, at.view("old", drawn))
            project(trained, torch.autograd.grad(harm, trained, materialize_grads=True))
        return loss, {}

    def loss(self, net: Net, new: Batch, old: Batch | None = None) -> Tensor:
        return cross_entropy(net(new.x), new.y)


@torch.no_grad()
def project(parameters: list[nn.Parameter], reference: tuple[Tensor, ...]) -> None:
    """G ← g - (g·r / r·r) r where g·r < 0, with g the gradient of all parameters together and r the reference."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    along = torch.stack([(g * r).sum() for g, r in zip(gradients, reference, strict=True)]).sum()
    if along < 0:
        share = along / torch.stack([r.square().sum() for r in reference]).sum()
        for gradient, direction in zip(gradients, reference, strict=True):
            gradient.sub_(share * direction)
