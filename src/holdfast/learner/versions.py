"""The nets at one step, apart from those that change: questions are answered there, failed steps go back there."""

import copy
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from holdfast.learner.labels import Labels
from holdfast.memory import Memory
from holdfast.methods.base import Scores
from holdfast.nets import Net, changing

Nets = tuple[Net, ...]  # the one that learns first, the one that answers last


class Version:
    """Its tensors stay as they are while somebody reads it. What does not learn is shared, not copied."""

    labels: list[Hashable]
    forgotten: frozenset[int]
    memory: Memory  # the one in use, until `keep_memory`
    _scores_of: Scores | None

    def __init__(self, live: Nets, labels: Labels, memory: Memory, optimizer: torch.optim.Optimizer) -> None:
        self._nets = tuple(net.twin() for net in live)
        self.net = self._nets[-1]
        self._live_nets = live
        self._live_labels = labels
        self._live_memory = memory
        self._optimizer = optimizer
        self._encoders = _changing(*(net.encoder for net in live)), _changing(*(net.encoder for net in self._nets))
        self._optimizer_state: dict[torch.Tensor, dict[str, Any]] = {}
        self._making = threading.Lock()
        self.readers = 0

    @torch.no_grad()
    def take(self) -> None:
        """Becomes what the nets are now."""
        live, copies = self._tensors()
        for mine, its in zip(copies, live, strict=True):
            if mine.shape != its.shape:
                mine.data = torch.empty_like(its)
        if live:
            torch._foreach_copy_(copies, live)
        for net, its in zip(self._nets, self._live_nets, strict=True):
            net.head.seen = its.head.seen
        self.labels, self.forgotten = self._live_labels.known, self._live_labels.forgotten
        self.memory, self._scores_of = self._live_memory, None
        self._optimizer_state = {
            parameter: {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in state.items()}
            for parameter, state in self._optimizer.state.items()
        }

    def keep_memory(self) -> None:
        """Its memory stays as it is too, until the predictor is made."""
        if self._scores_of is None and self.memory is self._live_memory:
            self.memory = self._live_memory.copy()

    def predictor(self, make: Callable[["Version"], Scores]) -> Scores:
        """Made by whoever asks first."""
        with self._making:
            if self._scores_of is None:
                self._scores_of = make(self)
                self.memory = self._live_memory
            return self._scores_of

    @torch.no_grad()
    def give_back(self) -> None:
        """Makes the nets, of the same shapes, what they were, bit for bit."""
        live, copies = self._tensors()
        if live:
            torch._foreach_copy_(live, copies)
        self._optimizer.state.clear()
        self._optimizer.state.update(self._optimizer_state)
        self._optimizer.zero_grad(set_to_none=True)

    def _tensors(self) -> tuple[list[Any], list[Any]]:
        """Those that learning changes, and their copies. A head has others whenever it has grown."""
        live, copies = self._encoders
        heads, copied_heads = ([net.head for net in nets] for nets in (self._live_nets, self._nets))
        return live + _changing(*heads), copies + _changing(*copied_heads)


class Versions:
    """One copy of the nets a step, made by whoever needs it first: a question, or the next step before it begins.

    Tensors are used again once nobody reads them, because fresh memory costs more than the copy.
    """

    def __init__(self, live: Nets, labels: Labels, memory: Memory, optimizer: torch.optim.Optimizer) -> None:
        self._parts = live, labels, memory, optimizer
        self._all: list[Version] = []
        self._latest: Version | None = None
        self._stale = True
        self._storing = False
        self._door = threading.Condition()

    def __deepcopy__(self, memo: dict[int, Any]) -> "Versions":
        return Versions(*copy.deepcopy(self._parts, memo))

    @contextmanager
    def reading(self, *, memory: bool = False) -> Iterator[Version]:
        """That of the last whole step; with `memory`, for answers that are made from the memory of that step."""
        with self._door:
            if memory:
                self._door.wait_for(lambda: not self._storing)
            version = self._current()
            if memory:
                version.keep_memory()
            version.readers += 1
        try:
            yield version
        finally:
            with self._door:
                version.readers -= 1

    @contextmanager
    def changing(self) -> Iterator[Version]:
        """Inside, the learning net changes, and the edition is what it was before."""
        with self._door:
            version = self._current()
        try:
            yield version
        finally:
            with self._door:
                self._storing, self._stale = False, True
                self._door.notify_all()

    def storing(self) -> None:
        """From now to the end of the change the memory changes: who needs it as it was waits."""
        with self._door:
            self._storing = True

    def _current(self) -> Version:
        if self._latest is None or self._stale:
            free = [version for version in self._all if version is not self._latest and not version.readers]
            with torch.inference_mode(False):
                version = free[0] if free else Version(*self._parts)
                version.take()
            kept = {version, self._latest, *free[:1]}
            self._all = [each for each in {*self._all, version} if each in kept or each.readers]
            self._latest, self._stale = version, False
        return self._latest


class Lock:
    """A lock that can be copied: the copy is another lock, and open."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *how: object) -> None:
        self._lock.release()

    def __deepcopy__(self, memo: dict[int, Any]) -> "Lock":
        return Lock()


def _changing(*parts: nn.Module) -> list[Any]:
    return [tensor for part in parts for tensor in changing(part)]
