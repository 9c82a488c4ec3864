from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.batch import Batch
from holdfast.losses import cross_entropy
from holdfast.methods.fine_tuning import FineTuning
from holdfast.methods.options import AtLeastOne
from holdfast.nets import Net


@dataclass(frozen=True, kw_only=True)
class IID(FineTuning):
    """The stream shuffled, one pass: what a stream without forgetting would give.

    Args:
        head: `linear`, or `cosine`: logits are cosines divided by 0.1.
        replay: has no effect, as nothing is replayed.
    """

    iid_batches: ClassVar[int] = 1


@dataclass(frozen=True, kw_only=True)
class IIDOffline(IID):
    """The stream shuffled, several passes: what the net can learn at all.

    Args:
        head: `linear`, or `cosine`: logits are cosines divided by 0.1.
        replay: has no effect, as nothing is replayed.
        passes: how many.
    """

    passes: AtLeastOne = 5

    @property
    def epochs(self) -> int:
        return self.passes


@dataclass(frozen=True, kw_only=True)
class IIDPlusPlus(FineTuning):
    """The stream shuffled, two of its batches per step: the compute of replay without forgetting.

    Args:
        head: `linear`, or `cosine`: logits are cosines divided by 0.1.
        replay: has no effect, as nothing is replayed.
    """

    iid_batches: ClassVar[int] = 2

    def loss(self, net: Net, new: Batch, old: Batch | None = None) -> Tensor:
        halves = zip(new.x.tensor_split(2), new.y.tensor_split(2), strict=True)
        return torch.stack([cross_entropy(net(x), y) for x, y in halves if len(y)]).sum()
