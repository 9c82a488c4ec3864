"""Holdfast as a scikit-learn classifier."""

import math
import numbers
from typing import Any, Self

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets, unique_labels
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError("holdfast.sklearn needs scikit-learn 1.6 or later: pip install 'holdfast[sklearn]'") from error

import numpy as np
from numpy.typing import NDArray
from torch import nn

from holdfast.adapters.portable import PortableLearner, all_or_nothing, new_learner
from holdfast.arguments import Range, whole
from holdfast.errors import InputError
from holdfast.learner.labels import Labels
from holdfast.memory import Memory
from holdfast.methods import Method
from holdfast.nets import as_shape
from holdfast.samples import is_masked
from holdfast.seeds import generator

Array = NDArray[Any]


class OnlineClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Learns from a stream in which new classes may appear at any time: no call needs to know them all.

    Samples are vectors, ideally of similar scale (`standardise=True`), or images of shape (channels, height, width);
    images of type uint8 are scaled to [-1, 1], everything else is taken as it is. Each mini-batch is one step of
    the learner, which is `learner_` and can be saved and used on its own. `classes_` is sorted; a class that was
    announced but has not been seen has probability 0.

    Args:
        method: a name with options as on the command line, "er-ace:head=linear", or a Method
        memory: how many samples are kept for replay, bytes as text ("50MB"), or a `Memory`
        lr: the learning rate
        epochs: how many shuffled passes `fit` makes; `partial_fit` makes one, in order
        batch: how many samples make a step
        encoder: "mlp", "small-cnn", "slim-resnet18", a module of your own (which is copied); None: by the samples
        width: of the built-in encoder's layers, None for its own default
        shape: of one sample, (channels, height, width), when the rows of X are flat
        clip_samples: values beyond it, on either side, are set to it; if None, a sample with a value a hundred times
            as large as all before it is refused; math.inf accepts everything
        progress: above 0, every sample is predicted before it is learned, and `learner_.progress` says how well, over
            all and over that many last ones
        updates: how many gradient steps each mini-batch takes
        standardise: whether columns are scaled to mean 0 and variance 1, by the samples learned so far
        average: above 0, an exponential moving average of the net with this decay answers; None: as the method has it
        random_state: decides all randomness; a number gives the same bits every time

    Examples:
        >>> model = OnlineClassifier()
        >>> model.partial_fit([[0.0, 1.0], [1.0, 0.0]], ["up", "right"]).classes_.tolist()
        ['right', 'up']
        >>> model.partial_fit([[0.0, -1.0]], ["down"]).classes_.tolist()
        ['down', 'right', 'up']
    """

    _announced = False  # whether classes_ holds all labels there will ever be

    def __init__(
        self,
        method: str | Method = "er-ace",
        *,
        memory: int | str | Memory = 1000,
        lr: float = 0.1,
        epochs: int = 10,
        batch: int = 10,
        encoder: str | nn.Module | None = None,
        width: int | None = None,
        shape: tuple[int, ...] | None = None,
        clip_samples: float | None = None,
        progress: int = 0,
        updates: int = 1,
        standardise: bool = False,
        average: float | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.method = method
        self.memory = memory
        self.lr = lr
        self.epochs = epochs
        self.batch = batch
        self.encoder = encoder
        self.width = width
        self.shape = shape
        self.clip_samples = clip_samples
        self.progress = progress
        self.updates = updates
        self.standardise = standardise
        self.average = average
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Starts anew and makes `epochs` shuffled passes. With an exception, everything stays as it was.

        Args:
            X: samples.
            y: one label per sample.

        Returns:
            The classifier.
        """
        epochs, batch = whole("epochs", self.epochs, Range(least=1)), whole("batch", self.batch, Range(least=1))

        def learn() -> None:
            samples, labels = self._check(X, y, reset=True)
            check_classification_targets(labels)
            self.classes_, self._announced = unique_labels(labels), False
            learner = self._new_learner(samples, classes=len(self.classes_))
            for epoch in range(epochs):
                order = generator(learner.seed, "fit", epoch).permutation(len(labels))
                for start in range(0, len(labels), batch):
                    part = order[start : start + batch]
                    learner.observe(samples[part], labels[part])
            self.learner_ = learner

        all_or_nothing(self, None, learn)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Continues learning, in one pass in order. With an exception, everything stays as it was.

        Args:
            X: samples.
            y: one label per sample.
            classes: all labels there will ever be, if known; any other label is then an error.

        Returns:
            The classifier.
        """
        batch = whole("batch", self.batch, Range(least=1))
        first = not hasattr(self, "learner_")

        def learn() -> None:
            samples, labels = self._check(X, y, reset=first)
            self._admit(labels, classes)
            if first:
                self.learner_ = self._new_learner(samples, classes=len(self.classes_) if self._announced else 0)
            for start in range(0, len(labels), batch):
                self.learner_.observe(samples[start : start + batch], labels[start : start + batch])

        all_or_nothing(self, None if first else self.learner_, learn)
        return self

    def predict(self, X: Any) -> Array:
        """Predicts the most probable label of each sample.

        Args:
            X: samples.

        Returns:
            One label per sample.
        """
        best = self.predict_proba(X).argmax(1)
        answers: Array = self.classes_[best]
        return answers

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Predicts the probability of each class.

        Args:
            X: samples.

        Returns:
            One row per sample, with one column for each of `classes_`.
        """
        check_is_fitted(self)
        shares = self.learner_.probabilities(self._check(X, reset=False))
        places = np.searchsorted(self.classes_, np.array(self.learner_.classes))
        columns = np.zeros((len(shares), len(self.classes_)))
        columns[:, places] = shares
        return columns

    def _check(self, X: Any, *y: Any, reset: bool) -> Any:
        if any(is_masked(part) for part in (X, *y)):
            raise InputError("there are masked values; leave their samples out, or impute them")
        images = self.shape is not None or getattr(X, "ndim", 2) > 2
        types = [np.float32, np.uint8] if images else np.float32
        with np.errstate(over="ignore", invalid="ignore"):  # what does not fit becomes infinite and is refused
            checked = validate_data(self, X, *y, reset=reset, dtype=types, allow_nd=True)
        if not y:
            return self._shaped(checked)
        Labels().check(checked[1])
        return self._shaped(checked[0]), checked[1]

    def _shaped(self, X: Array) -> Array:
        if self.shape is None or X.shape[1:] == (shape := as_shape(self.shape)):
            return X
        if X.shape[1:] != (math.prod(shape),):
            raise InputError(f"X has samples of shape {X.shape[1:]}, which does not fit shape={shape}")
        return X.reshape(len(X), *shape)

    def _admit(self, y: Array, classes: Any) -> None:
        """Adds the labels in `y` to `classes_`, unless all were announced: then there must be no other."""
        known = getattr(self, "classes_", y[:0])
        if classes is None and set(y.tolist()) <= set(known.tolist()):
            return
        check_classification_targets(y)
        seen = unique_labels(known, y) if len(known) else unique_labels(y)
        if classes is None and not self._announced:
            self.classes_ = seen
            return
        announced = self.classes_ if classes is None else unique_labels(classes)
        if self._announced and not np.array_equal(announced, self.classes_):
            raise InputError(f"classes={classes} are not those announced before, {self.classes_}")
        if len(unique_labels(announced, seen)) > len(announced):
            raise InputError(f"the labels {np.setdiff1d(seen, announced)} are not in classes={announced}")
        self.classes_, self._announced = announced, True

    def _new_learner(self, X: Array, classes: int) -> PortableLearner:
        given = self.random_state
        seed = given if isinstance(given, numbers.Integral) else check_random_state(given).randint(2**31 - 1)
        return new_learner(
            X.shape[1:],
            method=self.method,
            memory=self.memory,
            lr=self.lr,
            encoder=self.encoder,
            width=self.width,
            seed=int(seed),
            classes=classes,
            clip_samples=self.clip_samples,
            progress=self.progress,
            updates=self.updates,
            standardise=self.standardise,
            average=self.average,
        )
