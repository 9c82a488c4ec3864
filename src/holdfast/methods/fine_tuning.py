from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from holdfast.batch import Batch
from holdfast.losses import cross_entropy
from holdfast.memory import Memory
from holdfast.methods.base import Method
from holdfast.methods.options import Count
from holdfast.nets import Net


@dataclass(frozen=True, kw_only=True)
class FineTuning(Method):
    """Cross-entropy on the incoming batch, no memory: what forgetting costs.

    Args:
        head: `linear`, or `cosine`: logits are cosines divided by 0.1.
        replay: has no effect, as nothing is replayed.
    """

    replay: Count = 0

    def loss(self, net: Net, new: Batch, old: Batch | None = None) -> Tensor:
        return cross_entropy(net(new.x), new.y)

    def recall(self, net: Net, new: Batch, memory: Memory, rng: np.random.Generator) -> Mapping[str, Batch]:
        return {}

    def to_store(self, net: Net, new: Batch) -> None:
        return None
