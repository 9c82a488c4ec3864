"""Heads that grow one class at a time without touching the rows they have."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.losses import unit
from holdfast.seeds import generator


def _nothing(dimensions: int) -> nn.Parameter:
    """A parameter that is to grow; in float32 whatever the caller's default is."""
    return nn.Parameter(torch.empty([0] * dimensions, dtype=torch.float32))


class Head(nn.Module):
    """Logits over the classes seen so far, which are the first `seen` rows of `weight`.

    There are more rows than that only when the head was sized in advance.
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.seen = 0
        self.seed = seed
        self.weight = _nothing(2)

    def restorer(self, optimizer: torch.optim.Optimizer | None = None) -> Callable[[], None]:
        """What puts the head back to the size it has now."""
        seen, before = self.seen, dict(self.named_parameters())
        state = {} if optimizer is None else optimizer.state
        states: dict[Tensor, Any] = {p: state[p] for p in before.values() if p in state}
        groups = [(group, group["params"]) for group in optimizer.param_groups] if optimizer else []

        def restore() -> None:
            self.seen = seen
            for name, parameter in before.items():
                state.pop(getattr(self, name), None)
                setattr(self, name, parameter)
            state.update(states)
            for group, parameters in groups:
                group["params"] = parameters

        return restore

    def grow(self, seen: int, rows: int, features: int, optimizer: torch.optim.Optimizer | None = None) -> None:
        """Room for `rows` classes, `seen` of them seen; the rows there are, and their optimizer state, stay."""
        bound = 1 / math.sqrt(features)
        for name, parameter in list(self.named_parameters()):
            shape = (rows, features) if parameter.ndim == 2 else (rows,)
            data = parameter.detach().new_empty(shape)
            if len(parameter):
                data[: len(parameter)] = parameter.detach()
            for row in range(len(parameter), rows):
                data[row] = self._fresh(name, row, shape[1:], bound)
            self._exchange(name, nn.Parameter(data), optimizer)
        self.seen = seen

    @torch.no_grad()
    def renew(self, row: int, optimizer: torch.optim.Optimizer | None = None) -> None:
        """The row of a class as it was before anything was learned."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        for name, parameter in self.named_parameters():
            parameter[row] = self._fresh(name, row, parameter.shape[1:], bound)
            for value in optimizer.state.get(parameter, {}).values() if optimizer else ():
                if isinstance(value, Tensor) and value.shape == parameter.shape:
                    value[row] = 0

    def check(self, state: Mapping[str, Tensor]) -> None:
        """A CheckpointError if the state of a net has something of the head that would cost more than it holds."""

    def _exchange(self, name: str, new: nn.Parameter, optimizer: torch.optim.Optimizer | None) -> None:
        """Puts another parameter in the place of one; optimizer state of its shape follows, new rows at zero.

        One that is resized in place fails as long as somebody holds a graph of its old shape, such as an exception.
        """
        old = getattr(self, name)
        setattr(self, name, new)
        if optimizer is None:
            return
        for group in optimizer.param_groups:
            group["params"] = [new if parameter is old else parameter for parameter in group["params"]]
        if old in optimizer.state:
            state = optimizer.state.pop(old)
            optimizer.state[new] = {key: _resized(value, old.shape, new.shape) for key, value in state.items()}

    def _fresh(self, name: str, row: int, shape: tuple[int, ...], bound: float) -> Tensor:
        """Depends on the seed and the row's index only, not on when it is added."""
        return torch.as_tensor(generator(self.seed, f"head/{name}", row).uniform(-bound, bound, shape))


def _resized(value: Any, old: torch.Size, new: torch.Size) -> Any:
    if not isinstance(value, Tensor) or value.shape != old or not old:
        return value
    resized = value.new_zeros(new)
    if rows := min(len(value), len(resized)):
        resized[:rows] = value[:rows]
    return resized


class LinearHead(Head):
    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.bias = _nothing(1)

    def forward(self, features: Tensor, unseen: bool = False) -> Tensor:
        stop = None if unseen else self.seen
        return F.linear(features, self.weight[:stop], self.bias[:stop])


class CosineHead(Head):
    """logit_c = cos(w_c, f) / temperature"""

    def __init__(self, seed: int = 0, temperature: float = 0.1) -> None:
        super().__init__(seed)
        self.temperature = temperature

    def forward(self, features: Tensor, unseen: bool = False) -> Tensor:
        weight = self.weight[: None if unseen else self.seen]
        return F.linear(unit(features), unit(weight)) / self.temperature


class ProjectionHead(Head):
    """Not logits but a point in a space to compare samples in: two layers, whatever the number of classes."""

    def __init__(self, seed: int = 0, dimensions: int = 128) -> None:
        super().__init__(seed)
        self.dimensions = dimensions
        self.bias, self.out_weight, self.out_bias = _nothing(1), _nothing(2), _nothing(1)

    def grow(self, seen: int, rows: int, features: int, optimizer: torch.optim.Optimizer | None = None) -> None:
        if not self.weight.numel():
            bound = 1 / math.sqrt(features)
            for number, (name, parameter) in enumerate(list(self.named_parameters())):
                size = self.dimensions if name.startswith("out_") else features
                fresh = generator(self.seed, "head/projection", number)
                shape = (size, features) if parameter.ndim == 2 else (size,)
                data = torch.as_tensor(fresh.uniform(-bound, bound, shape)).to(parameter)
                self._exchange(name, nn.Parameter(data), optimizer)
        self.seen = seen

    def renew(self, row: int, optimizer: torch.optim.Optimizer | None = None) -> None:
        """No row belongs to one class."""

    def forward(self, features: Tensor, unseen: bool = False) -> Tensor:
        hidden = F.relu(F.linear(features, self.weight, self.bias))
        return F.linear(hidden, self.out_weight, self.out_bias)


HEADS: dict[str, type[Head]] = {"linear": LinearHead, "cosine": CosineHead, "projection": ProjectionHead}
