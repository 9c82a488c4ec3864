from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from holdfast.batch import Batch
from holdfast.losses import supcon
from holdfast.memory import Memory
from holdfast.methods.base import Method, Scores
from holdfast.methods.class_means import nearest_mean
from holdfast.methods.options import Positive
from holdfast.nets import Net


@dataclass(frozen=True, kw_only=True)
class SCR(Method):
    """Supervised contrastive replay: samples of a class, incoming or replayed, are pulled together in a projection.

    It answers by the nearest class mean of the memory's features, before the projection.

    Args:
        head: `projection`.
        replay: how many samples are replayed in each step.
        temperature: of SupCon.
        views: how many views of each sample are used; the second differs only with augmentation.
    """

    head: Literal["projection"] = "projection"  # type: ignore[assignment]
    temperature: Positive = 0.07
    views: Literal[1, 2] = 2  # how often each sample is looked at; the second view differs only with augmentation on

    def recall(self, net: Net, new: Batch, memory: Memory, rng: np.random.Generator) -> Mapping[str, Batch]:
        recalled = dict(super().recall(net, new, memory, rng))
        if self.views == 2:
            both, device = [new, *recalled.values()], new.x.device
            x = torch.cat([batch.x.to(device) for batch in both])
            y = torch.cat([batch.y.to(device) for batch in both])
            recalled["again"] = Batch(x, y)
        return recalled

    def loss(self, net: Net, new: Batch, old: Batch | None = None, again: Batch | None = None) -> Tensor:
        batches = [batch for batch in (new, old, again) if batch is not None]
        points = torch.cat([net(batch.x) for batch in batches])
        y = torch.cat([batch.y for batch in batches])
        return supcon(points, y, points, y, self.temperature, without=torch.eye(len(y), dtype=torch.bool))

    @property
    def answers_from_memory(self) -> bool:
        return True

    def predictor(self, net: Net, memory: Memory) -> Scores:
        return nearest_mean(net, memory)
