from contextlib import nullcontext
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from holdfast.batch import Batch
from holdfast.errors import InputError
from holdfast.losses import balanced_cross_entropy, cross_entropy
from holdfast.memory import Memory
from holdfast.methods.base import Method, Scores, Usual
from holdfast.methods.class_means import nearest_mean
from holdfast.methods.options import Count
from holdfast.nets import Net
from holdfast.nets.norms import running_statistics_kept


@dataclass(frozen=True, kw_only=True)
class Holdfast(Method):
    """ER-ACE with all that was shown to help. With `compete="batch", forward="apart"` it is ER-ACE, bit for bit.

    Args:
        head: `linear`, or `cosine`: logits are cosines divided by 0.1.
        replay: how many samples are replayed in each step.
        compete: `batch`, as in ER-ACE, or `prior`: incoming and replayed samples compete with the classes of both
            batches, each logit raised by the log of the class's number of samples there.
        spare: the head has so many rows for classes still to come, and incoming samples compete with these, too.
        forward: `apart`; `joint`: BatchNorm sees both batches as one; `replay-statistics`: its running statistics, by
            which it answers, are those of replayed samples alone.
        answer: by the `net`, or by the nearest class mean of the memory's features (`means`).
        augmented: `all` samples, where there is an augmentation; or each with a probability that is the `share` of
            the stream which the memory does not hold: as long as it holds everything, samples seldom repeat.
    """

    usual: ClassVar[Usual] = Usual(lr=0.05, augment=True, average=0.99, codec="webp:75")

    head: Literal["linear", "cosine"] = "cosine"
    compete: Literal["batch", "prior"] = "prior"
    spare: Count = 0
    forward: Literal["apart", "joint", "replay-statistics"] = "joint"
    answer: Literal["net", "means"] = "net"
    augmented: Literal["all", "share"] = "share"

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

    def augmented_share(self, memory: Memory) -> float:
        return 1.0 if self.augmented == "all" else 1 - len(memory) / max(1, memory.offered)

    def loss(self, net: Net, new: Batch, old: Batch | None = None) -> Tensor:
        logits = self._logits(net, [new] if old is None else [new, old])
        if self.compete == "prior":
            return _balanced(logits, [new.y] if old is None else [new.y, old.y])
        spare = torch.arange(net.seen, logits[0].shape[1], device=new.y.device)
        incoming = cross_entropy(logits[0], new.y, among=torch.cat([torch.unique(new.y), spare]))
        return incoming if old is None else incoming + cross_entropy(logits[1][:, : net.seen], old.y)

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


def _balanced(logits: list[Tensor], y: list[Tensor]) -> Tensor:
    counts = torch.bincount(torch.cat(y), minlength=logits[0].shape[1])
    return torch.stack([balanced_cross_entropy(*each, counts) for each in zip(logits, y, strict=True)]).sum()
