import copy
import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from holdfast.arguments import Range
from holdfast.batch import Batch
from holdfast.errors import InputError
from holdfast.losses import cross_entropy
from holdfast.memory import ClassBalanced, Memory
from holdfast.methods.base import Extra, Method, StepContext
from holdfast.methods.options import AtLeastOne, Weight
from holdfast.nets import Net


@dataclass(frozen=True, kw_only=True)
class GDumb(Method):
    """Keeps a class-balanced memory and learns nothing; when asked, trains a fresh net on the memory alone.

    Args:
        head: `linear`, or `cosine`: logits are cosines divided by 0.1.
        replay: has no effect, as nothing is replayed.
        query: `end`: trained when the stream has ended; `retrain`: at every evaluation.
        rounds: passes over the memory.
        batch: samples in each step of this training.
        momentum: of this training.
        weight_decay: of this training.
        clip: the largest norm of a gradient in this training.
    """

    memory_class: ClassVar[type[Memory]] = ClassBalanced
    trains_to_answer: ClassVar[bool] = True

    query: Literal["end", "retrain"] = "end"
    rounds: Annotated[int, Range(least=0, most=10_000)] = 256  # passes over the memory; with more, it seems to hang
    batch: AtLeastOne = 16
    momentum: Annotated[float, Range(least=0, most=1)] = 0.9
    weight_decay: Weight = 1e-6
    clip: Annotated[float, Range(above=0, most=math.inf)] = 10.0

    @property
    def anytime(self) -> bool:
        return self.query == "retrain"

    def learn(self, new: Batch, at: StepContext) -> tuple[Tensor, Extra]:
        return torch.zeros(()), {}

    def loss(self, net: Net, new: Batch, old: Batch | None = None) -> Tensor:
        return cross_entropy(net(new.x), new.y)

    def answering_net(self, at: StepContext) -> Net:
        if len(at.memory) == 0:
            raise InputError("GDumb learns from its memory alone, and the memory has room for no sample")
        net = copy.deepcopy(at.net).train()  # the learner's net has never been trained: a copy is a fresh net
        sgd = torch.optim.SGD(net.parameters(), lr=at.lr, momentum=self.momentum, weight_decay=self.weight_decay)
        for turn in range(self.rounds):
            sgd.param_groups[0]["lr"] = at.lr * share_of_lr(turn)
            order = at.rng.permutation(len(at.memory))
            for part, slots in enumerate(np.array_split(order, math.ceil(len(order) / self.batch))):
                batch = at.view(f"query/{turn}/{part}", at.memory.at(slots))
                sgd.zero_grad()
                self.loss(net, batch).backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(net.parameters(), self.clip)
                sgd.step()
        return net.eval()


def share_of_lr(turn: int) -> float:
    """A tenth in the first pass; then cosines from 1 to 0.01 that start at passes 1, 2, 4, 8, ..."""
    if turn == 0:
        return 0.1
    start = 1 << (turn.bit_length() - 1)
    return 0.01 + 0.99 * (1 + math.cos(math.pi * (turn - start) / start)) / 2
