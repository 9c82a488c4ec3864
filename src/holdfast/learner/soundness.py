"""Whether what a file says of a learner fits together. Anyone may have written it, with checksums that are right."""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from holdfast.arguments import LEARNING_RATES, real, whole
from holdfast.errors import CheckpointError
from holdfast.learner.labels import FORGOTTEN, Labels
from holdfast.nets import ProjectionHead

if TYPE_CHECKING:
    from holdfast.learner import Learner

Values = Mapping[str, Any]
LARGEST = 1e9  # of what an optimizer may be set to


def check_values(values: Values) -> None:
    """Before anything is made of them."""
    for name in ("step", "seed", "seen"):
        whole(name, values[name])
    _refuse(real("magnitude", values.get("magnitude", 0.0)) < 0, "the magnitude of its samples")
    if (sample := values["sample"]) is not None:
        _refuse(sample["type"] not in ("torch.uint8", "torch.float32"), "the type of its samples")
        _refuse(not sample["shape"] or any(whole("shape", size) < 1 for size in sample["shape"]), "their shape")
    if (average := values.get("average")) is not None:
        born = [whole("born", step) for step in average["born"]]
        _refuse(len(born) != values["seen"] or max(born, default=0) > values["step"], "what its average is of")
    if (task := values["task"]) is not None:
        starts = [whole("starts", start) for start in (*task["starts"], values["seen"])]
        _refuse(len(starts) < 2 or starts != sorted(starts), "where its tasks start")
        whole("task", task["id"])


def check_optimizer(groups: list[dict[str, Any]], said: list[Values], scalars: Values) -> None:
    """`groups`: those of an optimizer just made, `said`: those of the file."""
    _refuse(len(groups) != len(said), "the number of groups of its optimizer")
    for group, of_file in zip(groups, said, strict=True):
        _refuse(group.keys() - {"params"} != of_file.keys(), "what its optimizer is set to")
        for name, value in of_file.items():
            _refuse(not _is_alike(group[name], value), f"{name} of its optimizer")
        _refuse(of_file["lr"] not in LEARNING_RATES, "its learning rate")
    _refuse(not all(isinstance(value, numbers.Real) for value in scalars.values()), "the state of its optimizer")


def check_learner(learner: Learner) -> None:
    """When all is in its place."""
    for what in _flaws(learner):
        _refuse(True, what)


def _flaws(learner: Learner) -> Iterator[str]:
    labels = [label for label in learner.labels if label is not FORGOTTEN]
    Labels().check(labels)
    head, seen = learner.net.head, learner.net.seen
    rows = len(head.weight) if head.weight.numel() and not isinstance(head, ProjectionHead) else None
    if len(set(labels)) != len(labels) or seen != len(learner.labels):
        yield "its labels"
    if (rows is not None and not seen <= rows) or (seen and not head.weight.numel()):
        yield "the rows of its head"
    if (learner.sample_template is None) != (learner.memory.offered == 0 and learner.step == 0):
        yield "the form of its samples"
    for flaw in learner.memory.flaws(seen, learner.sample_template):
        yield f"its memory ({flaw})"
    for parameter, state in learner.optimizer.state.items():
        tensors = [value for value in state.values() if isinstance(value, Tensor)]
        if any(value.shape != parameter.shape and value.numel() != 1 for value in tensors):
            yield "the state of its optimizer"
    floats = [tensor for net in learner.nets for tensor in net.state_dict().values() if tensor.is_floating_point()]
    if not all(bool(tensor.float().isfinite().all()) for tensor in floats):
        yield "a weight that is not finite"
    if (asked := learner.pending.flaw()) is not None:
        yield f"its open questions ({asked})"


def _is_alike(here: Any, there: Any) -> bool:
    if here is None or isinstance(here, bool):
        return there is None or isinstance(there, bool)
    if isinstance(here, numbers.Real):
        return type(there) in (int, float) and abs(there) <= LARGEST
    if isinstance(here, tuple | list):
        return len(here) == len(there) and all(map(_is_alike, here, there))
    return type(here) is type(there)


def _refuse(wrong: bool, what: str) -> None:
    if wrong:
        raise CheckpointError(f"is not the file of a learner that could be: {what} cannot be right")
