from dataclasses import dataclass

from torch import Tensor

from holdfast.batch import Batch
from holdfast.losses import cross_entropy
from holdfast.methods.base import Method
from holdfast.nets import Net


@dataclass(frozen=True, kw_only=True)
class ER(Method):
    """Experience replay: the same cross-entropy on incoming and replayed samples.

    Args:
        head: `linear`, or `cosine`: logits are cosines divided by 0.1.
        replay: how many samples are replayed in each step.
    """

    def loss(self, net: Net, new: Batch, old: Batch | None = None) -> Tensor:
        incoming = cross_entropy(net(new.x), new.y)
        return incoming if old is None else incoming + cross_entropy(net(old.x), old.y)
