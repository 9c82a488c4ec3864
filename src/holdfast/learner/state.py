"""Everything that determines a learner's future, as tensors and plain values, and back."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from holdfast.augment import Augment, crop_and_flip
from holdfast.batch import Task
from holdfast.errors import CheckpointError
from holdfast.learner.labels import decode
from holdfast.learner.soundness import check_learner, check_optimizer, check_values
from holdfast.methods import METHODS, Method
from holdfast.nets import Net, built_in
from holdfast.samples import is_dense

if TYPE_CHECKING:
    from holdfast.learner import Learner

Kind = TypeVar("Kind", bound="Learner")
Values = dict[str, Any]


def pack(learner: Learner) -> tuple[dict[str, Tensor], Values]:
    """The labels are not in it: they may be anything."""
    tensors = _named("net/", learner.net)
    task = learner.task
    if task is not None and task.teacher is not None:
        tensors |= _named("teacher/", task.teacher)
    scalars: dict[str, Any] = {}
    for number, state in _optimizer_states(learner).items():
        for key, value in state.items():
            if isinstance(value, Tensor):
                tensors[f"optimizer/{number}/{key}"] = value
            else:
                scalars[f"{number}/{key}"] = value
    asked, pending = learner.pending.pack()
    tensors |= asked
    tensors |= {f"memory/{name}": torch.from_numpy(array) for name, array in learner.memory.state().items()}
    sample_template = learner.sample_template
    return tensors, {
        "method": {"name": type(learner.method).__name__, "options": asdict(learner.method)},
        "step": learner.step,
        "seed": learner.seed,
        "seen": learner.net.seen,
        "sample": None
        if sample_template is None
        else {"shape": list(sample_template.shape[1:]), "type": str(sample_template.dtype)},
        "task": None if task is None else {"id": task.id, "starts": list(task.starts)},
        "memory": {"kind": type(learner.memory).__name__, **learner.memory.settings},
        "questions": pending,
        "optimizer": {"kind": type(learner.optimizer).__name__, "groups": _groups(learner), "scalars": scalars},
    }


@torch.inference_mode(False)  # what is made in the caller's could not learn
def restored(
    kind: type[Kind],
    tensors: Mapping[str, Tensor],
    values: Values,
    *,
    encoder: nn.Module | None = None,
    method: Method | None = None,
    optimizer: Any = None,
    augment: Augment | None = None,
) -> Kind:
    """The learner whose checkpoint holds these. What is not built in is passed again, and has to fit."""
    check_values(values)
    settings = values["settings"]
    method = _built_in_method(values["method"]) if method is None else method
    if encoder is None:
        encoder = built_in(settings["net"], _under("net/encoder.module.", tensors), settings.get("frozen", ()))
    memory = {key: values["memory"][key] for key in ("capacity", "nbytes")}
    learner = kind(
        encoder,
        method,
        memory=method.memory_class(**memory),
        optimizer=optimizer,
        augment=augment or _built_in_augment(settings["augment"]),
        seed=values["seed"],
        classes=settings["classes"],
        pending=values["questions"]["room"],
    )
    unpack(learner, tensors, values, [decode(label) for label in values["labels"]])
    check_learner(learner)
    return learner


def unpack(learner: Learner, tensors: Mapping[str, Tensor], values: Values, labels: list[Hashable]) -> None:
    """Gives a fresh learner, made with the same settings, the state that was packed."""
    ours = pack(learner)[1]
    for part, what in (("method", "name"), ("method", "options"), ("memory", "kind"), ("optimizer", "kind")):
        here, there = ours[part][what], values[part][what]
        if here != there:
            raise CheckpointError(f"the {part} does not fit the checkpoint: {here} here and {there} there")
    learner.labels.restore(labels)
    learner.step = values["step"]
    if (sample := values["sample"]) is not None:
        learner.sample_template = torch.empty(0, *sample["shape"], dtype=_dtype(sample["type"]))
    _load_net(learner.net, _under("net/", tensors), values["seen"], learner.optimizer)
    _load_optimizer(learner, _under("optimizer/", tensors), values["optimizer"])
    learner.memory.restore({name: tensor.numpy() for name, tensor in _under("memory/", tensors).items()})
    learner.pending.unpack(_under("questions/", tensors), values["questions"])
    if (task := values["task"]) is not None:
        kept = _under("teacher/", tensors)
        teacher = _teacher(learner, kept, task["starts"][-1]) if kept else None
        learner.task = Task(task["id"], tuple(task["starts"]), teacher)


def _teacher(learner: Learner, state: dict[str, Tensor], seen: int) -> Net:
    net = learner.net
    teacher = Net(copy.deepcopy(net.encoder), type(net.head)(learner.seed).to(learner.device))
    _load_net(teacher, state, seen, torch.optim.SGD(teacher.parameters()))
    return teacher.eval().requires_grad_(False)


def _load_net(net: Net, state: dict[str, Tensor], seen: int, optimizer: torch.optim.Optimizer) -> None:
    head = state["head.weight"]
    if head.numel():
        net.head.grow(seen, len(head), head.shape[1], optimizer)
    ours = {name: tuple(t.shape) for name, t in net.state_dict().items()}
    theirs = {name: tuple(t.shape) for name, t in state.items()}
    for name in ours | theirs:
        if ours.get(name) != theirs.get(name):
            raise CheckpointError(
                f"the encoder does not fit the checkpoint: {name} has shape {ours.get(name, 'none')} "
                f"here and {theirs.get(name, 'none')} there"
            )
    net.load_state_dict(state)


def _load_optimizer(learner: Learner, tensors: dict[str, Tensor], values: Values) -> None:
    states: dict[int, dict[str, Any]] = {}
    for name, value in {**tensors, **values["scalars"]}.items():
        number, key = name.split("/")
        states.setdefault(int(number), {})[key] = value
    check_optimizer(learner.optimizer, values["groups"], values["scalars"])
    groups = [{**group, "params": []} for group in values["groups"]]
    count = 0
    for group, live in zip(groups, learner.optimizer.param_groups, strict=True):
        group["params"] = list(range(count, count := count + len(live["params"])))
    learner.optimizer.load_state_dict({"state": states, "param_groups": groups})


def _optimizer_states(learner: Learner) -> dict[int, dict[str, Any]]:
    states: dict[int, dict[str, Any]] = learner.optimizer.state_dict()["state"]
    return states


def _groups(learner: Learner) -> list[Values]:
    groups = learner.optimizer.state_dict()["param_groups"]
    return [{key: value for key, value in group.items() if key != "params"} for group in groups]


def _named(prefix: str, net: Net) -> dict[str, Tensor]:
    state = net.state_dict()
    for name, value in state.items():
        if not isinstance(value, Tensor) or not is_dense(value):
            raise CheckpointError(f"{name} of the encoder cannot be saved: it is not a dense tensor")
    return {f"{prefix}{name}": tensor for name, tensor in state.items()}


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _dtype(name: str) -> torch.dtype:
    return torch.uint8 if name == "torch.uint8" else torch.float32


def _built_in_method(saved: Mapping[str, Any]) -> Method:
    for method in METHODS.values():
        if method.__name__ == saved["name"]:
            return method(**saved["options"])
    raise CheckpointError(f"the method {saved['name']} is not built in: pass it, load(path, method=...)")


def _built_in_augment(name: str | None) -> Augment | None:
    if name is None or name == crop_and_flip.__name__:
        return None if name is None else crop_and_flip
    raise CheckpointError(f"the augmentation {name} is not built in: pass it, load(path, augment=...)")
