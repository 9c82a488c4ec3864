"""A head that grows one class at a time."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from holdfast import ER, Learner, mlp
from holdfast.nets import Head
from reliability.outcome import counted


@counted
def rows_stay(effort: int) -> Iterator[str | None]:
    """Growth leaves the rows there are and their optimizer state, bit for bit; new state is zero."""
    classes = 500 if effort == 1 else 1000 * effort
    learner = Learner(mlp((3,), width=4), ER(), memory=50, optimizer=momentum)
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    flaws: list[str] = []
    grow = Head.grow

    def watched(head: Head, *args: Any) -> None:
        before = rows_and_state(learner)
        grow(head, *args)
        for name, old in before.items():
            new = rows_and_state(learner)[name]
            if not torch.equal(new[: len(old)], old):
                flaws.append(f"{name}: an old row changed")
            if "momentum" in name and new[len(old) :].any():
                flaws.append(f"{name}: a new row is not at zero")

    with patch.object(Head, "grow", watched):
        for number in range(classes):
            learner.observe(x, [f"class {number}", "class 0"])
            if learner.net.rows != number + 1 or learner.classes[-1] != f"class {number}":
                flaws.append(f"{learner.net.rows} rows")
            yield f"growing to {number + 1} classes: {', '.join(flaws)}" if flaws else None
            flaws.clear()


def momentum(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9)


def rows_and_state(learner: Learner) -> dict[str, Tensor]:
    head = dict(learner.net.head.named_parameters())
    states = {name: learner.optimizer.state.get(parameter, {}) for name, parameter in head.items()}
    found = {name: parameter.detach().clone() for name, parameter in head.items() if parameter.numel()}
    return found | {f"momentum of {k}": v["momentum_buffer"].clone() for k, v in states.items() if v}
