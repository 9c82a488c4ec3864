from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from holdfast.batch import Batch
from holdfast.losses import cross_entropy
from holdfast.memory import Memory
from holdfast.methods.base import Extra, Method
from holdfast.methods.options import Weight
from holdfast.nets import Net


@dataclass(frozen=True, kw_only=True)
class DER(Method):
    """Dark experience replay: replayed samples keep the logits they had when they came in.

    A class that had not appeared then had the logit 0.

    Args:
        head: `linear`, or `cosine`: logits are cosines divided by 0.1.
        replay: how many samples are replayed in each step.
        alpha: the weight of keeping the logits.
    """

    stored_extras: ClassVar[str] = "logits"

    alpha: Weight = 0.75

    def loss(self, net: Net, new: Batch, old: Batch | None = None) -> tuple[Tensor, Extra]:
        logits = net(new.x)
        loss = self.incoming(logits, new.y)
        if old is not None:
            then = old.extra["logits"]
            loss = loss + self.alpha * F.mse_loss(net(old.x), F.pad(then, (0, net.seen - then.shape[1])))
        return loss, {"logits": logits.detach()}

    def incoming(self, logits: Tensor, y: Tensor) -> Tensor:
        """Computes the loss of incoming samples.

        Args:
            logits: of the incoming samples.
            y: their class indices.

        Returns:
            A tensor with one value.
        """
        return cross_entropy(logits, y)


@dataclass(frozen=True, kw_only=True)
class DERPlusPlus(DER):
    """DER, and cross-entropy on a second, independent draw.

    Args:
        head: `linear`, or `cosine`: logits are cosines divided by 0.1.
        replay: how many samples are replayed in each step.
        alpha: the weight of keeping the logits.
        beta: the weight of the cross-entropy on replayed samples.
    """

    beta: Weight = 1.0

    def recall(self, net: Net, new: Batch, memory: Memory, rng: np.random.Generator) -> Mapping[str, Batch]:
        recalled = super().recall(net, new, memory, rng)
        second = memory.sample(self.replay, rng)
        return recalled if second is None else {**recalled, "second": second}

    def loss(self, net: Net, new: Batch, old: Batch | None = None, second: Batch | None = None) -> tuple[Tensor, Extra]:
        loss, extra = super().loss(net, new, old)
        return loss if second is None else loss + self.beta * cross_entropy(net(second.x), second.y), extra


@dataclass(frozen=True, kw_only=True)
class DERPlusPlusACE(DERPlusPlus):
    """DER++ whose incoming samples compete only with the classes of their own batch.

    Args:
        head: `linear`, or `cosine`: logits are cosines divided by 0.1.
        replay: how many samples are replayed in each step.
        alpha: the weight of keeping the logits.
        beta: the weight of the cross-entropy on replayed samples.
    """

    def incoming(self, logits: Tensor, y: Tensor) -> Tensor:
        """Computes the loss of incoming samples.

        Args:
            logits: of the incoming samples.
            y: their class indices.

        Returns:
            A tensor with one value.
        """
        return cross_entropy(logits, y, among=torch.unique(y))
