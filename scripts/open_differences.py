"""Methods as the paper's released code (github.com/pclucas14/AML) has them in one respect, to find reasons for
differences between its numbers and ours:

    holdfast run --stream cifar10 --memory 20 --eval rotating:100 --lr 0.1 --method scripts/open_differences.py:ToldER

docs/paper.md has the others. A run counts as one of this very file: with any change to it, its methods are others.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from holdfast import ER, ERAML, MIR, Batch, ICaRL
from holdfast.losses import cross_entropy
from holdfast.memory import Memory
from holdfast.methods.base import Scores
from holdfast.nets import Net

AT_ONCE = 64


@dataclass(frozen=True, kw_only=True)
class ToldER(ER):
    """ER that replays from the second task on, and samples of earlier tasks only."""

    needs_task_ids: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class AllOutputsERAML(ERAML):
    """ER-AML whose replayed samples compete with all classes, also those still to come."""

    needs_unseen_classes: ClassVar[bool] = True

    def loss(self, net: Net, new: Batch, old: Batch | None = None, pairs: Batch | None = None) -> Tensor:
        incoming = super().loss(net, new, None, pairs)
        return incoming if old is None else incoming + cross_entropy(net(old.x, unseen=True), old.y)


@dataclass(frozen=True, kw_only=True)
class LiveMIR(MIR):
    """MIR whose candidates enter BatchNorm's running statistics when they are scored. It costs a forward more."""

    @torch.no_grad()
    def _most_harmed(self, net: Net, old: Batch, lr: float) -> Batch:
        chosen = super()._most_harmed(net, old, lr)
        net(old.x)
        return chosen


@dataclass(frozen=True, kw_only=True)
class RawICaRL(ICaRL):
    """iCaRL that compares features with class means as they are, not as unit vectors."""

    @torch.no_grad()
    def predictor(self, net: Net, memory: Memory) -> Scores:
        device = net.head.weight.device
        parts = [memory.at(np.arange(i, min(i + AT_ONCE, len(memory)))) for i in range(0, len(memory), AT_ONCE)]
        features = torch.cat([net.features(part.x.to(device)) for part in parts])
        y = torch.cat([part.y for part in parts]).to(device)
        means = torch.stack([features[y == label].mean(0) for label in range(net.seen)])

        def scores(x: Tensor) -> Tensor:
            distances = torch.cdist(net.features(x), means, compute_mode="donot_use_mm_for_euclid_dist").square()
            return torch.where(distances.isnan(), -torch.inf, -distances)

        return scores
