"""Holdfast as a River classifier."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

try:
    from river import base
except ImportError as error:
    raise ImportError("holdfast.river needs river: pip install 'holdfast[river]'") from error

import numpy as np
from numpy.typing import NDArray

from holdfast.adapters.named_features import Sample, as_rows, as_sample, room, with_columns_for, with_room
from holdfast.adapters.portable import PortableLearner, all_or_nothing, new_learner
from holdfast.arguments import Range, whole
from holdfast.errors import BatchError
from holdfast.learner.labels import Labels
from holdfast.methods import Method
from holdfast.samples import TOO_FAR, outlier

if TYPE_CHECKING:
    import pandas as pd


class OnlineClassifier(base.MiniBatchClassifier):
    """Learns from a stream in which new classes and new features may appear at any time.

    Samples are collected until they make a mini-batch, which is one step of the learner; `learn_many` is `learn_one`
    for each row. Until the first step the answer is the share of each label among the waiting samples.

    Features go by name and are numbers, ideally of similar scale (`standardise=True`). One that is missing,
    None or NaN counts as 0. One that appears later gets an input of its own at the next step, and is ignored until
    then; the answers for samples without it stay as they are.

    Args:
        method: a name with options as on the command line, "er-ace:head=linear", or a Method
        memory: how many samples are kept for replay
        lr: the learning rate
        batch: how many samples make a step
        width: of the hidden layers
        clip_samples: values beyond it, on either side, are set to it; if None, a sample with a value a hundred times
            as large as all before it is refused; math.inf accepts everything
        progress: above 0, every sample is predicted before it is learned, and `learner.progress` says how well, over
            all and over that many last ones
        updates: how many gradient steps each mini-batch takes
        standardise: whether columns are scaled to mean 0 and variance 1, by the samples learned so far
        average: above 0, an exponential moving average of the net with this decay answers; None: as the method has it
        seed: decides all randomness

    Examples:
        >>> model = OnlineClassifier(batch=2)
        >>> model.learn_one({"x": 0.0, "y": 1.0}, "up")
        >>> model.learn_one({"x": 1.0, "y": 0.0}, "right")
        >>> list(model.predict_proba_one({"x": 1.0}))
        ['up', 'right']
    """

    def __init__(
        self,
        method: str | Method = "er-ace",
        *,
        memory: int = 1000,
        lr: float = 0.1,
        batch: int = 10,
        width: int = 128,
        clip_samples: float | None = None,
        progress: int = 0,
        updates: int = 1,
        standardise: bool = False,
        average: float | None = None,
        seed: int = 0,
    ) -> None:
        self.method = method
        self.memory = memory
        self.lr = lr
        self.batch = batch
        self.width = width
        self.clip_samples = clip_samples
        self.progress = progress
        self.updates = updates
        self.standardise = standardise
        self.average = average
        self.seed = seed
        self.learner: PortableLearner | None = None  # from the first step on
        self._columns: dict[Hashable, int] = {}  # of the features, in the learner's samples
        self._waiting: list[tuple[Sample, Hashable]] = []

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[Hashable, Any], y: base.typing.ClfTarget) -> None:
        """Learns one sample; a step is taken when `batch` of them have gathered.

        Args:
            x: features by name.
            y: its label.
        """
        self._learn([x], [y])

    def learn_many(self, X: "pd.DataFrame", y: "pd.Series") -> None:
        """Learns the rows of a data frame, as `learn_one` would one by one.

        Args:
            X: one row per sample.
            y: one label per sample.
        """
        self._learn(X.to_dict("records"), Labels().check(y))

    def predict_proba_one(self, x: dict[Hashable, Any], **kwargs: Any) -> dict[base.typing.ClfTarget, float]:
        """Predicts the probability of each class for one sample.

        Args:
            x: features by name.
            kwargs: not used; River's interface has them.

        Returns:
            Probabilities by label.
        """
        labels, shares = self._answer([x])
        return dict(zip(labels, shares[0].tolist(), strict=True))

    def predict_proba_many(self, X: "pd.DataFrame") -> "pd.DataFrame":
        """Predicts the probability of each class.

        Args:
            X: one row per sample.

        Returns:
            One row per sample, with one column per class.
        """
        import pandas as pd

        labels, shares = self._answer(X.to_dict("records"))
        return pd.DataFrame(shares, index=X.index, columns=labels)

    def predict_many(self, X: "pd.DataFrame") -> "pd.Series":
        """Predicts the most probable label of each sample.

        Args:
            X: one row per sample.

        Returns:
            One label per sample.
        """
        import pandas as pd

        labels, shares = self._answer(X.to_dict("records"))
        best = [labels[i] for i in shares.argmax(1)] if labels else [None] * len(X)
        return pd.Series(best, index=X.index)

    def _learn(self, xs: Sequence[Mapping[Hashable, Any]], ys: Sequence[object]) -> None:
        """With an exception, everything stays as it was."""
        batch = whole("batch", self.batch, Range(least=1))
        if len(xs) != len(ys):
            raise BatchError(f"there are {len(xs)} samples but {len(ys)} labels")
        if self.learner is None and not self._waiting:
            self._new_learner()  # so that parameters that cannot be are refused with the first sample
        samples = [as_sample(x) for x in xs]
        self._check_magnitude(samples)
        known = Labels() if self.learner is None else self.learner.labels
        labels = known.check([*(label for _, label in self._waiting), *ys])
        waiting = [*self._waiting, *zip(samples, labels[len(self._waiting) :], strict=True)]

        def learn() -> None:
            while len(waiting) >= batch:
                self._step(waiting[:batch])
                del waiting[:batch]
            self._waiting = waiting

        all_or_nothing(self, self.learner, learn)

    def _check_magnitude(self, samples: list[Sample]) -> None:
        """An outlier does not wait for a step, which it would make fail; nor does one that only now turns out to be."""
        if self.clip_samples is not None:
            return
        waiting = [x for x, _ in self._waiting]
        sizes = [max(map(abs, x.values()), default=0.0) for x in (*waiting, *samples)]
        if (place := outlier(sizes, 0.0 if self.learner is None else self.learner.magnitude)) is not None:
            if place < len(waiting):
                del self._waiting[place]
            raise BatchError(f"a sample has the absolute value {sizes[place]:g}, {TOO_FAR}")

    def _step(self, batch: list[tuple[Sample, Hashable]]) -> None:
        samples, labels = [x for x, _ in batch], [y for _, y in batch]
        self._columns = with_columns_for(samples, self._columns)
        if self.learner is None:
            self.learner = self._new_learner()
        elif len(self._columns) > room(self.learner):
            self.learner = with_room(max(len(self._columns), 2 * room(self.learner)), self.learner)
        self.learner.observe(as_rows(samples, self._columns, room(self.learner)), labels)

    def _new_learner(self) -> PortableLearner:
        return new_learner(
            (max(1, len(self._columns)),),
            method=self.method,
            memory=whole("memory", self.memory),
            lr=self.lr,
            encoder="mlp",
            width=self.width,
            seed=self.seed,
            clip_samples=self.clip_samples,
            progress=self.progress,
            updates=self.updates,
            standardise=self.standardise,
            average=self.average,
        )

    def _answer(self, xs: Sequence[Mapping[Hashable, Any]]) -> tuple[list[Any], NDArray[np.float64]]:
        """The labels met so far, and the probability of each, one row per sample."""
        samples = [as_sample(x) for x in xs]
        waiting = Counter(label for _, label in self._waiting)
        if self.learner is None:
            shares = np.array([count / waiting.total() for count in waiting.values()])
            return list(waiting), np.tile(shares, (len(xs), 1))
        learned = self.learner.classes
        fresh = [label for label in waiting if label not in learned]
        shares = self.learner.probabilities(as_rows(samples, self._columns, room(self.learner)))
        return [*learned, *fresh], np.pad(shares, ((0, 0), (0, len(fresh))))
