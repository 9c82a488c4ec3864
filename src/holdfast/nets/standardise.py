"""Inputs of mean 0 and variance 1, by statistics that are part of the net."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

TINY = 1e-12  # a column that hardly varies stays as it is, but for its mean
FAR = 100.0  # standard deviations from the mean: as large as a value may be
STEADY = 100  # samples, from which on one that is farther away counts as that far


class Standardise(nn.Module):
    """Subtracts the mean and divides by the standard deviation of all samples that have been learned so far: of each
    column of vectors, of each channel of images. Each sample counts the same, so that the statistics settle.

    Values beyond 100 standard deviations count as 100, in the statistics and for the net: a -9999 in a column of
    readings around 0.05 would otherwise make all others look alike for good, and is no outlier among the values of
    other columns. A column whose values have really become so much larger is followed in a few batches.
    """

    count: Tensor
    mean: Tensor
    variance: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(0, dtype=torch.float64))
        self.register_buffer("variance", torch.zeros(0, dtype=torch.float64))

    def resize(self, columns: int) -> None:
        """The number of columns is known from the first batch on."""
        self.mean, self.variance = self.mean.new_zeros(columns), self.variance.new_zeros(columns)

    def restorer(self) -> Callable[[], None]:
        """What puts it back to the size it has now."""
        before = self.mean, self.variance

        def restore() -> None:
            self.mean, self.variance = before

        return restore

    @torch.no_grad()
    def add(self, x: Tensor) -> None:
        """Counts scaled samples."""
        if not len(self.mean):
            self.resize(x.shape[1])
        columns = x.detach().double().movedim(1, -1).reshape(-1, x.shape[1])
        if self.count >= STEADY:
            reach = torch.where(self.variance > TINY, FAR * self.variance.sqrt(), torch.inf)
            columns = columns.clamp(self.mean - reach, self.mean + reach)
        mean, variance = columns.mean(0), columns.var(0, correction=0)
        share = len(x) / (self.count + len(x))
        change = mean - self.mean
        self.variance += share * (variance - self.variance + (1 - share) * change.square())
        self.mean += share * change
        self.count += len(x)

    def forward(self, x: Tensor) -> Tensor:
        if not len(self.mean):
            return x
        shape = (-1, *[1] * (x.ndim - 2))
        spread = torch.where(self.variance > TINY, self.variance, 1.0).sqrt()
        standardised = (x - self.mean.to(x.dtype).view(shape)) / spread.to(x.dtype).view(shape)
        return standardised.clamp(-FAR, FAR)
