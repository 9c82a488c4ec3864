"""Whether what a file says of a learner fits together. Anyone may have written it, with checksums that are right."""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from holdfast.arguments import COUNTED, OWN_LEARNING_RATES, real, whole
from holdfast.errors import CheckpointError
from holdfast.learner.finite import LARGEST as LARGEST_WEIGHT
from holdfast.learner.finite import all_below
from holdfast.learner.labels import FORGOTTEN, Labels
from holdfast.methods import METHODS
from holdfast.nets import ProjectionHead

if TYPE_CHECKING:
    from holdfast.learner import Learner

Values = Mapping[str, Any]
LARGEST = 1e9  # of what an optimizer may be set to
LARGE = 2**20  # numbers in a sample


def check_values(values: Values) -> None:
    """Before anything is made of them."""
    for name in ("step", "seen"):
        whole(name, values[name], COUNTED)
    whole("seed", values["seed"])
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


def check_optimizer(optimizer: Optimizer, said: list[Values], scalars: Values) -> None:
    """`optimizer`: as it was just made, `said`: the groups of the file."""
    groups = optimizer.param_groups
    _refuse(len(groups) != len(said), "the number of groups of its optimizer")
    for group, of_file in zip(groups, said, strict=True):
        _refuse(group.keys() - {"params"} != of_file.keys(), "what its optimizer is set to")
        for name, value in of_file.items():
            _refuse(not _is_alike(group[name], value), f"{name} of its optimizer")
        _refuse(of_file["lr"] not in OWN_LEARNING_RATES, "its learning rate")
        if type(optimizer).__module__.startswith("torch.optim."):  # others may do anything when they are made
            names = inspect.signature(type(optimizer)).parameters
            nothing = [Parameter(torch.empty(1))]
            type(optimizer)(nothing, **{name: value for name, value in of_file.items() if name in names})
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
    if (rows is not None and not max(seen, learner.settings["classes"]) <= rows) or (seen and not head.weight.numel()):
        yield "the rows of its head"
    if (learner.sample_template is None) != (learner.memory.offered == 0 and learner.step == 0):
        yield "the form of its samples"
    for flaw in learner.memory.flaws(seen, learner.sample_template):
        yield f"its memory ({flaw})"
    if not _takes_its_features(learner):
        yield "the width of its head"
    if not _is_kept(learner):
        yield f"what {learner.method} keeps beside its samples"
    if not all(_is_state(learner.optimizer.state, group["params"]) for group in learner.optimizer.param_groups):
        yield "the state of its optimizer"
    floats = [tensor for net in learner.nets for tensor in net.state_dict().values() if tensor.is_floating_point()]
    if not all_below(LARGEST_WEIGHT, [tensor.float() for tensor in floats if tensor.numel()]):
        yield "a weight that is not finite, or too large to compute with"
    if (asked := learner.pending.flaw()) is not None:
        yield f"its open questions ({asked})"
    if learner.tally is not None and (counted := learner.tally.flaw(len(learner.labels))) is not None:
        yield f"the counts of its progress ({counted})"


def _takes_its_features(learner: Learner) -> bool:
    """Whether the head takes what the encoder makes of a sample; of large ones only if they are really held."""
    head, sample_template = learner.net.head, learner.sample_template
    if (
        sample_template is None
        or not head.weight.numel()
        or (math.prod(sample_template.shape[1:]) > LARGE and not len(learner.memory))
    ):
        return True
    sample = torch.zeros((1, *sample_template.shape[1:]), dtype=sample_template.dtype, device=learner.device)
    return learner.net.width(sample) == head.weight.shape[1]


def _is_kept(learner: Learner) -> bool:
    """Whether a built-in method finds beside each sample what it keeps there, and nothing else."""
    name, kept = learner.method.stored_extras, learner.memory.extras
    if not len(learner.memory) or type(learner.method) not in METHODS.values():
        return True
    if kept.keys() != ({name} if name else set()):
        return False
    return all(extra.dtype.kind == "f" and extra.ndim == 2 and np.isfinite(extra).all() for extra in kept.values())


def _is_state(states: Mapping[Tensor, Values], parameters: list[Tensor]) -> bool:
    """Whether an optimizer can go on with what it knows of these: the same of each, in its shape or as one number."""
    known = [(parameter, states[parameter]) for parameter in parameters if states.get(parameter)]
    if any(state.keys() != known[0][1].keys() for _, state in known):
        return False
    for name in known[0][1] if known else ():
        values = [(parameter.shape, state[name]) for parameter, state in known]
        tensors = [(shape, value) for shape, value in values if isinstance(value, Tensor)]
        single = [value for _, value in tensors if not value.ndim]
        if not all(shape == value.shape for shape, value in tensors) and len(single) != len(tensors):
            return False
        counts = [value.item() for value in single] + [v for _, v in values if isinstance(v, int | float)]
        if not all(0 <= count <= LARGEST if name == "step" else abs(count) <= LARGEST for count in counts):
            return False
    return True


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
        raise CheckpointError(f"is not a valid learner file: {what} cannot be right")
