"""All or nothing: puts tensors and an optimizer back as they were, bit for bit."""

from typing import Any

import torch
from torch import Tensor


class Rollback:
    """Copies go into tensors that are kept from step to step, because fresh memory costs more than the copy."""

    def __init__(self, live: list[Tensor], optimizer: torch.optim.Optimizer) -> None:
        self._live = live
        self._optimizer = optimizer
        self._copies: list[Tensor] = []
        self._optimizer_state: dict[Tensor, dict[str, Any]] = {}

    @torch.no_grad()
    def capture(self) -> None:
        if [t.shape for t in self._live] != [t.shape for t in self._copies]:
            self._copies = [torch.empty_like(t) for t in self._live]
        if self._live:
            torch._foreach_copy_(self._copies, self._live)
        self._optimizer_state = {
            parameter: {k: v.clone() if isinstance(v, Tensor) else v for k, v in state.items()}
            for parameter, state in self._optimizer.state.items()
        }

    @torch.no_grad()
    def restore(self) -> None:
        if self._live:
            torch._foreach_copy_(self._live, self._copies)
        self._optimizer.state.clear()
        self._optimizer.state.update(self._optimizer_state)
        self._optimizer.zero_grad(set_to_none=True)
