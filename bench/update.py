"""One ER-ACE update on the reduced ResNet-18, 10 + 10 images, against bare PyTorch loops."""

import sys
from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from bench.ratio import Ratio, ratio, seconds
from holdfast import ERACE, Learner, slim_resnet18


def bare_loop(layout: torch.memory_format) -> Callable[[], None]:
    """Only the two forwards, the backward and SGD."""
    encoder = slim_resnet18().to(memory_format=layout).train()  # type: ignore[call-overload]
    head = nn.Linear(160, 10)
    optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.01)
    new, old = (torch.randn(10, 3, 32, 32).contiguous(memory_format=layout) for _ in range(2))
    y = torch.arange(10)

    def update() -> None:
        loss = F.cross_entropy(head(encoder(new)), y) + F.cross_entropy(head(encoder(old)), y)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return update


def bench() -> list[Ratio]:
    learner, averaged = (Learner(slim_resnet18(), ERACE(), memory=200, average=decay) for decay in (0.0, 0.99))
    x = np.random.default_rng(0).integers(0, 256, (10, 3, 32, 32), np.uint8)
    y = list(range(10))
    times = seconds(
        {
            "learner": lambda: learner.observe(x, y),
            "averaged": lambda: averaged.observe(x, y),
            "bare, channels-last": bare_loop(torch.channels_last),
            "bare, default layout": bare_loop(torch.contiguous_format),
        },
        rounds=40,
    )
    return [
        Ratio("ER-ACE update / bare loop in channels-last", ratio(times, "learner", "bare, channels-last"), 1.05),
        Ratio("ER-ACE update with averaged answers / without", ratio(times, "averaged", "learner"), 1.03),
        Ratio(
            "bare loop in default layout / ER-ACE update", ratio(times, "bare, default layout", "learner"), 1.3, True
        ),
    ]


if __name__ == "__main__":
    torch.set_num_threads(1)
    update = bare_loop(torch.channels_last)
    for _ in range(int(sys.argv[1])):
        update()
