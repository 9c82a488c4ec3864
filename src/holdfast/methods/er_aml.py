from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.batch import Batch
from holdfast.losses import cross_entropy, supcon, triplet
from holdfast.memory import Memory
from holdfast.methods.base import Method
from holdfast.methods.options import Positive, Weight, added_later
from holdfast.nets import Net

Indices = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class ERAML(Method):
    """Incoming samples are pulled and pushed only among classes of their own batch; replay is cosine cross-entropy.

    Each incoming sample (anchor) fetches one positive and one negative from the incoming batch and the memory. What
    others fetched counts for it, too, but not itself, unless `positives="released"`.

    Args:
        head: `linear`, or `cosine`: logits are cosines divided by 0.1.
        replay: how many samples are replayed in each step.
        metric: the loss of incoming samples, `supcon` or `triplet`; `loss` on the command line.
        negatives: classes of the incoming batch, or (`all`) any other class.
        fetch: from `anywhere`, or from memory only where the batch has no pair (`incoming-first`).
        positives: `others`, or as in the code that was released with the paper.
        temperature: of SupCon.
        margin: of the triplet loss.
        weight: of the loss of incoming samples; by default temperature / 0.07 for SupCon and 2 for the triplet loss.
    """

    head: Literal["linear", "cosine"] = "cosine"
    metric: Literal["supcon", "triplet"] = field(default="supcon", metadata={"also": "loss"})
    negatives: Literal["incoming", "all"] = "incoming"
    fetch: Literal["anywhere", "incoming-first"] = "anywhere"
    positives: Literal["others", "released"] = added_later("others", before="released")
    temperature: Positive = 0.2
    margin: Weight = 0.2
    weight: Weight | None = None  # γ; by default temperature / 0.07 for supcon and 2 for triplet

    def recall(self, net: Net, new: Batch, memory: Memory, rng: np.random.Generator) -> Mapping[str, Batch]:
        recalled = dict(super().recall(net, new, memory, rng))
        if (pairs := self._pairs(new, memory, rng)) is not None:
            recalled["pairs"] = pairs
        return recalled

    def loss(self, net: Net, new: Batch, old: Batch | None = None, pairs: Batch | None = None) -> Tensor:
        features = net.features(new.x)
        incoming = features.sum() * 0 if pairs is None else self._incoming(net, features, new.y, pairs)
        return incoming if old is None else incoming + cross_entropy(net(old.x), old.y)

    def _incoming(self, net: Net, features: Tensor, y: Tensor, pairs: Batch) -> Tensor:
        fetched = net.features(pairs.x) if len(pairs.x) else features[:0]
        pool = torch.cat([features, fetched])
        anchor, positive, negative = (pairs.extra[name] for name in ("anchor", "positive", "negative"))
        weight = self.weight
        if self.metric == "triplet":
            loss = triplet(pool[anchor], pool[positive], pool[negative], self.margin)
            return (2.0 if weight is None else weight) * loss
        candidates = torch.cat([positive, negative])
        labels = torch.cat([y, pairs.y])
        itself = pairs.extra["sample"] == anchor[:, None] if self.positives == "others" else None
        loss = supcon(pool[anchor], y[anchor], pool[candidates], labels[candidates], self.temperature, without=itself)
        return (self.temperature / 0.07 if weight is None else weight) * loss

    def _pairs(self, new: Batch, memory: Memory, rng: np.random.Generator) -> Batch | None:
        """Chooses the samples to forward beside the incoming ones.

        Beside them is said where among (incoming, those) each pair stands, and which sample each positive and negative
        is: two that are forwarded may be the same.
        """
        y = new.y.cpu().numpy()
        positive, negative = (self._fetch(y, same, memory, rng) for same in (True, False))
        anchor = np.flatnonzero((positive >= 0) & (negative >= 0))
        if len(anchor) == 0:
            return None
        chosen = np.concatenate([positive[anchor], negative[anchor]])
        forwarded = chosen >= len(y) if self.fetch == "incoming-first" else chosen >= 0
        place = np.where(forwarded, len(y) - 1 + forwarded.cumsum(), chosen)
        where = {"anchor": anchor, "positive": place[: len(anchor)], "negative": place[len(anchor) :], "sample": chosen}
        fetched = _samples(chosen[forwarded], new, memory)
        return Batch(fetched.x, fetched.y, {name: torch.from_numpy(index) for name, index in where.items()})

    def _fetch(self, y: Indices, same: bool, memory: Memory, rng: np.random.Generator) -> Indices:
        """Draws for each anchor one other sample of its class, or not of its class, uniformly.

        It is given by its row in the incoming batch, by len(y) + its slot in memory, or as -1 if there is none.
        """
        present = np.unique(y)
        pools = [(np.flatnonzero(y == label), np.flatnonzero((y == label) == same)) for label in present]
        here = np.empty(len(y), np.int64)
        for anchors, pool in pools:
            here[anchors] = len(pool) - same  # an anchor is not its own positive
        labels = present if same or self.negatives == "incoming" else np.arange(len(memory.class_counts))
        held = np.array([memory.count(label) for label in labels], np.int64)
        stored = np.where((y[:, None] == labels) == same, held, 0)
        if self.fetch == "incoming-first" and (same or self.negatives == "incoming"):
            stored[here > 0] = 0
        there = stored.sum(1)

        ticket = rng.integers(0, np.maximum(here + there, 1))
        fetched = np.full(len(y), -1)
        for anchors, pool in pools:
            rows = anchors[ticket[anchors] < here[anchors]]
            place = ticket[rows]
            if same:
                place += place >= np.searchsorted(pool, rows)
            fetched[rows] = pool[place]
        ticket -= here
        from_memory = (ticket >= 0) & (there > 0)
        column = (stored.cumsum(1) <= ticket[:, None]).sum(1)
        for c in np.unique(column[from_memory]):
            rows = np.flatnonzero(from_memory & (column == c))
            fetched[rows] = len(y) + memory.slots_of(labels[c], ticket[rows] - stored[rows, :c].sum(1))
        return fetched


def _samples(chosen: Indices, new: Batch, memory: Memory) -> Batch:
    """Samples by the numbering of `_fetch`."""
    n = len(new)
    x = new.x.new_empty((len(chosen), *new.x.shape[1:]))
    y = new.y.new_empty(len(chosen))
    here = torch.from_numpy(chosen < n)
    x[here], y[here] = new.x[chosen[chosen < n]], new.y[chosen[chosen < n]]
    if (chosen >= n).any():
        stored = memory.at(chosen[chosen >= n] - n)
        x[~here], y[~here] = stored.x.to(x), stored.y.to(y)
    return Batch(x, y)
