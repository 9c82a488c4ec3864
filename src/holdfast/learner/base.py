"""What a learner consists of, and the operations that change it: each completely or not at all."""

import copy
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from holdfast.arguments import ANY, whole
from holdfast.batch import Batch, Task
from holdfast.errors import BatchError, InputError
from holdfast.learner.adjustments import adjust
from holdfast.learner.calibration import Calibration
from holdfast.learner.keys import Keys, check_key
from holdfast.learner.labels import Labels
from holdfast.learner.operations import Adjusted, Asked, Observed, Operation, Remembered, Told
from holdfast.learner.pending import Pending
from holdfast.learner.progress import Tally, answered
from holdfast.learner.state import serialized
from holdfast.learner.training import Training
from holdfast.learner.transaction import Change, Changes, Result, nothing
from holdfast.learner.versions import Versions
from holdfast.memory import Memory
from holdfast.memory.class_index import Journal, Slots
from holdfast.methods.base import Method
from holdfast.modes import inference, no_autocast
from holdfast.nets import Net, PretrainedEncoder
from holdfast.nets.averages import Average
from holdfast.nets.norms import put_norms_back
from holdfast.nets.pretrained import features_of, wanted_shape
from holdfast.samples import (
    Features,
    Samples,
    as_tensor,
    check_fits,
    check_magnitude,
    is_number,
    magnitude,
)
from holdfast.seeds import generator, torch_seeded


class BaseLearner:
    """The parts of a learner, and how operations are carried out on them.

    `Learner` checks what it is given and makes an operation of it; `DurableLearner` writes operations down, too.
    """

    method: Method
    frozen_encoder: PretrainedEncoder | None  # the net begins behind it
    net: Net
    memory: Memory
    labels: Labels
    optimizer: torch.optim.Optimizer
    training: Training
    versions: Versions
    pending: Pending
    keys: Keys
    task: Task | None  # followed only for methods that need task ids
    tally: Tally | None
    calibration: Calibration | None  # what `calibrate` has found last
    seed: int
    clip_samples: float | None
    magnitude: float  # of the float samples that were learned or remembered so far
    sample_template: Tensor | None  # an empty batch of their shape and type, from the first batch on
    _classes: int  # that the head has rows for in advance
    _changes: Changes
    _answering: Net | None  # made when asked for, until the next step

    @property
    def step(self) -> int:
        """How many batches have been learned."""
        return self.versions.step

    @property
    def settings(self) -> dict[str, Any]:
        """What it was made with, beside its encoder and method."""
        asked = {"lr": self.training.lr, "seed": self.seed, "classes": self._classes, "pending": self.pending.room}
        average = 0.0 if self.average is None else self.average.decay
        progress = 0 if self.tally is None else self.tally.window
        standardise = self.net.encoder.standardise is not None
        more = {"average": average, "progress": progress, "updates": self.training.updates, "standardise": standardise}
        return {"memory": self.memory.settings, **more, **asked}

    @property
    def device(self) -> torch.device:
        """Where the net is."""
        return self.training.device

    @property
    def nets(self) -> tuple[Net, ...]:
        """The one that learns first, the one that answers last."""
        return self.training.nets

    @property
    def average(self) -> Average | None:
        """The moving average that answers, if there is one."""
        return self.training.average

    def as_samples(self, x: Samples) -> Tensor:
        """What the net takes: the samples themselves or, with a frozen encoder, their features."""
        if self.frozen_encoder is None:
            shape = wanted_shape(self.net.encoder.module) if self.sample_template is None else None
            return as_tensor(x, self.sample_template, self.clip_samples, shape)
        if not isinstance(x, Features):
            raw = as_tensor(x, None, self.clip_samples, wanted_shape(self.frozen_encoder))
            with inference(False), no_autocast(self.device):
                x = Features(features_of(self.frozen_encoder, raw))
        return as_tensor(x.values, self.sample_template)

    def answering_net(self) -> Net:
        """The net that answers questions in the present state."""
        if self._answering is None:
            with inference(False), torch_seeded(self.seed, "query", self.step, self.device):
                at = replace(self.training.context(self.method, "query", self.step), net=self.nets[-1])
                self._answering = self.method.answering_net(at)
        return self._answering

    def serialized(self, **more: Any) -> bytes:
        """What `save` writes, with `more` in its manifest."""
        return self.at_rest(lambda: serialized(self, more))  # until it is written: these are the tensors that learn

    def forget_held(self, slots: Callable[[Memory], Slots]) -> int:
        """Erases what is held in some slots of the memory, which are found in turn; says how many samples that were."""
        return self._change(None, lambda journal: self._erase(slots(self.memory), journal))

    def at_rest(self, work: Callable[[], Result]) -> Result:
        """While `work` is done, no other thread changes the learner."""
        return self._changes.at_rest(work)

    def repeat(self, operation: Operation) -> None:
        """Does again what was done once; anybody may have written what is said to have been done."""
        if isinstance(operation, Adjusted):
            self._adjust(operation)
            return
        if not is_number(operation.x) or operation.x.ndim < 2 or not len(operation.x):
            raise BatchError("an operation has samples that no learner takes")
        if isinstance(operation, Asked):
            self._take(operation)
            return
        check_fits(operation.x, self.sample_template)
        if self._check_labels(operation.y, operation.x) != operation.y:
            raise BatchError("an operation has labels that no learner keeps")
        if isinstance(operation, Told):
            self.pending.number(operation.ticket)
        if isinstance(operation, Observed | Told):
            checked_key(operation.key)
        if isinstance(operation, Remembered):
            self._store(operation)
        else:
            self._learn(operation)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Of a whole step."""
        memo[id(self)] = made = type(self).__new__(type(self))
        self.at_rest(lambda: vars(made).update(copy.deepcopy(vars(self), memo)))
        return made

    def __reduce__(self) -> Any:
        raise InputError(
            "a learner is not pickled, and two cannot share their parts: learner.save(file) and Learner.load(file), "
            "or copy.deepcopy(learner), give another"
        )

    def _check_labels(self, y: object, samples: Tensor) -> list[Hashable]:
        labels = self.labels.check(y)
        if len(samples) != len(labels):
            hint = "; one sample alone is x[None]" if len(labels) == 1 else ""
            raise BatchError(f"x has {len(samples)} samples but y has {len(labels)} labels{hint}")
        if len(samples) == 0:
            raise BatchError("x is empty; a batch needs at least one sample")
        return labels

    def _check_magnitude(self, samples: Tensor) -> None:
        if self.clip_samples is None:
            check_magnitude(samples, self.magnitude)

    def _check_task(self, task: int | None) -> int | None:
        if self.method.needs_task_ids and task is None:
            raise InputError(f"{type(self.method).__name__} needs task ids: call observe(x, y, task=...)")
        return None if task is None else whole("task", task, ANY)

    def _change(
        self,
        operation: Operation | None,
        work: Callable[[Journal], Result],
        close: Callable[[Journal], object] = nothing,
    ) -> Result:
        """What `work` and then, in the log's turn, `close` do happens completely or, with an exception, not at all."""

        def close_and_commit(journal: Journal) -> None:
            close(journal)
            self._commit(operation, journal)

        with inference(False), no_autocast(self.device):
            return self._changes.make(self._begin, work, close_and_commit)

    def _together(self, work: Callable[[Journal], Result]) -> Result:
        """All changes made inside happen or, with an exception, none. It costs what they write, not what is held."""
        return self._changes.make_together(self._begin, work)

    def _begin(self, change: Change) -> None:
        change.journal.on_undo(self._restorer())
        self.versions.begin(change)
        self._answering = None

    def _learn(self, operation: Observed | Told) -> None:
        """One step, unless it was made before under the same key."""
        if self.keys.find(operation) is not None:
            return

        def learn(journal: Journal) -> None:
            if operation.task is not None and self.method.needs_task_ids:
                self._follow(operation.task)
            known = len(self.labels)
            answers = None if self.tally is None else answered(self, operation.x)
            new = self._admit(operation.x, operation.y, journal)
            extra = self.training.learn(self.method, new, self.step, journal, self._way_back)
            if (kept := self.method.to_store(self.net, replace(new, extra=extra))) is not None:
                self._offer(kept, self.training.rng("memory", self.step), journal)
            self.versions.step += 1
            self.keys.add(operation, self.step, journal)
            if self.tally is not None and answers is not None:
                self.tally = self.tally.add(new.y.tolist(), answers, known)

        def close(journal: Journal) -> None:
            if isinstance(operation, Told):
                self.pending.remove(operation.ticket, journal)

        self._change(operation, learn, close)
        self.training.failures = 0

    def _adjust(self, operation: Adjusted) -> None:
        self._change(operation, partial(adjust, self, operation.settings))

    def _store(self, operation: Remembered) -> None:
        def store(journal: Journal) -> None:
            batch = self._admit(operation.x, operation.y, journal)
            self._offer(batch, generator(self.seed, "remember", self.memory.offered), journal)

        self._change(operation, store)

    def _admit(self, samples: Tensor, labels: Sequence[Hashable], journal: Journal) -> Batch:
        """A batch with class indices, for which the head has rows."""
        self.sample_template = samples[:0]
        self.magnitude = max(self.magnitude, magnitude(samples))
        indices = torch.tensor(self.labels.admit(labels), device=self.device)
        if self.net.seen != len(self.labels):
            rows = max(len(self.labels) + self.method.spare_rows, self._classes)
            self.training.grow(len(self.labels), rows, samples[:1], self.step, journal)
        return Batch(samples.to(self.device), indices, task=self.task)

    def _take(self, question: Asked) -> int:
        def take(journal: Journal) -> int:
            number = self.pending.add(question.x, journal)
            self._commit(question, journal)
            return number

        return self._changes.make_in_log(take)

    def _offer(self, batch: Batch, rng: np.random.Generator, journal: Journal) -> None:
        self.versions.storing()
        self.memory.add(batch, rng, journal)
        if not self.memory.capacity and self.memory.byte_budget:
            room = f"{self.memory.byte_budget} bytes are too few for one such sample"
            raise InputError(f"memory: {room}, which has {batch.x[0].nbytes} bytes")

    def _erase(self, slots: Slots, journal: Journal) -> int:
        self.versions.storing()
        self.memory.remove(slots, journal)
        return len(slots)

    def _commit(self, operation: Operation | None, journal: Journal) -> None:
        """Called when a change is made and can still be taken back. None: something was erased."""

    def _way_back(self) -> str:
        return f"go on from a copy that was saved before step {self.step}, with a smaller lr or without what ruined it"

    def _follow(self, task: int) -> None:
        """Notes the switch if this is another task than the last."""
        if self.task is None or self.task.id != task:
            teacher = self.net.frozen() if self.method.needs_teacher and self.net.seen else None
            starts = () if self.task is None else self.task.starts
            self.task = Task(task, (*starts, self.net.seen), teacher)

    def _restorer(self) -> Callable[[], None]:
        """What puts back the parts of the present state that are neither in the net's weights nor in the memory."""
        labels, step, task, sample_template = len(self.labels), self.step, self.task, self.sample_template
        magnitude, tally = self.magnitude, self.tally

        def restore() -> None:
            self.labels.cut_after(labels)
            self.versions.step, self.task = step, task
            self.sample_template, self.magnitude = sample_template, magnitude
            self._answering, self.tally = None, tally
            put_norms_back(self.net)
            self.net.eval()

        return restore


def checked_key(key: str | None) -> str | None:
    return None if key is None else check_key(key)
