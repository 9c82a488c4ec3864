"""The learner: observe labelled batches as they come, predict at any time."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from holdfast.arguments import ANY, AT_LEAST_ONE, Range, real, whole
from holdfast.augment import Augment
from holdfast.batch import Batch, Task
from holdfast.errors import BatchError, InputError, NothingLearned
from holdfast.learner import answers
from holdfast.learner.adjustments import adjust, settings_of
from holdfast.learner.calibration import Calibration, calibrated, is_unknown, temperature_of
from holdfast.learner.description import described
from holdfast.learner.export import export
from holdfast.learner.keys import Keys, check_key
from holdfast.learner.labels import FORGOTTEN, Labels
from holdfast.learner.operations import Adjusted, Asked, Observed, Operation, Remembered, Told
from holdfast.learner.parts import (
    DEFAULT_METHOD,
    MakeOptimizer,
    as_method,
    augment_of,
    check_average,
    check_clip,
    check_holds_features,
    check_learns,
    check_parts,
    memory_of,
    optimizer_of,
)
from holdfast.learner.pending import Pending, Ticket
from holdfast.learner.progress import Progress, answered, new_tally, seen_of
from holdfast.learner.state import pack, restored, serialized
from holdfast.learner.training import Training
from holdfast.learner.transaction import Change, Changes, Result, nothing
from holdfast.learner.versions import Versions
from holdfast.memory import Memory
from holdfast.memory.class_index import Journal, Slots
from holdfast.memory.codecs import Codec
from holdfast.methods.base import Method
from holdfast.modes import inference, no_autocast
from holdfast.nets import HEADS, Encoder, Net, PretrainedEncoder
from holdfast.nets.averages import Average
from holdfast.nets.norms import put_norms_back
from holdfast.nets.pretrained import features_of, wanted_shape
from holdfast.samples import (
    LARGEST_VALUE,
    Features,
    Samples,
    as_tensor,
    check_fits,
    check_magnitude,
    close_to_any,
    equal_to_any,
    is_number,
    magnitude,
)
from holdfast.seeds import generator, torch_seeded
from holdfast.storage import checkpoint, files
from holdfast.storage.locks import refuse_files_of_a_learner

_NO_SAMPLES = torch.empty(0)
MOST_CLASSES = 100_000  # that a head is sized for in advance


class Learner:
    """Learns from a stream of small labelled batches.

    It can be asked at any moment, from any thread, and learns new classes without notice.

    Args:
        encoder: any module that maps a batch of samples to feature vectors, on any device.
        method: how incoming and replayed samples are learned, such as `ERACE()`, or its name as on the command line,
            "er-ace:replay=20"; `Holdfast()` by default.
        memory: how much of the past is kept for replay: a number of samples, a number of bytes as text ("50MB"), or
            a `Memory`. For `Holdfast`, bytes hold images as WebP of quality 75, about eight times as many.
        lr: the learning rate of the built-in SGD; by default the one that is usual for the method, 0.05 for `Holdfast`
            and 0.1 for all others.
        optimizer: makes another optimizer from the parameters.
        augment: changes each batch of samples before it is learned, such as `crop_and_flip`; None leaves them as they
            are. By default `Holdfast` crops and flips images, as `augment_images` does, unless the
            encoder is one of the small built-in ones, and others change nothing.
        seed: decides all randomness.
        classes: how many classes there will be, for methods that look at classes still to come.
        pending: how many questions may wait for their labels at a time.
        average: above 0, questions are answered by an exponential moving average of the net with this decay, such as
            0.99. The net that learns is the same with and without it. By default 0.99 for `Holdfast`, 0 for others.
        clip_samples: float values beyond it, on either side, are set to it; `math.inf` takes all values as they come.
            By default, a batch with a value a hundred times as large as all before it is refused.
        progress: above 0, every labelled sample is answered before it is learned, and `learner.progress` says how
            well, over all samples and over the last so many. This costs one answer per sample.
        updates: gradient steps on each batch, each with other samples from the memory.
        standardise: whether the net sees columns (of images: channels) of mean 0 and variance 1, by the samples that
            have been learned so far.

    Raises:
        InputError: if an argument is wrong, or the parts do not fit each other.

    Examples:
        >>> import holdfast
        >>> learner = holdfast.Learner(holdfast.mlp((2,)), holdfast.ERACE(), memory=100)
        >>> learner.observe(np.array([[0.0, 1.0], [1.0, 0.0]]), ["up", "right"])
        >>> learner.classes
        ['up', 'right']
    """

    def __init__(
        self,
        encoder: nn.Module,
        method: Method | str = DEFAULT_METHOD,
        *,
        memory: int | str | Memory = 1000,
        lr: float | None = None,
        optimizer: MakeOptimizer | None = None,
        augment: Augment | Literal["usual"] | None = "usual",
        seed: int = 0,
        classes: int = 0,
        pending: int = 1000,
        average: float | None = None,
        clip_samples: float | None = None,
        progress: int = 0,
        updates: int = 1,
        standardise: bool = False,
    ) -> None:
        method = as_method(method)
        check_parts(encoder, method, augment)
        self._classes = whole("classes", classes, Range(least=0, most=MOST_CLASSES))
        if method.needs_unseen_classes and not classes:
            raise InputError(f"{method} looks at classes still to come: say how many there will be, classes=...")
        self.method: Method = method
        self.frozen_encoder = encoder if isinstance(encoder, PretrainedEncoder) and encoder.frozen is True else None
        self.memory = memory_of(memory, method, features=self.frozen_encoder is not None)
        if not isinstance(self.memory, method.memory_class):
            raise InputError(f"{type(method).__name__} needs a {method.memory_class.__name__} memory")
        if self.memory.offered:
            raise InputError("the memory has been another learner's; export_memory and import_memory move samples")
        self.labels = Labels()
        self.task: Task | None = None  # followed only for methods that need task ids
        self.seed = whole("seed", seed)
        device = next(encoder.parameters(), torch.empty(0)).device
        if self.frozen_encoder is not None:
            check_holds_features(None if augment == "usual" else augment, self.memory)
            encoder = nn.Flatten()  # the net begins with features
        check_learns(method, whole("updates", updates, AT_LEAST_ONE), standardise)
        self.net = Net(Encoder(encoder, standardise=standardise), HEADS[method.head](self.seed).to(device)).eval()
        self.optimizer = optimizer_of([p for p in self.net.parameters() if p.requires_grad], lr, optimizer, method)
        parts: dict[str, Any] = {"seed": self.seed, "updates": updates}
        parts["augment"] = augment_of(augment, method, encoder, features=self.frozen_encoder is not None)
        parts["decay"] = check_average(average, method)
        self.training = Training(self.net, self.optimizer, self.memory, **parts)
        self.versions = Versions(self.nets, self.labels, self.memory, self.optimizer)
        self.pending = Pending(pending)
        self._changes = Changes()
        self.clip_samples = check_clip(clip_samples)
        self.magnitude = 0.0  # of the float samples that were learned or remembered so far
        self.sample_template: Tensor | None = None  # an empty batch of their shape and type, from the first batch on
        self._answering: Net | None = None  # made when asked for, until the next step
        self.keys = Keys()
        self.tally = new_tally(progress, self)
        self.calibration: Calibration | None = None  # what `calibrate` has found last

    def __repr__(self) -> str:
        return described(self)

    @property
    def classes(self) -> list[Hashable]:
        """The labels seen so far, in the order of their first appearance."""
        return [label for label in self.labels if label is not FORGOTTEN]

    @property
    def step(self) -> int:
        """How many batches have been learned."""
        return self.versions.step

    @property
    def progress(self) -> Progress | None:
        """How well labelled samples were answered before they were learned; None without `progress=...`."""
        return seen_of(self.tally, self.labels)

    def observe(self, x: Samples, y: object, *, task: int | None = None, key: str | None = None) -> None:
        """Learns one incoming batch. It happens completely or, with an exception, not at all.

        Args:
            x: samples, uint8 (scaled to [-1, 1]) or float (taken as they are); the first axis is the batch. A list
                may have images of any size, as arrays, of Pillow, or as paths of files: they are cropped and scaled to
                what the net takes.
            y: one hashable label per sample.
            task: which task the batch belongs to; only for methods that need to be told.
            key: a name for the batch. A batch whose key was given before is not learned again, even after a restart
                of a durable learner. The last 10,000 keys are known.

        Raises:
            BatchError: if the samples are wrong.
            LabelError: if a label is wrong.
            NonFiniteError: if the step does not lead to finite numbers.
            WriteError: if a durable learner cannot write it down.

        Examples:
            >>> import holdfast
            >>> learner = holdfast.Learner(holdfast.mlp((2,)), holdfast.ERACE(), memory=100)
            >>> learner.observe(np.zeros((3, 2)), ["a", "b", "a"])
            >>> learner.step
            1
        """
        with self._changes.turn:
            self._changes.mend()
            samples = self.as_samples(x)
            self._check_magnitude(samples)
            self._learn(Observed(samples, self._check_labels(y, samples), self._check_task(task), _checked(key)))

    def ask(self, x: Samples) -> Ticket:
        """Answers now, and keeps the samples until their labels are known.

        Args:
            x: samples, as for `observe`.

        Returns:
            A ticket with a number, for `tell`, and the answers.

        Raises:
            BatchError: if the samples are wrong.
        """
        samples = self.as_samples(x)
        if len(samples) == 0:
            raise BatchError("x is empty; a question needs at least one sample")
        try:
            now = answers.answers(self, samples if self.frozen_encoder is None else Features(samples))
        except NothingLearned:
            return Ticket(self._take(Asked(samples)), [None] * len(samples))
        return Ticket(self._take(Asked(samples)), now.labels, now)

    def tell(self, ticket: Ticket | int, y: object, *, task: int | None = None, key: str | None = None) -> None:
        """Learns the samples of a question, whose labels have come, and closes it.

        Args:
            ticket: what `ask` returned, or its number.
            y: one hashable label per sample.
            task: as for `observe`.
            key: as for `observe`.

        Raises:
            TicketError: if the question is not open.
            BatchError: if its samples do not fit those that were learned since.
            LabelError: if a label is wrong.
        """
        with self._changes.turn:
            self._changes.mend()
            number, labels = self.pending.number(ticket), self.labels.check(y)
            if self.keys.find(Told(number, _NO_SAMPLES, labels, task, _checked(key))) is not None:
                return
            samples = self.pending[ticket]
            check_fits(samples, self.sample_template)  # the question may have come before the first batch
            if self.frozen_encoder is None:
                samples = as_tensor(samples, self.sample_template, self.clip_samples)  # or before there was a limit
            self._check_magnitude(samples)
            labels = self._check_labels(y, samples)
            self._learn(Told(number, samples, labels, self._check_task(task), _checked(key)))

    def forget(self, label: Hashable) -> int:
        """Erases a class: its samples, its row of the head and its name.

        It is never answered again; should it come back, it is a new class. What the rest of the net has learned from it
        cannot be taken out. Its index stays taken, so that each forgotten class costs a row of the head.

        Args:
            label: the class.

        Returns:
            How many samples of it the memory held.

        Raises:
            LabelError: if there is no such class.
        """

        def erase(journal: Journal) -> int:
            index = self.labels.index(*self.labels.check([label]))
            journal.on_undo(partial(self.labels.put_back, index, self.labels[index]))
            self.labels.forget(index)
            self.training.renew(index)
            self.task = self.task and self.task.without(index)
            return self._erase(self.memory.members(index), journal)

        return self._change(None, erase)

    def forget_samples(self, x: Samples) -> int:
        """Erases samples from the memory and the open questions.

        What the net has learned from them cannot be taken out.

        Args:
            x: the samples; whatever equals one of them is erased.

        Returns:
            How many samples the memory held.

        Raises:
            BatchError: if they cannot be samples of this learner.
        """
        if self.frozen_encoder is not None:
            samples = self.as_samples(x)
        else:
            shape = None if self.sample_template is None else self.sample_template.shape[1:]
            limits = [None] if self.clip_samples is None else [LARGEST_VALUE, self.clip_samples]
            # what came before there was a limit is held as it came
            samples = torch.cat([as_tensor(x, None, limit, shape) for limit in limits])

        equal = equal_to_any if self.frozen_encoder is None else close_to_any

        def erase(journal: Journal) -> int:
            return self._erase(self.memory.find(samples, equal), journal)

        def close(journal: Journal) -> None:
            if not self.pending.remove_samples(samples, journal, equal):
                check_fits(samples, self.sample_template)

        return self._change(None, erase, close)

    def remember(self, x: Samples, y: object) -> None:
        """Offers samples to the memory without learning from them now.

        Args:
            x: samples, as for `observe`.
            y: one hashable label per sample.

        Raises:
            InputError: if the method keeps something beside samples that only learning gives.
            BatchError: if the samples are wrong.
            LabelError: if a label is wrong.
        """
        if self.method.stored_extras:
            raise InputError(
                f"{type(self.method).__name__} keeps {self.method.stored_extras} beside samples it has learned from"
            )
        with self._changes.turn:
            self._changes.mend()
            samples = self.as_samples(x)
            self._check_magnitude(samples)
            self._store(Remembered(samples, self._check_labels(y, samples)))

    def features(self, x: Samples) -> Features:
        """Computes what a frozen pretrained encoder makes of samples.

        Args:
            x: samples, as for `observe`.

        Returns:
            Features that `observe`, `predict` and the others take in place of the samples.

        Raises:
            InputError: if the learner has no frozen pretrained encoder.
        """
        if self.frozen_encoder is None:
            raise InputError("this learner has no frozen pretrained encoder, so it keeps no features apart")
        return Features(self.as_samples(x))

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

    def predict(self, x: Samples, *, reject: float | None = None, unknown: bool = False) -> list[Hashable]:
        """Predicts the most probable label of each sample.

        It changes nothing and does not wait for a step that is under way.

        Args:
            x: samples, as for `observe`.
            reject: the answer is None where no class is this similar; `rejection_threshold` finds a value.
            unknown: whether the answer is None where the probability is below the threshold of `calibrate`.

        Returns:
            One label per sample.

        Raises:
            NothingLearned: if no class has been seen yet.
            BatchError: if the samples are wrong.
        """
        scores, labels = answers.scores(self, x)
        best = scores.max(1)
        found = [labels[index] for index in best.indices.tolist()]
        if unknown:
            doubtful = is_unknown(self, scores)
            found = [None if doubt else label for label, doubt in zip(found, doubtful, strict=True)]
        if reject is None:
            return found
        similar = (best.values * answers.temperature(self) >= real("reject", reject)).tolist()
        return [label if near else None for label, near in zip(found, similar, strict=True)]

    def predict_proba(self, x: Samples) -> NDArray[np.float32]:
        """Predicts the probability of each class. It changes nothing.

        Args:
            x: samples, as for `observe`.

        Returns:
            One row per sample, with one column for each of `classes`.

        Raises:
            NothingLearned: if no class has been seen yet.
            BatchError: if the samples are wrong.
        """
        scores, labels = answers.scores(self, x)
        known = [index for index, label in enumerate(labels[: scores.shape[1]]) if label is not FORGOTTEN]
        return (scores[:, known] / temperature_of(self)).softmax(1).float().numpy()

    def predict_top(self, x: Samples, k: int = 5) -> list[list[tuple[Hashable, float]]]:
        """Predicts the most probable labels of each sample. It changes nothing.

        Args:
            x: samples, as for `observe`.
            k: how many labels; if fewer classes are known, all of them.

        Returns:
            For each sample, labels with their probabilities, the most probable first.

        Raises:
            NothingLearned: if no class has been seen yet.
            BatchError: if the samples are wrong.
        """
        return answers.top(answers.answers(self, x), whole("k", k, AT_LEAST_ONE))

    def calibrate(self, x: Samples, y: object, *, accept: float = 0.95) -> Calibration:
        """Makes probabilities fit how often answers are right, and finds when to answer that no class is known.

        From then on `predict_proba` divides scores by a temperature, and `predict(x, unknown=True)` answers None
        where the best probability is below a threshold. Both are part of the learner: saved, and logged by a durable
        one.

        Args:
            x: labelled samples that it has not learned from, as for `observe`; some of unknown classes are welcome.
            y: one label per sample.
            accept: the share of samples of known classes that is to be answered.

        Returns:
            What was found, with the trade-off of other thresholds: `learner.calibration` has it, too.

        Raises:
            InputError: if fewer than two samples are of known classes.
            BatchError: if the samples are wrong.
            NothingLearned: before the first batch.
        """
        found = calibrated(self, x, y, accept)
        self._adjust(Adjusted({"calibration": found.pack()}))
        return found

    def similarity(self, x: Samples) -> NDArray[np.float32]:
        """Computes how similar each sample is to the class it is most similar to.

        Args:
            x: samples, as for `observe`.

        Returns:
            One cosine per sample, from -1 to 1.

        Raises:
            InputError: if the method has no cosine head.
        """
        return (answers.scores(self, x)[0].amax(1) * answers.temperature(self)).float().numpy()

    def rejection_threshold(self, accept: float = 0.95) -> float:
        """Finds a value for `predict(..., reject=...)`.

        Args:
            accept: the share of the samples in memory that reach it.

        Returns:
            The similarity that this share reaches.

        Raises:
            InputError: if the method has no cosine head, or the memory is empty.
        """
        return answers.rejection_threshold(self, accept)

    def answering_net(self) -> Net:
        """The net that answers questions in the present state."""
        if self._answering is None:
            with inference(False), torch_seeded(self.seed, "query", self.step, self.device):
                at = replace(self.training.context(self.method, "query", self.step), net=self.nets[-1])
                self._answering = self.method.answering_net(at)
        return self._answering

    def save(self, path: str | Path) -> None:
        """Writes everything that determines the learner's future into one file, whole or not at all.

        Args:
            path: the file.

        Raises:
            WriteError: if it cannot be written; a file that was there before is still there.
            LabelError: if a label cannot be written to a file.
        """
        refuse_files_of_a_learner(Path(path))
        files.write(Path(path), self.serialized())

    def export(self, path: str | Path, *, shape: tuple[int, ...] | None = None) -> None:
        """Writes what answers now into one file, for programs without Holdfast.

        The file takes samples as `predict` does, any number at a time, and gives the place of the best class among
        `classes` and the probability of each class. Encoder, scaling, class means and calibration are inside, and
        `classes` are in its metadata. It does not learn.

        Args:
            path: a file that ends in .onnx, for ONNX Runtime and others, or .pt2, for `torch.export.load`.
            shape: of one sample, if the learner has a frozen pretrained encoder and samples are not of its size: they
                are resized inside. Three numbers are an image, of uint8.

        Raises:
            InputError: if the path ends otherwise, torch cannot write the net, or a package is missing.
            NothingLearned: if no class has been seen yet.
            WriteError: if it cannot be written; a file that was there before is still there.
        """
        export(self, Path(path), shape)

    def serialized(self, **more: Any) -> bytes:
        """What `save` writes, with `more` in its manifest."""
        return self.at_rest(lambda: serialized(self, more))  # until it is written: these are the tensors that learn

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        encoder: nn.Module | None = None,
        method: Method | str | None = None,
        optimizer: MakeOptimizer | None = None,
        augment: Augment | None = None,
        clip_samples: float | None = None,
        codec: Codec | None = None,
    ) -> Self:
        """Loads a learner that was saved. What is not built in is passed again, and has to fit.

        Args:
            path: the file.
            encoder: the encoder, if it is not built in.
            method: the method, if it is not built in.
            optimizer: makes the optimizer, if it is not the built-in SGD.
            augment: the augmentation, if there was one.
            codec: the codec of the memory, if it is not built in.
            clip_samples: if given, holds from now on.

        Returns:
            The learner; it continues with the same bits.

        Raises:
            CheckpointError: if the file is missing, damaged, or does not fit what was passed.
        """
        parts: dict[str, Any] = {"encoder": encoder, "method": method, "optimizer": optimizer, "augment": augment}
        parts["codec"] = codec
        parts["method"] = as_method(method)
        check_parts(encoder, parts["method"], augment, optional=True)
        clip_samples = check_clip(clip_samples)
        with checkpoint.distrust(path):
            learner = restored(cls, *checkpoint.read(Path(path)), **parts)
        if clip_samples is not None:
            learner.clip_samples = clip_samples
        return learner

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
            _checked(operation.key)
        if isinstance(operation, Remembered):
            self._store(operation)
        else:
            self._learn(operation)

    def at_rest(self, work: Callable[[], Result]) -> Result:
        """While `work` is done, no other thread changes the learner."""
        return self._changes.at_rest(work)

    def state_hash(self) -> str:
        """Hashes everything that determines the learner's future.

        Returns:
            A sha256 in hexadecimal: two learners with the same hash go on the same way.
        """

        def hashed() -> str:
            tensors, values = pack(self)
            return checkpoint.digest(tensors, checkpoint.as_text(values) + repr(list(self.labels)))

        return self.at_rest(hashed)

    def __getstate__(self) -> dict[str, Any]:
        """For copies: of a whole step."""
        return self.at_rest(lambda: vars(self).copy())

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

    def change(
        self,
        *,
        lr: float | None = None,
        updates: int | None = None,
        memory: int | str | None = None,
        method: Method | str | None = None,
    ) -> None:
        """Changes settings from now on, all of those that are given or, with an exception, none.

        It is part of the learner's history: saved, and logged by a durable one.

        Args:
            lr: the learning rate.
            updates: gradient steps on each batch.
            memory: a number of samples, or of bytes as text. A smaller memory keeps a random choice of its samples;
                the new room of a larger one is filled with what comes.
            method: the present method with other options, such as `ERACE(replay=20)` or "er-ace:replay=20".

        Raises:
            InputError: if a value is wrong, nothing is given, or the method is another one.
        """
        self._adjust(Adjusted(settings_of(lr, updates, memory, method)))

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
            self.labels.forget_after(labels)
            self.versions.step, self.task = step, task
            self.sample_template, self.magnitude = sample_template, magnitude
            self._answering, self.tally = None, tally
            put_norms_back(self.net)
            self.net.eval()

        return restore


def _checked(key: str | None) -> str | None:
    return None if key is None else check_key(key)
