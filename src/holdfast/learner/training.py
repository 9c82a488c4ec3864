"""One step of learning: what the net, its optimizer and its average go through."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from holdfast.augment import Augment
from holdfast.batch import Batch
from holdfast.errors import NonFiniteError
from holdfast.learner.finite import LARGE, LARGEST, all_below, all_finite, has_numbers, numbers_of
from holdfast.memory import Memory
from holdfast.memory.class_index import Journal
from holdfast.methods.base import Method, StepContext
from holdfast.nets import Net
from holdfast.nets.averages import Average
from holdfast.seeds import generator, torch_seeded

MANY_FAILURES = 3  # in a row


class Training:
    """The parts that learn. Which step it is, and by which method, the learner says."""

    def __init__(
        self,
        net: Net,
        optimizer: torch.optim.Optimizer,
        memory: Memory,
        *,
        augment: Augment | None,
        seed: int,
        updates: int,
        decay: float,
    ) -> None:
        self.net, self.optimizer, self.memory = net, optimizer, memory
        self.augment, self.seed, self.updates = augment, seed, updates
        self.average = Average(net, decay) if decay else None
        self.failures = 0  # how many steps in a row have not led to finite numbers
        self._view_hooks: list[Callable[[Batch], object]] = []

    @property
    def nets(self) -> tuple[Net, ...]:
        """The one that learns first, the one that answers last."""
        return (self.net,) if self.average is None else (self.net, self.average.net)

    @property
    def device(self) -> torch.device:
        return self.net.head.weight.device

    @property
    def lr(self) -> float:
        rate: float = self.optimizer.param_groups[0]["lr"]
        return rate

    def rng(self, purpose: str, step: int, repetition: int = 0) -> np.random.Generator:
        return generator(self.seed, _at(purpose, repetition), step)

    def context(self, method: Method, purpose: str, step: int, repetition: int = 0) -> StepContext:
        """What a method has to work with; `repetition`: of the updates on a batch."""
        share = method.augmented_share(self.memory)

        def view(name: str, batch: Batch) -> Batch:
            return self._view(batch, self.rng(f"augment/{name}", step, repetition), share)

        average = None if self.average is None else self.average.net
        return StepContext(self.net, self.memory, self.rng(purpose, step, repetition), self.lr, view, average)

    def register_view_hook(self, hook: Callable[[Batch], object]) -> None:
        """`hook` is called with every batch, incoming or replayed, as the net is about to see it."""
        self._view_hooks.append(hook)

    def grow(self, seen: int, rows: int, sample: Tensor, step: int, journal: Journal) -> None:
        """So many rows of the head, `seen` of them of classes that have appeared."""
        journal.on_undo(self.net.head.restorer(self.optimizer))
        features = self.net.head.weight.shape[1] or self.net.width(sample.to(self.device))
        self.net.head.grow(seen, max(rows, self.net.rows), features, self.optimizer)
        if self.average is not None:
            journal.on_undo(self.average.restorer())
            self.average.grow(step)

    def renew(self, row: int) -> None:
        """The row of a class as it was before anything was learned."""
        self.net.head.renew(row, self.optimizer)
        if self.average is not None:
            self.average.net.head.renew(row)

    def learn(
        self, method: Method, new: Batch, step: int, journal: Journal, way_back: Callable[[], str]
    ) -> Mapping[str, Tensor]:
        """One step. Returns what the method keeps beside the incoming samples.

        `way_back` says how to go on if the net is beyond repair.
        """
        if (standardise := self.net.encoder.standardise) is not None:
            journal.on_undo(standardise.restorer())
            standardise.add(self.net.encoder.scaled(new.x))
        try:
            for repetition in range(self.updates):
                extra, is_small = self._update(method, new, step, repetition)
            if self.average is not None:
                self.average.update(step)
            if not is_small and not self._can_answer(new.x):
                raise NonFiniteError(f"after step {step} the net could not answer even what it has just learned")
        except NonFiniteError as error:
            raise self._failure(str(error), way_back) from None
        return extra

    def _update(self, method: Method, new: Batch, step: int, repetition: int) -> tuple[Mapping[str, Tensor], bool]:
        """One gradient step. Also returns whether it leaves no large value in the net."""
        with torch_seeded(self.seed, _at("net", repetition), step, self.device), _training(self.net):
            loss, extra = method.learn(new, self.context(method, "recall", step, repetition))
            if not loss.isfinite():
                raise NonFiniteError(f"the loss is {loss.item()} at step {step}")
            state = [tensor for tensor in (*self.net.parameters(), *self.net.buffers()) if has_numbers(tensor)]
            if not all_finite([tensor.grad for tensor in state if tensor.grad is not None]):
                raise NonFiniteError(f"a gradient is not finite at step {step}")
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            is_small = all_below(LARGE, state)
            if not (is_small or all_below(LARGEST, state)) or not all_below(LARGEST, numbers_of(self.optimizer)):
                raise NonFiniteError(
                    f"step {step} leaves the net with a value that is not finite or too large to compute with"
                    f"{self._place()}"
                )
        return extra, is_small

    def _place(self) -> str:
        """Where in the net such a value is."""
        for name, tensor in (*self.net.named_parameters(), *self.net.named_buffers()):
            if has_numbers(tensor) and not all_below(LARGEST, [tensor]):
                is_buffer = not isinstance(tensor, torch.nn.Parameter)
                return f", in {name}" + (" (a mask may have -1e9 in place of -inf)" if is_buffer else "")
        return ""

    @torch.no_grad()
    def _can_answer(self, x: Tensor) -> bool:
        """Whether finite values still make finite scores."""
        x = x.to(self.device)
        return all(bool(net(x).isfinite().all()) for net in self.nets)

    def _view(self, batch: Batch, rng: np.random.Generator, share: float) -> Batch:
        """A batch as the net is to see it: on its device, and a share of it augmented."""
        device = self.device
        x = batch.x.to(device)
        if self.augment is not None and len(x):
            plain, x = x, self.augment(x, rng)
            if share < 1:
                chosen = torch.from_numpy(rng.random(len(x)) < share).to(device)
                x = torch.where(chosen.view(-1, *(1,) * (x.ndim - 1)), x, plain)
        extra = {key: value.to(device) for key, value in batch.extra.items()}
        viewed = replace(batch, x=x, y=batch.y.to(device), extra=extra)
        for hook in self._view_hooks:
            hook(viewed)
        return viewed

    def _failure(self, what: str, way_back: Callable[[], str]) -> NonFiniteError:
        self.failures += 1
        if self.failures < MANY_FAILURES:
            scale = (
                ", or standardise=True where columns differ in scale" if self.net.encoder.standardise is None else ""
            )
            return NonFiniteError(f"{what}; a smaller lr may help{scale}")
        many = f"{self.failures} batches in a row could not be learned, so the net is beyond repair"
        return NonFiniteError(f"{what}; {many}: {way_back()}")


def _at(purpose: str, repetition: int) -> str:
    return f"{purpose}/{repetition}" if repetition else purpose


@contextmanager
def _training(net: Net) -> Iterator[None]:
    """Training mode inside, evaluation mode outside: the net rests in the mode that questions need."""
    net.train()
    try:
        yield
    finally:
        net.eval()
