from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from holdfast.batch import Batch
from holdfast.losses import cross_entropy
from holdfast.methods.base import Method
from holdfast.nets import Net


@dataclass(frozen=True, kw_only=True)
class ERACE(Method):
    """Incoming samples compete only with the classes of their own batch; replayed ones with all seen classes.

    Args:
        head: `linear`, or `cosine`: logits are cosines divided by 0.1.
        replay: how many samples are replayed in each step.
        compete: with which classes incoming samples compete: those of their own batch, or (`batch+unseen`) also
            those of a head sized in advance that have not appeared yet.
    """

    head: Literal["linear", "cosine"] = "cosine"
    compete: Literal["batch", "batch+unseen"] = "batch"

    @property
    def needs_unseen_classes(self) -> bool:
        return self.compete == "batch+unseen"

    def loss(self, net: Net, new: Batch, old: Batch | None = None) -> Tensor:
        rivals = torch.unique(new.y)
        if self.needs_unseen_classes:
            rivals = torch.cat([rivals, torch.arange(net.seen, net.rows, device=rivals.device)])
        incoming = cross_entropy(net(new.x, unseen=self.needs_unseen_classes), new.y, among=rivals)
        return incoming if old is None else incoming + cross_entropy(net(old.x), old.y)
