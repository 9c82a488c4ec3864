"""DER++ as the paper's released code (github.com/pclucas14/AML) has it, to compare with ours:

    holdfast run --stream cifar10 --memory 20 --augment --lr 0.01 --method scripts/released_der.py:ReleasedDERPlusPlus

One draw of twice the size, one forward, logits kept on one half and labels on the other; the head has a row for every
class from the start, so classes still to come compete, and their logits are kept, too.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor
from torch.nn import functional as F

from holdfast import Method
from holdfast.batch import Batch
from holdfast.losses import cross_entropy
from holdfast.methods.base import Extra
from holdfast.nets import Net


@dataclass(frozen=True, kw_only=True)
class ReleasedDERPlusPlus(Method):
    stored_extras: ClassVar[str] = "logits"
    needs_unseen_classes: ClassVar[bool] = True

    replay: int = 20
    alpha: float = 0.75
    beta: float = 1.0

    def loss(self, net: Net, new: Batch, old: Batch | None = None) -> tuple[Tensor, Extra]:
        logits = net(new.x, unseen=True)
        loss = cross_entropy(logits, new.y)
        if old is not None:
            again, half = net(old.x, unseen=True), (len(old.y) + 1) // 2
            loss = loss + self.alpha * F.mse_loss(again[:half], old.extra["logits"][:half])
            if len(old.y) > half:
                loss = loss + self.beta * cross_entropy(again[half:], old.y[half:])
        return loss, {"logits": logits.detach()}
