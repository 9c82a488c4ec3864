"""What methods share that keep statistics of features and take no gradient steps."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from holdfast.batch import Batch
from holdfast.losses import cross_entropy
from holdfast.memory import Memory
from holdfast.methods.base import Extra, Method, Scores, StepContext
from holdfast.methods.options import Count
from holdfast.nets import Head, Net
from holdfast.nets.statistics import MeansHead


@dataclass(frozen=True, kw_only=True)
class RunningStatistics(Method):
    learns_by_gradient: ClassVar[bool] = False

    replay: Count = 0

    @property
    def answers_from_memory(self) -> bool:
        return False

    def learn(self, new: Batch, at: StepContext) -> tuple[Tensor, Extra]:
        net, batch = at.net.eval(), at.view("new", new)  # statistics of the encoder stay as they are, too
        with torch.no_grad():
            assert isinstance(net.head, MeansHead)
            net.head.take_in(net.features(batch.x), batch.y)
        return torch.zeros(()), {}

    def loss(self, net: Net, new: Batch, old: Batch | None = None) -> Tensor:
        """Of the answers; nothing is learned from it."""
        return cross_entropy(net(new.x), new.y)

    def recall(self, net: Net, new: Batch, memory: Memory, rng: np.random.Generator) -> Mapping[str, Batch]:
        return {}

    def to_store(self, net: Net, new: Batch) -> None:
        return None

    def predictor(self, net: Net, memory: Memory) -> Scores:
        scores = self.scores(net.head)
        return lambda x: scores(net.features(x))

    @abstractmethod
    def scores(self, head: Head) -> Scores:
        """The function that scores features."""
