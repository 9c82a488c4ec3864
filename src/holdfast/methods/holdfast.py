from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from holdfast.batch import Batch
from holdfast.errors import InputError
from holdfast.losses import balanced_cross_entropy, cross_entropy, distillation
from holdfast.memory import Memory
from holdfast.methods.base import Extra, Method, Scores, StepContext, Usual
from holdfast.methods.class_means import nearest_mean
from holdfast.methods.options import Count, Weight, added_later
from holdfast.nets import Net
from holdfast.nets.norms import running_statistics_kept


@dataclass(frozen=True, kw_only=True)
class Holdfast(Method):
    """ER-ACE with everything that was shown to help. With `compete="batch", forward="apart"` it is ER-ACE, bit for bit.

    Args:
        head: `linear`, or `cosine`: logits are cosines divided by 0.1.
        replay: how many samples are replayed in each step.
        compete: `batch`, as in ER-ACE, or `prior`: incoming and replayed samples compete with the same classes, each
            logit raised by the log of the class's number of samples in both batches.
        counts: with `compete="prior"`: the number of replayed samples that is `expected`, by what the memory holds,
            so that all its classes compete; or the number that was `drawn`.
        spare: the head has this many rows for classes still to come, and incoming samples compete with these, too.
        forward: `apart`; `joint`: BatchNorm sees both batches as one; `replay-statistics`: its running statistics, by
            which it answers, are those of replayed samples alone.
        answer: by the `net`, or by the nearest class mean of the memory's features (`means`).
        augmented: `all` samples, where there is an augmentation; or each with a probability that is the `share` of
            the stream which the memory does not hold: as long as it holds everything, samples seldom repeat.
        distil: the weight of keeping, on replayed samples, the answers of the moving average of the net. It takes a
            sixth more multiply-adds.
    """

    usual: ClassVar[Usual] = Usual(lr=0.05, augment=True, average=0.99, codec="webp:75")

    head: Literal["linear", "cosine"] = "cosine"
    compete: Literal["batch", "prior"] = "prior"
    counts: Literal["expected", "drawn"] = added_later("expected", before="drawn")
    spare: Count = 0
    forward: Literal["apart", "joint", "replay-statistics"] = "joint"
    answer: Literal["net", "means"] = "net"
    augmented: Literal["all", "share"] = "share"
    distil: Weight = added_later(0.0, before=0.0)  # noqa: RUF009

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.spare and self.compete == "prior":
            raise InputError(
                "Holdfast: with compete='prior' classes without samples do not compete, so spare must be 0"
            )

    @property
    def spare_rows(self) -> int:
        return self.spare

    @property
    def answers_from_memory(self) -> bool:
        return self.answer == "means"

    @property
    def needs_average(self) -> bool:
        return self.distil > 0

    def augmented_share(self, memory: Memory) -> float:
        return 1.0 if self.augmented == "all" else 1 - len(memory) / max(1, memory.offered)

    def recall(self, net: Net, new: Batch, memory: Memory, rng: np.random.Generator) -> Mapping[str, Batch]:
        recalled = super().recall(net, new, memory, rng)
        if self.compete != "prior" or self.counts != "expected" or not recalled:
            return recalled
        old, shares = recalled["old"], memory.shares()
        expected = torch.zeros(net.seen)
        expected[: len(shares)] = torch.from_numpy(len(old) * shares)
        return {"old": replace(old, extra={**old.extra, "expected": expected})}

    def learn(self, new: Batch, at: StepContext) -> tuple[Tensor, Extra]:
        return super().learn(new, replace(at, view=partial(_taught, at)) if self.distil else at)

    def loss(self, net: Net, new: Batch, old: Batch | None = None) -> Tensor:
        logits = self._logits(net, [new] if old is None else [new, old])
        if self.compete == "prior":
            loss = _balanced(logits, [new] if old is None else [new, old])
        else:
            spare = torch.arange(net.seen, logits[0].shape[1], device=new.y.device)
            loss = cross_entropy(logits[0], new.y, among=torch.cat([torch.unique(new.y), spare]))
            if old is not None:
                loss = loss + cross_entropy(logits[1][:, : net.seen], old.y)
        if old is not None and "answers" in old.extra:
            kept = distillation(logits[1][:, : net.seen], old.extra["answers"], temperature=1)
            loss = loss + self.distil * kept
        return loss

    def predictor(self, net: Net, memory: Memory) -> Scores:
        return nearest_mean(net, memory) if self.answer == "means" else net

    def _logits(self, net: Net, batches: list[Batch]) -> list[Tensor]:
        """Of each batch, over the seen classes and the spare rows."""
        unseen = self.spare > 0
        if self.forward == "joint":
            logits = list(net(torch.cat([batch.x for batch in batches]), unseen).split([len(b) for b in batches]))
        else:
            keep = self.forward == "replay-statistics" and len(batches) > 1
            with running_statistics_kept(net) if keep else nullcontext():
                logits = [net(batches[0].x, unseen)]
            logits += [net(batch.x, unseen) for batch in batches[1:]]
        return [each[:, : net.seen + self.spare] for each in logits]  # a head sized in advance has more


def _taught(at: StepContext, name: str, batch: Batch) -> Batch:
    """A batch as the net is to see it; a replayed one with the answers of the average."""
    viewed = at.view(name, batch)
    if at.average is None or name != "old":
        return viewed
    with torch.no_grad():
        return replace(viewed, extra={**viewed.extra, "answers": at.average(viewed.x)})


def _balanced(logits: list[Tensor], batches: list[Batch]) -> Tensor:
    counts = torch.stack([_counts(batch, logits[0]) for batch in batches]).sum(0)
    losses = [balanced_cross_entropy(each, batch.y, counts) for each, batch in zip(logits, batches, strict=True)]
    return torch.stack(losses).sum()


def _counts(batch: Batch, logits: Tensor) -> Tensor:
    """Of each class the number of samples in a batch, or what was expected of it."""
    expected = batch.extra.get("expected")
    return (torch.bincount(batch.y, minlength=logits.shape[1]) if expected is None else expected).to(logits)
