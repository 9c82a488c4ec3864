"""The learner: observe labelled batches as they come, predict at any time."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from holdfast.arguments import ANY, real, whole
from holdfast.augment import Augment
from holdfast.batch import Batch, Task
from holdfast.errors import BatchError, InputError, NonFiniteError, NothingLearned
from holdfast.learner import answers
from holdfast.learner.labels import FORGOTTEN, Labels, encode
from holdfast.learner.operations import Asked, Observed, Operation, Remembered, Told
from holdfast.learner.parts import MakeOptimizer, check_parts, optimizer_of
from holdfast.learner.pending import Pending, Ticket
from holdfast.learner.state import pack, restored
from holdfast.learner.versions import Lock, Versions
from holdfast.memory import Memory
from holdfast.memory.class_index import Journal, Slots
from holdfast.memory.codecs import Codec
from holdfast.methods.base import Method, StepContext
from holdfast.nets import HEADS, Net, own_modes, recipe
from holdfast.samples import Samples, as_tensor, check_fits, is_dense
from holdfast.seeds import generator, torch_seeded
from holdfast.storage import checkpoint, files


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
        memory: int | str | Memory = 1000,
        lr: float | None = None,
        optimizer: MakeOptimizer | None = None,
        augment: Augment | None = None,
        seed: int = 0,
        classes: int = 0,
        pending: int = 1000,
    ) -> None:
        """`memory`: a number of samples, a number of bytes as text, "50MB", or a Memory; `Reservoir` says more.
        `lr` is that of plain SGD, 0.1 if nothing is said; `optimizer` makes another from the parameters.

        `classes` sizes the head in advance, for methods that look at classes still to come. `pending`: how many
        questions may wait for their labels at a time.
        """
        check_parts(encoder, method, augment)
        self._classes = whole("classes", classes)
        if method.needs_unseen_classes and not classes:
            raise InputError(f"{method} looks at classes still to come: say how many there will be, classes=...")
        self.method = method
        self.memory = memory if isinstance(memory, Memory) else method.memory_class(memory)
        if not isinstance(self.memory, method.memory_class):
            raise InputError(f"{type(method).__name__} needs a {method.memory_class.__name__} memory")
        if self.memory.offered:
            raise InputError("the memory has been another learner's; export_memory and import_memory move samples")
        self.labels = Labels()
        self.step = 0
        self.task: Task | None = None  # followed only for methods that need task ids
        self.seed = whole("seed", seed)
        device = next(encoder.parameters(), torch.empty(0)).device
        self.net = Net(encoder, HEADS[method.head](self.seed).to(device)).eval()
        self.optimizer = optimizer_of([p for p in self.net.parameters() if p.requires_grad], lr, optimizer)
        encoder_state = (*self.net.encoder.parameters(), *self.net.encoder.buffers())
        self._encoder_state = [tensor for tensor in encoder_state if _has_numbers(tensor)]
        self._augment = augment
        self.versions = Versions(self.net, self.labels, self.memory, self.optimizer)
        self.pending = Pending(pending)
        self._change_lock = Lock()  # one change at a time
        self._pending_lock = Lock()  # one change of the open questions at a time
        self.sample_template: Tensor | None = (
            None  # an empty batch of the samples' shape and type, from the first batch on
        )
        self._answering: Net | None = None  # made when asked for, until the next step
        self._whole: Journal | None = None  # of changes that are made together

    @property
    def classes(self) -> list[Hashable]:
        """The labels seen so far, in the order of their first appearance."""
        return [label for label in self.labels if label is not FORGOTTEN]

    def observe(self, x: Samples, y: object, *, task: int | None = None) -> None:
        """One step on an incoming batch. It happens completely or, with an exception, not at all.

        `x`: samples, uint8 (scaled to [-1, 1]) or float (taken as they are); `y`: a hashable label each.
        """
        with self._change_lock:
            samples = as_tensor(x, self.sample_template)
            self._learn(Observed(samples, self._check_labels(y, samples), self._check_task(task)))

    def ask(self, x: Samples) -> Ticket:
        """Answers now, and keeps the samples until their labels are told."""
        samples = as_tensor(x, self.sample_template)
        if len(samples) == 0:
            raise BatchError("x is empty; a question needs at least one sample")
        try:
            now = self.predict(samples)
        except NothingLearned:
            now = [None] * len(samples)
        return Ticket(self._take(Asked(samples)), now)

    def tell(self, ticket: Ticket | int, y: object, *, task: int | None = None) -> None:
        """The labels of a question have come: one step on its samples, which closes it."""
        with self._change_lock:
            number, samples = self.pending.number(ticket), self.pending[ticket]
            check_fits(samples, self.sample_template)  # the question may have come before the first batch
            self._learn(Told(number, samples, self._check_labels(y, samples), self._check_task(task)))

    def forget(self, label: Hashable) -> int:
        """Erases a class: its samples, its row of the head, its name. Returns how many samples were held.

        It is never answered again; should it come back, it is a new class. What the rest of the net has learned
        from it cannot be taken out.
        """
        with self._change() as journal, self._pending_lock:
            index = self.labels.index(*self.labels.check([label]))
            journal.on_undo(partial(self.labels.remember, index, self.labels[index]))
            self.labels.forget(index)
            self.net.head.renew(index, self.optimizer)
            self.task = self.task and self.task.without(index)
            return self._erase(self.memory.members(index), journal)

    def forget_samples(self, x: Samples) -> int:
        """Erases samples that equal one of these from the memory and the open questions. Returns how many were held.

        What the net has learned from them cannot be taken out.
        """
        with self._change() as journal, self._pending_lock:
            samples = as_tensor(x, None)
            if not self.pending.remove_samples(samples, journal):
                check_fits(samples, self.sample_template)
            return self._erase(self.memory.find(samples), journal)

    def remember(self, x: Samples, y: object) -> None:
        """Offers samples to the memory without learning from them now."""
        if self.method.stored_extras:
            raise InputError(
                f"{type(self.method).__name__} keeps {self.method.stored_extras} beside samples it has learned from"
            )
        with self._change_lock:
            samples = as_tensor(x, self.sample_template)
            self._store(Remembered(samples, self._check_labels(y, samples)))

    def predict(self, x: Samples, *, reject: float | None = None) -> list[Hashable]:
        """The most probable label of each sample. Changes nothing, and does not wait for a step that is under way.

        With `reject`, the answer is None where no class is that similar; `rejection_threshold` finds a value.
        """
        scores, labels = answers.scores(self, x)
        best = scores.max(1)
        found = [labels[index] for index in best.indices.tolist()]
        if reject is None:
            return found
        similar = (best.values * answers.temperature(self) >= real("reject", reject)).tolist()
        return [label if near else None for label, near in zip(found, similar, strict=True)]

    def predict_proba(self, x: Samples) -> NDArray[np.float32]:
        """The probability of each class in `classes`, one row a sample. Changes nothing."""
        scores, labels = answers.scores(self, x)
        known = [index for index, label in enumerate(labels[: scores.shape[1]]) if label is not FORGOTTEN]
        return scores[:, known].softmax(1).float().numpy()

    def similarity(self, x: Samples) -> NDArray[np.float32]:
        """Of each sample to the class that it is most similar to: a cosine, so from -1 to 1."""
        return (answers.scores(self, x)[0].amax(1) * answers.temperature(self)).float().numpy()

    def rejection_threshold(self, accept: float = 0.95) -> float:
        """The similarity that this share of the samples in memory reaches."""
        return answers.rejection_threshold(self, accept)

    def answering_net(self) -> Net:
        """The net that answers questions in the present state."""
        if self._answering is None:
            with torch.inference_mode(False), torch_seeded(self.seed, "query", self.step, self.device):
                self._answering = self.method.answering_net(self._context("query"))
        return self._answering

    def save(self, path: str | Path) -> None:
        """Writes everything that determines the learner's future into one file: whole or not at all."""
        files.write(Path(path), self.serialized())

    def serialized(self, **more: Any) -> bytes:
        """What `save` writes, with `more` in its manifest."""
        encoder, augment = self.net.encoder.module, self._augment
        settings = {
            "net": recipe(encoder),
            "frozen": [name for name, parameter in encoder.named_parameters() if not parameter.requires_grad],
            "classes": self._classes,
            "augment": None if augment is None else getattr(augment, "__name__", type(augment).__name__),
        }
        with self.at_rest():  # until it is written: these are the tensors that learn
            tensors, values = pack(self)
            labels = [encode(label) for label in self.labels]
            return checkpoint.pack(tensors, {**values, "labels": labels, "settings": settings, **more})

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        encoder: nn.Module | None = None,
        method: Method | None = None,
        optimizer: MakeOptimizer | None = None,
        augment: Augment | None = None,
        codec: Codec | None = None,
    ) -> Self:
        """The learner that was saved. What is not built in is passed again, and has to fit."""
        parts: dict[str, Any] = {"encoder": encoder, "method": method, "optimizer": optimizer, "augment": augment}
        parts["codec"] = codec
        check_parts(encoder, method, augment, optional=True)
        with checkpoint.distrust(path):
            return restored(cls, *checkpoint.read(Path(path)), **parts)

    def repeat(self, operation: Operation) -> None:
        """Does again what was done once."""
        with self._change_lock:
            if isinstance(operation, Asked):
                self.pending.add(operation.x, Journal())
            elif isinstance(operation, Remembered):
                self._store(operation)
            else:
                self._learn(operation)

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """Inside, no other thread changes it."""
        with self._change_lock, self._pending_lock:
            yield

    def state_hash(self) -> str:
        """sha256 over everything that determines the learner's future."""
        with self.at_rest():
            tensors, values = pack(self)
            return checkpoint.digest(tensors, checkpoint.as_text(values) + repr(list(self.labels)))

    @property
    def settings(self) -> dict[str, Any]:
        """What it was made with, beside its encoder and method."""
        lr = self.optimizer.param_groups[0]["lr"]
        asked = {"lr": lr, "seed": self.seed, "classes": self._classes, "pending": self.pending.room}
        return {"memory": self.memory.settings, **asked}

    @property
    def device(self) -> torch.device:
        return self.net.head.weight.device

    def _rng(self, purpose: str) -> np.random.Generator:
        return generator(self.seed, purpose, self.step)

    def _context(self, purpose: str) -> StepContext:
        lr = self.optimizer.param_groups[0]["lr"]
        return StepContext(self.net, self.memory, self._rng(purpose), lr, self._view)

    def _view(self, name: str, batch: Batch) -> Batch:
        """A batch as the net is to see it: on its device, and augmented."""
        device = self.device
        x = batch.x.to(device)
        if self._augment is not None and len(x):
            x = self._augment(x, self._rng(f"augment/{name}"))
        extra = {key: value.to(device) for key, value in batch.extra.items()}
        return replace(batch, x=x, y=batch.y.to(device), extra=extra)

    def _check_labels(self, y: object, samples: Tensor) -> list[Hashable]:
        labels = self.labels.check(y)
        if len(samples) != len(labels):
            raise BatchError(f"x has {len(samples)} samples but y has {len(labels)} labels")
        if len(samples) == 0:
            raise BatchError("x is empty; a batch needs at least one sample")
        return labels

    def _check_task(self, task: int | None) -> int | None:
        if self.method.needs_task_ids and task is None:
            raise InputError(f"{type(self.method).__name__} needs task ids: call observe(x, y, task=...)")
        return None if task is None else whole("task", task, ANY)

    @contextmanager
    def _change(self) -> Iterator[Journal]:
        """What is done inside happens completely or, with an exception, not at all."""
        journal = Journal()
        with self._change_lock, own_modes(self.device), self.versions.changing() as before:
            restore = self._restorer()
            self._answering = None
            try:
                yield journal
                if self._whole is not None:
                    self._whole.on_undo(journal.undo)
            except BaseException:
                journal.undo()
                before.give_back()
                restore()
                raise

    @contextmanager
    def _together(self) -> Iterator[None]:
        """All changes made inside happen or, with an exception, none. It costs what they write, not what is held."""
        with self._change_lock, self.versions.reading() as before:
            restore, whole = self._restorer(), Journal()
            self._whole = whole
            try:
                yield
            except BaseException:
                with self.versions.changing():
                    self._answering = None
                    whole.undo()
                    before.give_back()
                    restore()
                raise
            finally:
                self._whole = None

    def _learn(self, operation: Observed | Told) -> None:
        """One step."""
        with self._change() as journal:
            if operation.task is not None and self.method.needs_task_ids:
                self._follow(operation.task)
            new = self._admit(operation.x, operation.y, journal)
            extra = self._update(new)
            if (kept := self.method.remember(self.net, replace(new, extra=extra))) is not None:
                self.versions.storing()
                self.memory.add(kept, self._rng("memory"), journal)
            self.step += 1
            with self._pending_lock:
                self._commit(operation)
                if isinstance(operation, Told):
                    self.pending.remove(operation.ticket, journal)

    def _store(self, operation: Remembered) -> None:
        with self._change() as journal:
            batch = self._admit(operation.x, operation.y, journal)
            self.versions.storing()
            self.memory.add(batch, generator(self.seed, "remember", self.memory.offered), journal)
            with self._pending_lock:
                self._commit(operation)

    def _admit(self, samples: Tensor, labels: Sequence[Hashable], journal: Journal) -> Batch:
        """A batch with class indices, for which the head has rows."""
        self.sample_template = samples[:0]
        indices = torch.tensor(self.labels.admit(labels), device=self.device)
        if self.net.seen != len(self.labels):
            journal.on_undo(self.net.head.restorer(self.optimizer))
            self._grow(samples)
        return Batch(samples.to(self.device), indices, task=self.task)

    def _take(self, question: Asked) -> int:
        journal = Journal()
        with self._pending_lock:
            try:
                self._commit(question)
                return self.pending.add(question.x, journal)
            except BaseException:
                journal.undo()
                raise

    def _erase(self, slots: Slots, journal: Journal) -> int:
        self.versions.storing()
        self.memory.remove(slots, journal)
        self._commit(None)
        return len(slots)

    def _commit(self, operation: Operation | None) -> None:
        """Called when a change is made and can still be taken back. None: something was erased."""

    def _update(self, new: Batch) -> Mapping[str, Tensor]:
        """One gradient step. Returns what the method keeps beside the incoming samples."""
        with torch_seeded(self.seed, "net", self.step, self.device), _training(self.net):
            loss, extra = self.method.learn(new, self._context("recall"))
            if not loss.isfinite():
                raise NonFiniteError(f"the loss is {loss.item()} at step {self.step}; a smaller lr may help")
            state = [*self._encoder_state, *self.net.head.parameters()]
            if not _all_finite([tensor.grad for tensor in state if tensor.grad is not None]):
                raise NonFiniteError(f"a gradient is not finite at step {self.step}; a smaller lr may help")
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            if not _all_finite(state):
                raise NonFiniteError(
                    f"step {self.step} leaves the net with a value that is not finite; a smaller lr may help"
                )
        return extra

    def _follow(self, task: int) -> None:
        """Notes the switch if this is another task than the last."""
        if self.task is None or self.task.id != task:
            teacher = self.net.frozen() if self.method.needs_teacher and self.net.seen else None
            starts = () if self.task is None else self.task.starts
            self.task = Task(task, (*starts, self.net.seen), teacher)

    def _grow(self, samples: Tensor) -> None:
        """A row of the head for every label."""
        features = self.net.head.weight.shape[1] or self.net.width(samples[:1].to(self.device))
        self.net.head.grow(len(self.labels), max(len(self.labels), self._classes), features, self.optimizer)

    def _restorer(self) -> Callable[[], None]:
        """What puts back the parts of the present state that are neither in the net nor in the memory."""
        labels, step, task, sample_template = len(self.labels), self.step, self.task, self.sample_template

        def restore() -> None:
            self.labels.forget_after(labels)
            self.step, self.task, self.sample_template = step, task, sample_template

        return restore


def _has_numbers(tensor: Tensor) -> bool:
    """Such as may become infinite."""
    return tensor.is_floating_point() and tensor.itemsize > 1 and is_dense(tensor) and tensor.numel() > 0


def _all_finite(tensors: list[Tensor]) -> bool:
    return not tensors or bool(torch.stack(torch._foreach_norm(tensors, torch.inf)).isfinite().all())


@contextmanager
def _training(net: Net) -> Iterator[None]:
    """Training mode inside, evaluation mode outside: the net rests in the mode that questions need."""
    net.train()
    try:
        yield
    finally:
        net.eval()
