"""The nets at one step, apart from those that change: questions are answered there, failed steps go back there."""

import copy
import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import torch
from torch import nn

from holdfast.learner.labels import Labels
from holdfast.learner.transaction import Change
from holdfast.memory import Memory
from holdfast.methods.base import Scores
from holdfast.modes import inference
from holdfast.nets import Net, changing

Nets = tuple[Net, ...]  # the one that learns first, the one that answers last

Result = TypeVar("Result")


class MemoryChanges(Exception):
    """The memory of the last whole step is not there any more, that of the next not yet."""


class Version:
    """Its tensors stay as they are while somebody reads it. What does not learn is shared, not copied."""

    step: int
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
        self._optimizer_state: dict[torch.Tensor, dict[str, Any]] = {}
        self._optimizer_settings: list[dict[str, Any]] = []
        self._making = threading.RLock()
        self.readers: set[object] = set()

    @torch.no_grad()
    def take(self, step: int) -> None:
        """Becomes what the nets are now."""
        self.step = step
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
        self._optimizer_state = _cloned(self._optimizer.state)
        self._optimizer_settings = [_settings(group) for group in self._optimizer.param_groups]

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
        self._optimizer.state.update(_cloned(self._optimizer_state))
        for group, settings in zip(self._optimizer.param_groups, self._optimizer_settings, strict=True):
            group.update(settings)  # some optimizers change their own
        self._optimizer.zero_grad(set_to_none=True)

    def _tensors(self) -> tuple[list[Any], list[Any]]:
        """Those that learning changes, and their copies. Others may have taken their places since the last step."""
        return _changing(*self._live_nets), _changing(*self._nets)


class Versions:
    """One copy of the nets a step, made by whoever needs it first: a question, or the next step before it begins.

    Tensors are used again once nobody reads them, because fresh memory costs more than the copy.
    """

    def __init__(self, live: Nets, labels: Labels, memory: Memory, optimizer: torch.optim.Optimizer) -> None:
        self._parts = live, labels, memory, optimizer
        self.step = 0  # of the nets that change
        self._all: list[Version] = []
        self._latest: Version | None = None
        self._change: Change | None = None  # the latest is of the moment before it
        self._lock = threading.RLock()

    def __deepcopy__(self, memo: dict[int, Any]) -> "Versions":
        copied = Versions(*copy.deepcopy(self._parts, memo))
        copied.step = self.step
        return copied

    def read(self, work: Callable[[Version], Result], *, memory: bool = False) -> Result:
        """That of the last whole step; with `memory`, for answers that are made from the memory of that step."""
        reader, version = object(), None
        try:
            with self._lock:
                if memory and self._change is not None and self._change.is_open and self._change.stores:
                    raise MemoryChanges
                version = self._current()
                if memory:
                    version.keep_memory()
                version.readers.add(reader)
            return work(version)
        finally:
            if version is not None:
                version.readers.discard(reader)

    def begin(self, change: Change) -> None:
        """From now on the learning net changes. Taken back, it is what it was."""
        with self._lock:
            change.journal.on_undo(self._current().give_back)
            self._change = change

    def storing(self) -> None:
        """From now to the end of the change the memory changes: who needs it as it was waits."""
        with self._lock:
            assert self._change is not None
            self._change.stores = True

    def _current(self) -> Version:
        """The latest, unless a change was done since."""
        if self._latest is None or (self._change is not None and self._change.done):
            free = [version for version in self._all if version is not self._latest and not version.readers]
            with inference(False):
                version = free[0] if free else Version(*self._parts)
                version.take(self.step)
            kept = {version, self._latest, *free[:1]}
            self._all = [each for each in {*self._all, version} if each in kept or each.readers]
            self._latest, self._change = version, None
        return self._latest


def _cloned(state: dict[torch.Tensor, dict[str, Any]]) -> dict[torch.Tensor, dict[str, Any]]:
    """Of an optimizer."""
    return {
        parameter: {key: value.clone() if isinstance(value, torch.Tensor) else value for key, value in of_it.items()}
        for parameter, of_it in state.items()
    }


def _settings(group: dict[str, Any]) -> dict[str, Any]:
    """Of a group of an optimizer, apart from its parameters."""
    return {name: copy.copy(value) for name, value in group.items() if name != "params"}


def _changing(*parts: nn.Module) -> list[Any]:
    return [tensor for part in parts for tensor in changing(part)]
