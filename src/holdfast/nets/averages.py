"""Averaged answers: a net whose weights are the average of those that learning went through."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from holdfast.errors import InputError
from holdfast.nets import Net, ProjectionHead, changing
from holdfast.samples import is_dense

WARM_UP = 9.0  # at first the average is over the last tenth of the steps, roughly


class Average:
    """The exponential moving average of the weights and statistics of a net that learns. Its own `net` answers.

    After each step avg ← d · avg + (1 - d) · w with d = min(decay, t / (t + 9)), where t steps were taken before.
    For a row of the head, t counts from the first step of its class: it enters the average as it is then.
    """

    def __init__(self, live: Net, decay: float) -> None:
        if any(p.requires_grad and p.itemsize < 4 for p in live.parameters()):
            why = "in less, small shares do not add up"
            raise InputError(f"average needs weights in float32 or float64: {why}; average=0 answers without one")
        self.net = live.twin()
        self.net.encoder.standardise = live.encoder.standardise  # statistics of the samples, and not of a net
        self.decay = decay
        self.born = torch.zeros(0, dtype=torch.int64)  # the step at which each class entered
        self._live = live

    @torch.no_grad()
    def update(self, step: int) -> None:
        """After a step of the net that learns; `step` were taken before."""
        both = list(zip(changing(self.net.encoder), changing(self._live.encoder), strict=True))
        if numbers := [pair for pair in both if _has_numbers(pair[0])]:
            torch._foreach_lerp_([mine for mine, _ in numbers], [its for _, its in numbers], self._share(step))
        if counters := [pair for pair in both if not _has_numbers(pair[0])]:
            torch._foreach_copy_([mine for mine, _ in counters], [its for _, its in counters])
        shares = self._shares_of_rows(step)
        for mine, its in zip(self.net.head.parameters(), self._live.head.parameters(), strict=True):
            mine.lerp_(its, shares.to(mine).view(-1, *[1] * (mine.ndim - 1)))

    def grow(self, step: int) -> None:
        """The head gets the rows that the one of the learning net has; their classes enter at this step."""
        head, its = self.net.head, self._live.head
        for (name, mine), new in zip(list(head.named_parameters()), its.parameters(), strict=True):
            if mine.shape != new.shape:
                data = new.detach().clone()
                if len(mine):
                    data[: len(mine)] = mine.detach()
                setattr(head, name, nn.Parameter(data))
        self.born = torch.cat([self.born, torch.full((its.seen - head.seen,), step)])
        head.seen = its.seen

    def restorer(self) -> Callable[[], None]:
        """What puts the head back to the size it has now."""
        born, restore_head = self.born, self.net.head.restorer()

        def restore() -> None:
            self.born = born
            restore_head()

        return restore

    def _share(self, steps: float) -> float:
        """Of the present weights in the average."""
        return max(1 - self.decay, WARM_UP / (WARM_UP + steps))

    def _shares_of_rows(self, step: int) -> Tensor:
        """Rows of classes still to come are as they are in the net that learns."""
        if isinstance(self.net.head, ProjectionHead):
            return torch.tensor([self._share(step)])
        shares = torch.ones(self.net.rows, dtype=torch.float64)
        ages = (step - self.born).float()  # whatever type is the caller's default
        shares[: self.net.seen] = (WARM_UP / (WARM_UP + ages)).clamp(min=1 - self.decay)
        return shares


def _has_numbers(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and tensor.itemsize > 1 and is_dense(tensor)
