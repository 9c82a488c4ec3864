"""The learner: observe labelled batches as they come, predict at any time."""

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from holdfast import checkpoint, files
from holdfast.augment import Augment, crop_and_flip
from holdfast.batch import Batch, Task
from holdfast.class_index import Journal
from holdfast.errors import BatchError, CheckpointError, InputError, NonFiniteError, NothingLearned
from holdfast.labels import Labels
from holdfast.learner_state import decode, encode, pack, unpack
from holdfast.memory import Memory
from holdfast.methods.base import Method, Moment, Scores
from holdfast.nets import HEADS, Net, built_in, recipe
from holdfast.rollback import Rollback
from holdfast.seeds import generator, torch_seeded

Samples = NDArray[np.generic] | Tensor
MakeOptimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


class Learner:
    """Learns from a stream of small labelled batches.

    >>> import holdfast
    >>> learner = holdfast.Learner(holdfast.mlp((2,)), holdfast.ERACE(), memory=100)
    >>> learner.observe(np.array([[0.0, 1.0], [1.0, 0.0]]), ["up", "right"])
    >>> learner.classes
    ['up', 'right']
    """

    def __init__(
        self,
        encoder: nn.Module,
        method: Method,
        *,
        memory: int | Memory = 1000,
        lr: float = 0.1,
        optimizer: MakeOptimizer | None = None,
        augment: Augment | None = None,
        seed: int = 0,
        classes: int = 0,
    ) -> None:
        """`classes` sizes the head in advance, for methods that look at classes still to come."""
        if not lr > 0:
            raise InputError(f"lr must be above 0, not {lr}")
        if method.looks_ahead and not classes:
            raise InputError(f"{method} looks at classes still to come: say how many there will be, classes=...")
        self.method = method
        self.memory = method.memory_kind(memory) if isinstance(memory, int) else memory
        if not isinstance(self.memory, method.memory_kind):
            raise InputError(f"{type(method).__name__} needs a {method.memory_kind.__name__} memory")
        self.labels = Labels()
        self.step = 0
        self.task: Task | None = None  # followed only for methods that need task ids
        self.seed = seed
        device = next(encoder.parameters(), torch.empty(0)).device
        self.net = Net(encoder, HEADS[method.head](seed).to(device)).eval()
        self._trained = [p for p in self.net.parameters() if p.requires_grad]
        self.optimizer = optimizer(self._trained) if optimizer else torch.optim.SGD(self._trained, lr=lr)
        self._augment = augment
        self._classes = classes
        self._rollback = Rollback([*self._trained, *self.net.buffers()], self.optimizer)
        self.like: Tensor | None = None  # an empty batch of the samples' shape and type, from the first batch on
        self._answering: Net | None = None  # made when asked for, until the next step
        self._scores_of: Scores | None = None

    @property
    def classes(self) -> list[Hashable]:
        """The labels seen so far, in the order of their first appearance."""
        return list(self.labels)

    def observe(self, x: Samples, y: object, *, task: int | None = None) -> None:
        """One step on an incoming batch. It happens completely or, with an exception, not at all.

        `x`: samples, uint8 (scaled to [-1, 1]) or float (taken as they are); `y`: a hashable label each.
        """
        labels = self.labels.check(y)
        samples = self._check(x)
        if len(samples) != len(labels):
            raise BatchError(f"x has {len(samples)} samples but y has {len(labels)} labels")
        if len(samples) == 0:
            raise BatchError("x is empty; a batch needs at least one sample")
        if self.method.needs_task_ids and task is None:
            raise InputError(f"{type(self.method).__name__} needs task ids: call observe(x, y, task=...)")

        with ExitStack() as undo:
            undo.callback(self._restore, len(self.labels), self.step, self.task, self.like)
            self._answering = self._scores_of = None
            self.like = samples[:0]
            if task is not None and self.method.needs_task_ids:
                self._follow(task)
            indices = torch.tensor(self.labels.admit(labels), device=self.device)
            if self.net.seen != len(self.labels):
                undo.callback(self.net.head.restorer(self.optimizer))
                self._grow(samples)
            self._rollback.capture()
            undo.callback(self._rollback.restore)

            new = Batch(samples.to(self.device), indices, task=self.task)
            extra = self._update(new)
            if (kept := self.method.remember(self.net, replace(new, extra=extra))) is not None:
                if self.memory.offered == 0:
                    undo.callback(self.memory.clear)
                journal = Journal()
                undo.callback(journal.undo)
                self.memory.add(kept, self._rng("memory"), journal)
            self.step += 1
            undo.pop_all()

    def predict(self, x: Samples) -> list[Hashable]:
        """The most probable label of each sample. Changes nothing."""
        return [self.labels[index] for index in self._scores(x).argmax(1).tolist()]

    def predict_proba(self, x: Samples) -> NDArray[np.float32]:
        """The probability of each class in `classes`, one row a sample. Changes nothing."""
        return self._scores(x).softmax(1).float().numpy()

    def answering_net(self) -> Net:
        """The net that answers questions in the present state."""
        if self._answering is None:
            with torch.inference_mode(False), torch_seeded(self.seed, "query", self.step, self.device):
                self._answering = self.method.answering_net(self._moment("query"))
        return self._answering

    def save(self, path: str | Path) -> None:
        """Writes everything that determines the learner's future into one file: whole or not at all."""
        files.write(Path(path), self.serialized())

    def serialized(self) -> bytes:
        """What `save` writes."""
        tensors, values = pack(self)
        labels = [encode(label) for label in self.classes]
        augment = None if self._augment is None else self._augment.__name__
        settings = {"net": recipe(self.net.encoder.module), "classes": self._classes, "augment": augment}
        return checkpoint.pack(tensors, {**values, "labels": labels, "settings": settings})

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        encoder: nn.Module | None = None,
        method: Method | None = None,
        optimizer: MakeOptimizer | None = None,
        augment: Augment | None = None,
    ) -> "Learner":
        """The learner that was saved. What is not built in is passed again, and has to fit."""
        tensors, values = checkpoint.read(Path(path))
        settings = values["settings"]
        method = method or _built_in_method(values["method"])
        memory = {key: values["memory"][key] for key in ("capacity", "nbytes")}
        learner = cls(
            encoder or built_in(settings["net"]),
            method,
            memory=method.memory_kind(**memory),
            lr=values["optimizer"]["groups"][0]["lr"],
            optimizer=optimizer,
            augment=augment or _built_in_augment(settings["augment"]),
            seed=values["seed"],
            classes=settings["classes"],
        )
        unpack(learner, tensors, values, [decode(label) for label in values["labels"]])
        return learner

    def state_hash(self) -> str:
        """sha256 over everything that determines the learner's future."""
        tensors, values = pack(self)
        return checkpoint.digest(tensors, json.dumps(values, sort_keys=True) + repr(self.classes))

    @property
    def device(self) -> torch.device:
        return self.net.head.weight.device

    def _rng(self, purpose: str) -> np.random.Generator:
        return generator(self.seed, purpose, self.step)

    def _moment(self, purpose: str) -> Moment:
        lr = self.optimizer.param_groups[0]["lr"]
        return Moment(self.net, self.memory, self._rng(purpose), lr, self._view)

    def _view(self, name: str, batch: Batch) -> Batch:
        """A batch as the net is to see it: on its device, and augmented."""
        device = self.device
        x = batch.x.to(device)
        if self._augment is not None and len(x):
            x = self._augment(x, self._rng(f"augment/{name}"))
        extra = {key: value.to(device) for key, value in batch.extra.items()}
        return replace(batch, x=x, y=batch.y.to(device), extra=extra)

    def _update(self, new: Batch) -> Mapping[str, Tensor]:
        """One gradient step. Returns what the method keeps beside the incoming samples."""
        with torch_seeded(self.seed, "net", self.step, self.device), _training(self.net):
            loss, extra = self.method.learn(new, self._moment("recall"))
            if not loss.isfinite():
                raise NonFiniteError(f"the loss is {loss.item()} at step {self.step}; a smaller lr may help")
            sums = [p.grad.sum() for p in self._trained if p.grad is not None]
            if sums and not torch.stack(sums).isfinite().all():
                raise NonFiniteError(f"a gradient is not finite at step {self.step}; a smaller lr may help")
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
        return extra

    def _follow(self, task: int) -> None:
        """Notes the switch if this is another task than the last."""
        if self.task is None or self.task.id != task:
            teacher = self.net.frozen() if self.method.needs_teacher and self.net.seen else None
            starts = () if self.task is None else self.task.starts
            self.task = Task(task, (*starts, self.net.seen), teacher)

    def _grow(self, samples: Tensor) -> None:
        """A row of the head for every label."""
        features = self.net.head.weight.shape[1]
        if not features:
            with torch.no_grad():
                features = self.net.features(samples[:1].to(self.device)).shape[1]
        self.net.head.grow(len(self.labels), max(len(self.labels), self._classes), features, self.optimizer)

    def _restore(self, labels: int, step: int, task: Task | None, like: Tensor | None) -> None:
        self.labels.forget_after(labels)
        self.step = step
        self.task = task
        self.like = like

    def _check(self, x: Samples) -> Tensor:
        """`x` as a tensor of our own (the caller may reuse theirs), or a BatchError that says what is wrong."""
        if isinstance(x, np.ndarray):
            if x.dtype.kind not in "fu" or (x.dtype.kind == "u" and x.dtype != np.uint8):
                raise BatchError(f"x has type {x.dtype}; it must be uint8 or float")
            with np.errstate(over="ignore"):  # what does not fit becomes infinite and is refused below
                samples = torch.from_numpy(x.astype(np.float32 if x.dtype.kind == "f" else np.uint8))
        elif isinstance(x, Tensor):
            if not x.is_floating_point() and x.dtype != torch.uint8:
                raise BatchError(f"x has type {x.dtype}; it must be uint8 or float")
            samples = x.detach().clone()
        else:
            raise BatchError(f"x must be a numpy array or a tensor, not {type(x).__name__}")
        if samples.ndim < 2:
            raise BatchError(f"x has shape {tuple(samples.shape)}; it must be (samples, ...)")
        if samples.is_floating_point():
            samples = samples.float()
            if not samples.isfinite().all():
                raise BatchError("x has a value that is NaN or infinite")
        like = self.like
        if like is not None and (like.shape[1:] != samples.shape[1:] or like.dtype != samples.dtype):
            raise BatchError(
                f"x has samples of shape {tuple(samples.shape[1:])} and type {samples.dtype}; "
                f"this learner takes {tuple(like.shape[1:])} and {like.dtype}"
            )
        return samples

    @torch.inference_mode()
    def _scores(self, x: Samples) -> Tensor:
        net = self.net
        if net.seen == 0:
            raise NothingLearned("the learner has not observed anything yet; call observe(x, y) first")
        samples = self._check(x)
        if self._scores_of is None:
            self._scores_of = self.method.predictor(self.answering_net(), self.memory)
        parts = [self._scores_of(part.to(self.device)) for part in torch.split(samples, 256)]
        return torch.cat(parts).cpu() if len(samples) else torch.empty(0, net.seen)


def _built_in_method(saved: Mapping[str, Any]) -> Method:
    from holdfast.methods import METHODS

    for method in METHODS.values():
        if method.__name__ == saved["name"]:
            return method(**saved["options"])
    raise CheckpointError(f"the method {saved['name']} is not built in: pass it, load(path, method=...)")


def _built_in_augment(name: str | None) -> Augment | None:
    if name is None or name == crop_and_flip.__name__:
        return None if name is None else crop_and_flip
    raise CheckpointError(f"the augmentation {name} is not built in: pass it, load(path, augment=...)")


@contextmanager
def _training(net: Net) -> Iterator[None]:
    """Training mode inside, evaluation mode outside: the net rests in the mode that questions need."""
    net.train()
    try:
        yield
    finally:
        net.eval()
