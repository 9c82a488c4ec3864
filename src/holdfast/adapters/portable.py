"""What the adapters for other libraries share: a learner made of plain parameters that travels as its checkpoint."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from holdfast import methods
from holdfast.errors import InputError, UnknownName
from holdfast.learner import Learner
from holdfast.learner.state import restored
from holdfast.memory import Memory
from holdfast.memory.class_index import Journal
from holdfast.memory.codecs import Codec
from holdfast.methods import Method
from holdfast.nets import NETS, default_net, reliable_recipe
from holdfast.storage import checkpoint

MANY_ROWS = 8  # matrix products of fewer rows may add up in another order


class PortableLearner(Learner):
    """Pickled, it is its checkpoint. Only an encoder that is not built in goes along as it is."""

    def probabilities(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """As `predict_proba`, but rows sum to 1 in double precision, and vectors do not depend on their neighbours."""
        rows = len(x)
        if x.ndim == 2 and rows < MANY_ROWS:
            x = np.pad(x, ((0, MANY_ROWS - rows), (0, 0)))
        shares: NDArray[np.float64] = self.predict_proba(x)[:rows].astype(np.float64)
        shares /= shares.sum(1, keepdims=True)
        return shares

    def all_or_nothing(self, work: Callable[[Journal], None]) -> None:
        """The steps taken inside happen all or, with an exception, none."""
        self._together(work)

    def __reduce__(self) -> tuple[Callable[..., "PortableLearner"], tuple[Any, ...]]:
        encoder = self.net.encoder.module
        own = None if reliable_recipe(encoder) else encoder
        return from_bytes, (self.serialized(), self.method, own, self.memory.codec)


def from_bytes(
    content: bytes, method: Method, encoder: nn.Module | None = None, codec: Codec | None = None
) -> PortableLearner:
    return restored(PortableLearner, *checkpoint.unpack(content), method=method, encoder=encoder, codec=codec)


def new_learner(
    shape: tuple[int, ...],
    *,
    method: str | Method,
    memory: int | str | Memory,
    lr: float,
    encoder: str | nn.Module | None = None,
    width: int | None = None,
    seed: int = 0,
    classes: int = 0,
    clip_samples: float | None = None,
    progress: int = 0,
    updates: int = 1,
    standardise: bool = False,
    average: float | None = None,
) -> PortableLearner:
    """A learner for samples of this shape. An encoder or a memory is copied: the caller's stays as it is."""
    if not isinstance(method, str | Method):
        raise InputError(f"method must be a name such as 'er-ace' or a Method such as ERACE(), not {method!r}")
    chosen = method if isinstance(method, Method) else methods.make(*methods.parse(method))
    if chosen.needs_task_ids:
        raise InputError(f"{method} needs task ids, which only holdfast.Learner can be told: observe(x, y, task=...)")
    if chosen.iid_batches:
        raise InputError(f"{method} wants the whole stream shuffled, which only `holdfast run` does; try 'fine-tuning'")
    return PortableLearner(
        _encoder(encoder, shape, width, seed),
        chosen,
        memory=copy.deepcopy(memory),
        lr=lr,
        seed=seed,
        classes=classes if chosen.needs_unseen_classes else 0,
        clip_samples=clip_samples,
        progress=progress,
        updates=updates,
        standardise=standardise,
        average=average,
    )


def all_or_nothing(estimator: object, learner: PortableLearner | None, work: Callable[[], None]) -> None:
    """An exception inside leaves the estimator with the attributes it had, and the learner as it was."""
    put_back = partial(_put_back, vars(estimator), vars(estimator).copy())

    def both(journal: Journal) -> None:
        journal.on_undo(put_back)
        work()

    if learner is not None:
        learner.all_or_nothing(both)
        return
    try:
        work()
    except BaseException:
        put_back()
        raise


def _put_back(attributes: dict[str, Any], before: dict[str, Any]) -> None:
    attributes.update(before)
    for name in attributes.keys() - before.keys():
        del attributes[name]


def _encoder(encoder: str | nn.Module | None, shape: tuple[int, ...], width: int | None, seed: int) -> nn.Module:
    if isinstance(encoder, nn.Module):
        if width is not None:
            raise InputError("width is for the built-in encoders; this one has its own")
        return copy.deepcopy(encoder)
    name = default_net(shape) if encoder is None else encoder
    if name not in NETS:
        raise UnknownName("encoder", str(name), NETS)
    return NETS[name](shape, seed=seed, **({} if width is None else {"width": width}))
