"""Heads that are running statistics of features and learn without gradients: class means, and a shared covariance."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.errors import CheckpointError
from holdfast.losses import squared_distances
from holdfast.nets.heads import Head

SHRINKAGE = 0.01
UNKNOWN = -1e30  # the score of a class that nothing is known of yet


class Moments(nn.Module):
    """What samples add to the means of their classes, and to the scatter around these. A ledger books it."""

    def __init__(self, *, second: bool) -> None:
        super().__init__()
        self.second = second  # whether the scatter is asked for

    def forward(self, features: Tensor, labels: Tensor, means: Tensor, counts: Tensor) -> tuple[Tensor, ...]:
        """`means` of `counts` samples so far. How many have arrived, how far the means move, and the new scatter."""
        classes, place = torch.unique(labels, return_inverse=True)
        of_class = F.one_hot(place, len(classes)).to(features)
        arrived, before = of_class.sum(0), counts[classes]
        theirs = of_class.T @ features / arrived[:, None]
        step = theirs - means[classes]
        share = arrived / (arrived + before)
        everywhere = counts.new_zeros(counts.shape).index_copy(0, classes, arrived)
        towards = torch.zeros_like(means).index_copy(0, classes, step * share[:, None])
        around = torch.cat([features - theirs[place], step * (before * share).sqrt()[:, None]])
        return everywhere, towards, around.T @ around if self.second else features.new_zeros(0)


class MeansHead(Head):
    """The rows of `weight` are the means of the classes. Scores are squared distances to them, negative."""

    counts: Tensor  # how many samples each mean is of

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.register_buffer("counts", torch.zeros(0, dtype=torch.float32))
        self.moments = Moments(second=False)

    def grow(self, seen: int, rows: int, features: int, optimizer: torch.optim.Optimizer | None = None) -> None:
        known = len(self.counts)
        super().grow(seen, rows, features, optimizer)
        with torch.no_grad():
            self.weight[known:] = 0
        self.counts = F.pad(self.counts, (0, rows - known))

    def restorer(self, optimizer: torch.optim.Optimizer | None = None) -> Callable[[], None]:
        restore_weight, buffers = super().restorer(optimizer), dict(self.named_buffers())

        def restore() -> None:
            restore_weight()
            for name, buffer in buffers.items():
                setattr(self, name, buffer)

        return restore

    @torch.no_grad()
    def renew(self, row: int, optimizer: torch.optim.Optimizer | None = None) -> None:
        self.weight[row] = 0
        self.counts[row] = 0

    @torch.no_grad()
    def take_in(self, features: Tensor, labels: Tensor) -> None:
        """Becomes the statistics of these samples, too."""
        arrived, towards, _ = self.moments(features, labels, self.weight, self.counts)
        self.counts.add_(arrived)
        self.weight.add_(towards)

    def forward(self, features: Tensor, unseen: bool = False) -> Tensor:
        return F.pad(self.scores()(features), (0, len(self.counts) - self.seen if unseen else 0), value=UNKNOWN)

    def scores(self) -> Callable[[Tensor], Tensor]:
        """What scores features in the present state."""
        means, unknown = self.weight[: self.seen].detach().clone(), self._unknown()

        def scores(features: Tensor) -> Tensor:
            return torch.where(unknown, UNKNOWN, -squared_distances(features, means))

        return scores

    def _unknown(self) -> Tensor:
        return self.counts[: self.seen] == 0


class LDAHead(MeansHead):
    """Linear discriminants from the means and the covariance within classes, which all classes share."""

    scatter: Tensor  # the sum of outer products of samples around the means of their classes

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.register_buffer("scatter", torch.zeros(0, 0, dtype=torch.float32))
        self.moments = Moments(second=True)

    def grow(self, seen: int, rows: int, features: int, optimizer: torch.optim.Optimizer | None = None) -> None:
        super().grow(seen, rows, features, optimizer)
        if len(self.scatter) != features:
            self.scatter = self.weight.new_zeros(features, features).detach()

    def check(self, state: Mapping[str, Tensor]) -> None:
        width = state["head.weight"].shape[1] if state["head.weight"].ndim == 2 else 0
        if state["head.scatter"].shape != (width, width):
            raise CheckpointError("the covariance of the head is not as wide as its means")

    @torch.no_grad()
    def take_in(self, features: Tensor, labels: Tensor) -> None:
        arrived, towards, scatter = self.moments(features, labels, self.weight, self.counts)
        self.counts.add_(arrived)
        self.weight.add_(towards)
        self.scatter.add_(scatter)

    def scores(self, shrinkage: float = SHRINKAGE) -> Callable[[Tensor], Tensor]:
        unknown = self._unknown()
        weight, bias, centre = (each.to(self.weight.dtype) for each in self.discriminants(shrinkage))

        def scores(features: Tensor) -> Tensor:
            found = F.linear(features - centre, weight, bias)
            return torch.where(unknown | found.isnan(), UNKNOWN, found)

        return scores

    @torch.no_grad()
    def discriminants(self, shrinkage: float) -> tuple[Tensor, Tensor, Tensor]:
        """Rows and biases of a linear classifier of features around a centre, in float64."""
        means, known = self.weight[: self.seen].double(), ~self._unknown()
        centre = means[known].sum(0) / known.sum().clamp(min=1)
        covariance = self.scatter.double() / self.counts.double().sum().clamp(min=1)
        size = covariance.diagonal().mean()
        unit = torch.eye(len(covariance), dtype=torch.float64, device=means.device)
        shrunk = (1 - shrinkage) * covariance + shrinkage * size * unit if size > 0 else unit
        around = means - centre
        weight = torch.linalg.solve_ex(shrunk, around.T)[0].T  # without an error where a forged file has no covariance
        return weight, -(weight * around).sum(1) / 2, centre
