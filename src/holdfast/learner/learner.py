"""The learner: observe labelled batches as they come, predict at any time."""

from collections.abc import Hashable
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from holdfast.arguments import AT_LEAST_ONE, UPDATES, Range, real, switch, whole
from holdfast.augment import Augment
from holdfast.errors import BatchError, InputError, NothingLearned
from holdfast.learner import answers
from holdfast.learner.adjustments import settings_of
from holdfast.learner.base import BaseLearner, checked_key
from holdfast.learner.calibration import Calibration, calibrated, is_unknown, temperature_of
from holdfast.learner.description import described
from holdfast.learner.export import export
from holdfast.learner.keys import Keys
from holdfast.learner.labels import FORGOTTEN, Labels
from holdfast.learner.operations import Adjusted, Asked, Observed, Remembered, Told
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
from holdfast.learner.progress import Progress, new_tally, seen_of
from holdfast.learner.state import pack, restored
from holdfast.learner.training import Training
from holdfast.learner.transaction import Changes
from holdfast.learner.versions import Versions
from holdfast.memory import Memory
from holdfast.memory.class_index import Journal
from holdfast.memory.codecs import Codec
from holdfast.methods.base import Method
from holdfast.modes import in_inference
from holdfast.nets import HEADS, Encoder, Net, PretrainedEncoder
from holdfast.samples import (
    LARGEST_VALUE,
    Features,
    Samples,
    as_tensor,
    check_fits,
    close_to_any,
    equal_to_any,
)
from holdfast.storage import checkpoint, files
from holdfast.storage.locks import refuse_files_of_a_learner

_NO_SAMPLES = torch.empty(0)
MOST_CLASSES = 100_000  # that a head is sized for in advance


class Learner(BaseLearner):
    """Learns from a stream of small labelled batches.

    It can be asked at any moment, from any thread, and new classes need no announcement.

    Args:
        encoder: any module that maps a batch of samples to feature vectors, on any device.
        method: how incoming and replayed samples are learned, such as `ERACE()`, or its name as on the command line,
            "er-ace:replay=20"; `Holdfast()` by default.
        memory: how much of the past is kept for replay: a number of samples, a number of bytes as text ("50MB"), or
            a `Memory`. For `Holdfast`, a number of bytes holds images as WebP of quality 75, about seven times as many.
        lr: the learning rate of the built-in SGD; by default 0.05 for `Holdfast` and 0.1 for all
            other methods.
        optimizer: makes another optimizer from the parameters.
        augment: changes each batch of samples before it is learned, such as `crop_and_flip`; None leaves them as they
            are. By default `Holdfast` crops and flips images, as `augment_images` does, unless the encoder is one of
            the small built-in ones; other methods change nothing.
        seed: decides all randomness.
        classes: how many classes there will be, for methods that use classes still to come.
        pending: how many questions may wait for their labels at once.
        average: above 0, questions are answered by an exponential moving average of the net with this decay, such as
            0.99. The net that learns is the same with and without it. By default 0.99 for `Holdfast`, 0 for others.
        clip_samples: float values beyond it, on either side, are set to it; `math.inf` accepts all values.
            By default, a batch with a value a hundred times as large as all before it is refused.
        progress: above 0, every labelled sample is predicted before it is learned, and `learner.progress` says how
            well, over all samples and over that many last ones. This costs one answer per sample.
        updates: gradient steps on each batch, each with other samples from the memory; at most 1000.
        standardise: whether columns (of images: channels) are scaled to mean 0 and variance 1, according to the samples
            learned so far.

    Raises:
        InputError: if an argument is wrong, or the parts do not fit each other.

    Examples:
        >>> import holdfast
        >>> learner = holdfast.Learner(holdfast.mlp((2,)), holdfast.ERACE(), memory=100)
        >>> learner.observe(np.array([[0.0, 1.0], [1.0, 0.0]]), ["up", "right"])
        >>> learner.classes
        ['up', 'right']
    """

    @in_inference(False)  # what is made in the caller's could not learn
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
        self.method = method
        self.frozen_encoder = encoder if isinstance(encoder, PretrainedEncoder) and encoder.frozen is True else None
        self.memory = memory_of(memory, method, features=self.frozen_encoder is not None)
        if not isinstance(self.memory, method.memory_class):
            raise InputError(f"{type(method).__name__} needs a {method.memory_class.__name__} memory")
        if self.memory.offered:
            raise InputError("the memory has been another learner's; export_memory and import_memory move samples")
        self.labels = Labels()
        self.task = None
        self.seed = whole("seed", seed)
        device = next(encoder.parameters(), torch.empty(0)).device
        if self.frozen_encoder is not None:
            check_holds_features(None if augment == "usual" else augment, self.memory)
            encoder = nn.Flatten()  # the net begins with features
        standardise = switch("standardise", standardise)
        check_learns(method, whole("updates", updates, UPDATES), standardise)
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
        self.magnitude = 0.0
        self.sample_template = None
        self._answering = None
        self.keys = Keys()
        self.tally = new_tally(progress, self)
        self.calibration = None

    def __repr__(self) -> str:
        return described(self)

    @property
    def classes(self) -> list[Hashable]:
        """The labels seen so far, in the order of their first appearance."""
        return [label for label in self.labels if label is not FORGOTTEN]

    @property
    def progress(self) -> Progress | None:
        """How well labelled samples were predicted before they were learned; None without `progress=...`."""
        return seen_of(self.tally, self.labels)

    def observe(self, x: Samples, y: object, *, task: int | None = None, key: str | None = None) -> None:
        """Learns one incoming batch. It happens completely or, with an exception, not at all.

        Args:
            x: samples, uint8 (scaled to [-1, 1]) or float (taken as they are); the first axis is the batch. A list
                may have images of any size, as arrays, Pillow images or file paths: they are cropped and scaled to
                what the net takes.
            y: one hashable label per sample.
            task: which task the batch belongs to; only for methods that need to be told.
            key: a name for the batch. A batch with a key that was given before is not learned again, even after a
                restart of a durable learner. The last 10,000 keys are known.

        Raises:
            BatchError: if the samples are wrong.
            LabelError: if a label is wrong.
            NonFiniteError: if the step does not lead to finite numbers.
            WriteError: if a durable learner cannot write it to its log.

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
            self._learn(Observed(samples, self._check_labels(y, samples), self._check_task(task), checked_key(key)))

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
            BatchError: if its samples do not fit those learned since.
            LabelError: if a label is wrong.
        """
        with self._changes.turn:
            self._changes.mend()
            number, labels = self.pending.number(ticket), self.labels.check(y)
            if self.keys.find(Told(number, _NO_SAMPLES, labels, task, checked_key(key))) is not None:
                return
            samples = self.pending[ticket]
            check_fits(samples, self.sample_template)  # the question may have come before the first batch
            if self.frozen_encoder is None:
                samples = as_tensor(samples, self.sample_template, self.clip_samples)  # or before there was a limit
            self._check_magnitude(samples)
            labels = self._check_labels(y, samples)
            self._learn(Told(number, samples, labels, self._check_task(task), checked_key(key)))

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
        """Offers samples to the memory without taking a step on them.

        Args:
            x: samples, as for `observe`.
            y: one hashable label per sample.

        Raises:
            InputError: if the method keeps something beside samples that only a step computes.
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
        """Computes the features of samples, with a frozen pretrained encoder.

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
        return answers.shares(scores[:, known], temperature_of(self)).float().numpy()

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
        """Fits probabilities to how often answers are right, and finds a threshold below which to answer "unknown".

        From then on `predict_proba` divides scores by a temperature, and `predict(x, unknown=True)` answers None
        where the best probability is below a threshold. Both are part of the learner: saved, and logged by a durable
        one.

        Args:
            x: labelled samples that it has not learned from, as for `observe`; they may include unknown classes.
            y: one label per sample.
            accept: the share of samples of known classes that should get an answer.

        Returns:
            The calibration, with the trade-off of other thresholds; also available as `learner.calibration`.

        Raises:
            InputError: if fewer than two samples are of known classes.
            BatchError: if the samples are wrong.
            NothingLearned: before the first batch.
        """
        samples = self.as_samples(x)
        self._check_magnitude(samples)
        found = calibrated(self, samples if self.frozen_encoder is None else Features(samples), y, accept)
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
        return answers.cosines(self, answers.scores(self, x)[0]).float().numpy()

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
        """Writes the classifier as it is now into one file, for programs without Holdfast.

        The exported model takes samples as `predict` does, any number at a time, and returns the index of the best
        class in `classes` and the probability of each class. Encoder, scaling, class means and calibration are
        included, and `classes` are in its metadata. It does not learn.

        Args:
            path: a file that ends in .onnx, for ONNX Runtime and others, or .pt2, for `torch.export.load`.
            shape: of one sample, if the learner has a frozen pretrained encoder and samples have another size: the
                model then resizes them. Three numbers stand for a uint8 image.

        Raises:
            InputError: if the path has another ending, torch cannot export the net, or a package is missing.
            NothingLearned: if no class has been seen yet.
            WriteError: if it cannot be written; a file that was there before is still there.
        """
        export(self, Path(path), shape)

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
        """Loads a saved learner. Parts that are not built in are passed again, and have to fit.

        Args:
            path: the file.
            encoder: the encoder, if it is not built in.
            method: the method, if it is not built in.
            optimizer: makes the optimizer, if it is not the built-in SGD.
            augment: the augmentation, if there was one.
            codec: the codec of the memory, if it is not built in.
            clip_samples: if given, it holds from now on.

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

    def state_hash(self) -> str:
        """Hashes everything that determines the learner's future.

        Returns:
            A sha256 in hexadecimal: two learners with the same hash continue in the same way.
        """

        def hashed() -> str:
            tensors, values = pack(self)
            return checkpoint.digest(tensors, checkpoint.as_text(values) + repr(list(self.labels)))

        return self.at_rest(hashed)

    def change(
        self,
        *,
        lr: float | None = None,
        updates: int | None = None,
        memory: int | str | None = None,
        method: Method | str | None = None,
    ) -> None:
        """Changes settings from now on: all that are given or, with an exception, none.

        The change is part of the learner: saved with it, and logged by a durable one.

        Args:
            lr: the learning rate.
            updates: gradient steps on each batch.
            memory: a number of samples, or of bytes as text. A smaller memory keeps a random choice of its samples;
                a larger one fills up with samples to come.
            method: the same method with other options, such as `ERACE(replay=20)` or "er-ace:replay=20".

        Raises:
            InputError: if a value is wrong, nothing is given, or the method is a different one.
        """
        self._adjust(Adjusted(settings_of(lr, updates, memory, method)))
