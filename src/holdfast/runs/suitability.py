"""Whether a net suits the samples of a stream and their number."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from holdfast.nets import default_net
from holdfast.nets.named import is_pretrained, parse
from holdfast.streams import Source
from holdfast.streams.named import TASKS

if TYPE_CHECKING:
    from holdfast.runs.plan import Plan

FEW_UPDATES = 1000  # for a ResNet from scratch
VERY_FEW_STEPS = 200  # for any net from scratch
MOST_UPDATES = 10  # on each batch, without being asked
UNLIKE = 100  # times as wide is one column as most others, or all of them as what nets are made for
LARGE, SMALL = "slim-resnet18", "small-cnn"


def usual_net(source: Source) -> str:
    """The net where none is chosen. A long stream can train a larger one; on datasets that have a name, their size
    alone decides, so that runs on parts of them can be compared."""
    net = default_net(source.dataset.sample_shape)
    return SMALL if net == LARGE and _is_short_of_its_own(source) else net


def usual_updates(source: Source, net: str) -> int:
    """Gradient steps on each batch where their number is not chosen: more from a short stream, but one on datasets
    that have a name, and one through an encoder that learns, where they would take long."""
    if not _is_short_of_its_own(source) or (is_pretrained(net) and parse(net).frozen is not True):
        return 1
    return steps_enough(source.batches)


def steps_enough(batches: int) -> int:
    """On each batch, so that they are not few altogether."""
    return min(MOST_UPDATES, -(-FEW_UPDATES // max(1, batches)))


def warnings_of(plans: Iterable[Plan]) -> list[str]:
    """Why runs may learn less than they could."""
    alike = {_what_counts(p): p for p in plans}
    return list(dict.fromkeys(line for plan in alike.values() for line in _warnings(plan)))


def _what_counts(plan: Plan) -> Hashable:
    spec = plan.spec
    return spec.stream, plan.net, spec.net, spec.standardise, spec.updates_per_batch, plan.method.learns_by_gradient


def _warnings(plan: Plan) -> Iterator[str]:
    spec, source, method, net = plan.spec, plan.source, plan.method, plan.net
    if not method.learns_by_gradient:
        return
    if net == LARGE and _is_short(source):
        yield (
            f"{spec.stream}: {source.batches} updates are few for {net} from scratch; "
            f"--net {SMALL} needs fewer, a pretrained encoder (--net timm:resnet18) fewer still"
        )
    if spec.net is None and net == SMALL and default_net(source.dataset.sample_shape) == LARGE:
        yield f"{spec.stream}: --net {SMALL}, because {source.batches} updates are few for {LARGE}"
    steps = source.batches * spec.updates_per_batch
    if 1 < spec.updates_per_batch == plan.usual["updates_per_batch"]:
        yield f"{spec.stream}: --updates {spec.updates_per_batch} on each batch, because {source.batches} are few"
    elif steps < VERY_FEW_STEPS and spec.updates_per_batch < MOST_UPDATES and not is_pretrained(net):
        yield f"{spec.stream}: {steps} gradient steps are few; --updates {MOST_UPDATES} takes as many on each batch"
    if not spec.standardise and is_unscaled(source.dataset.train_x):
        yield f"{spec.stream}: some columns are more than {UNLIKE} times as wide as others; --standardise scales them"


def is_unscaled(x: NDArray[np.generic]) -> bool:
    """Whether columns are so unlike, or so wide, that a net could not learn from them."""
    if x.dtype == np.uint8 or x.ndim != 2 or not len(x):
        return False
    spread = x.std(0, dtype=np.float64)
    varying = spread[spread > 0]
    return bool(len(varying) and varying.max() > UNLIKE * min(1.0, float(np.median(varying))))


def _is_short_of_its_own(source: Source) -> bool:
    return source.dataset.name not in TASKS and _is_short(source)


def _is_short(source: Source) -> bool:
    return source.batches < FEW_UPDATES
