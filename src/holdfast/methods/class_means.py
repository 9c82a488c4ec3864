"""Nearest-class-mean answers from the memory's features."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from holdfast.errors import InputError
from holdfast.losses import squared_distances, unit
from holdfast.memory import Memory
from holdfast.nets import Net

CHUNK = 64


@torch.no_grad()
def class_means(net: Net, memory: Memory) -> Tensor:
    """The mean of each seen class's normalised features, normalised again; NaN for classes with no sample held."""
    device = net.head.weight.device
    total = torch.zeros(0)
    for start in range(0, len(memory), CHUNK):
        batch = memory.at(np.arange(start, min(start + CHUNK, len(memory))))
        features = unit(net.features(batch.x.to(device)))
        if not len(total):
            total = features.new_zeros(net.seen, features.shape[1])
        total.index_add_(0, batch.y.to(device), features)
    counts = torch.from_numpy(np.pad(memory.class_counts, (0, net.seen - len(memory.class_counts)))).to(device)
    return unit(total / counts[:, None])


def nearest_mean(net: Net, memory: Memory) -> Callable[[Tensor], Tensor]:
    """Scores classes by the squared distance of a sample's normalised features to their means."""
    if len(memory) == 0:
        raise InputError("class means are taken over the memory, and the memory has room for no sample")
    means = class_means(net, memory)

    def scores(x: Tensor) -> Tensor:
        distances = squared_distances(unit(net.features(x)), means)
        return torch.where(distances.isnan(), -torch.inf, -distances)

    return scores
