from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from torch import Tensor

from holdfast.batch import Batch
from holdfast.memory import Reservoir
from holdfast.nets import Net


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """What is done with an incoming batch and the past. A frozen set of hyper-parameters; only `loss` is required.

    One step of the learner: recall from memory, take one gradient step on the loss, remember the incoming batch.
    """

    needs_task_ids: ClassVar[bool] = False
    iid_batches: ClassVar[int] = 0  # above 0: the stream is shuffled, with so many of its batches a step

    head: Literal["linear", "cosine"] = "linear"
    replay: int = 10

    @property
    def looks_ahead(self) -> bool:
        """Whether it looks at classes still to come, which takes a head sized in advance."""
        return False

    @abstractmethod
    def loss(self, net: Net, new: Batch, old: Batch | None = None) -> Tensor:
        """The loss of one step. `new` is the incoming batch; what `recall` returned comes by name."""

    def recall(self, net: Net, new: Batch, memory: Reservoir, rng: np.random.Generator) -> Mapping[str, Batch]:
        """The batches to replay, by the name under which `loss` takes them."""
        old = memory.sample(self.replay, rng)
        return {} if old is None else {"old": old}

    def remember(self, net: Net, new: Batch) -> Batch | None:
        """What is offered to the memory after the step."""
        return new

    def predict(self, net: Net, memory: Reservoir, x: Tensor) -> Tensor:
        """A score for each seen class."""
        return net(x)  # type: ignore[no-any-return]
