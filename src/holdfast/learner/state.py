"""Everything that determines a learner's future, as tensors and plain values, and back."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.arguments import UPDATES, whole
from holdfast.augment import BUILT_IN, Augment
from holdfast.batch import Task
from holdfast.errors import CheckpointError, InputError
from holdfast.learner import calibration
from holdfast.learner.labels import decode, encode
from holdfast.learner.progress import Tally
from holdfast.learner.soundness import check_learner, check_optimizer, check_values
from holdfast.memory import codecs
from holdfast.memory.codecs import Codec
from holdfast.methods import METHODS, Method
from holdfast.methods.options import read, written
from holdfast.modes import in_inference
from holdfast.nets import Net, PretrainedEncoder, built_in, mlp, reliable_recipe
from holdfast.nets.pretrained import found, is_frozen
from holdfast.nets.structure import check_structure, frozen, structure
from holdfast.samples import is_dense
from holdfast.storage import checkpoint

if TYPE_CHECKING:
    from holdfast.learner import Learner
    from holdfast.learner.base import BaseLearner

Kind = TypeVar("Kind", bound="Learner")
Values = dict[str, Any]
USUAL = {"updates": 1, "standardise": False}  # of all learners before there was a choice: files do not say it


def pack(learner: BaseLearner) -> tuple[dict[str, Tensor], Values]:
    """The labels are not in it: they may be anything."""
    tensors = _named("net/", learner.net)
    task = learner.task
    if task is not None and task.teacher is not None:
        tensors |= _named("teacher/", task.teacher)
    more: Values = {}
    if learner.average is not None:
        tensors |= _apart("average/", learner.average.net, learner.net)
        more["average"] = {"decay": learner.average.decay, "born": learner.average.born.tolist()}
    if learner.tally is not None:
        counted, more["progress"] = learner.tally.pack()
        tensors |= counted
    if learner.calibration is not None:
        more["calibration"] = learner.calibration.pack()
    if len(learner.keys):
        more["keys"] = learner.keys.pack()
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
    usual = {"magnitude": learner.magnitude} if learner.magnitude else {}  # files of before have none
    return tensors, {
        **usual,
        "method": {"name": type(learner.method).__name__, "options": written(learner.method)},
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
        **more,
    }


def serialized(learner: BaseLearner, more: Mapping[str, Any]) -> bytes:
    """As a file holds it, with `more` in its manifest."""
    encoder, augment = learner.net.encoder.module, learner.training.augment
    settings = {
        "net": reliable_recipe(encoder),
        **_reference(learner.frozen_encoder or encoder),
        "structure": structure(encoder),
        "frozen": frozen(encoder),
        "classes": learner.settings["classes"],
        "clip_samples": learner.clip_samples,
        **{name: now for name, usual in USUAL.items() if (now := learner.settings[name]) != usual},
        "augment": None if augment is None else getattr(augment, "__name__", type(augment).__name__),
    }
    tensors, values = pack(learner)
    labels = [encode(label) for label in learner.labels]
    return checkpoint.pack(tensors, {**values, "labels": labels, "settings": settings, **more})


def _reference(encoder: nn.Module) -> dict[str, Any]:
    """By which a pretrained encoder is known again."""
    return {"pretrained": encoder.reference} if isinstance(encoder, PretrainedEncoder) else {}


@in_inference(False)  # what is made in the caller's could not learn
def restored(
    kind: type[Kind],
    tensors: Mapping[str, Tensor],
    values: Values,
    *,
    encoder: nn.Module | None = None,
    method: Method | None = None,
    optimizer: Any = None,
    augment: Augment | None = None,
    codec: Codec | None = None,
) -> Kind:
    """The learner whose checkpoint holds these. What is not built in is passed again, and has to fit."""
    check_values(values)
    settings = values["settings"]
    method = _built_in_method(values["method"]) if method is None else method
    if (reference := settings.get("pretrained")) is not None:
        encoder = found(reference, encoder)
    if encoder is None:
        encoder = built_in(settings["net"], _under("net/encoder.module.", tensors), settings.get("frozen", ()))
    elif (there := settings.get("structure")) is not None and not is_frozen(encoder):
        check_structure(encoder, there, settings["frozen"])
    memory = {key: values["memory"][key] for key in ("capacity", "nbytes")}
    memory["codec"] = codec or _built_in_codec(values["memory"].get("codec"))
    memory["or_raw"] = bool(values["memory"].get("or_raw", False))
    learner = kind(
        encoder,
        method,
        memory=method.memory_class(**memory),
        optimizer=optimizer,
        augment=augment or _built_in_augment(settings["augment"]),
        seed=values["seed"],
        classes=settings["classes"],
        pending=values["questions"]["room"],
        average=values["average"]["decay"] if "average" in values else 0.0,
        clip_samples=settings.get("clip_samples"),
        progress=values["progress"]["window"] if "progress" in values else 0,
        updates=whole("updates", settings.get("updates", 1), UPDATES),
        standardise=bool(settings.get("standardise", False)),
    )
    unpack(learner, tensors, values, [decode(label) for label in values["labels"]])
    check_learner(learner)
    return learner


def unpack(learner: BaseLearner, tensors: Mapping[str, Tensor], values: Values, labels: list[Hashable]) -> None:
    """Gives a fresh learner, made with the same settings, the state that was packed."""
    ours = pack(learner)[1]
    fits = ("method", "name"), ("method", "options"), ("memory", "kind"), ("memory", "codec"), ("optimizer", "kind")
    for of, what in fits:
        here, there = ours[of].get(what), values[of].get(what)
        if what == "options":
            here, there = (read(type(learner.method), options) for options in (here, there))
        if here != there:
            until = ", which holds until learner.change(method=...)" if what == "options" else ""
            raise CheckpointError(f"the {of} does not fit the checkpoint: {here} here and {there} there{until}")
    if (learner.average is None) != ("average" not in values):
        raise CheckpointError("average does not fit the checkpoint: the answers of only one of the two are averaged")
    learner.labels.restore(labels)
    learner.versions.step = values["step"]
    if "progress" in values:
        learner.tally = Tally.unpack(part("progress", tensors), values["progress"])
    learner.calibration = calibration.unpack(values["calibration"]) if "calibration" in values else None
    learner.keys.unpack(values.get("keys", []))
    learner.magnitude = values.get("magnitude", 0.0)
    if (sample := values["sample"]) is not None:
        learner.sample_template = torch.empty(0, *sample["shape"], dtype=_dtype(sample["type"]))
    _load_net(learner.net, part("net", tensors), values["seen"], learner.optimizer)
    if (average := learner.average) is not None:
        _load_net(average.net, part("net", tensors) | part("average", tensors), values["seen"])
        average.born = torch.tensor(values["average"]["born"], dtype=torch.int64)
    _load_optimizer(learner, part("optimizer", tensors), values["optimizer"])
    learner.memory.restore({name: tensor.numpy() for name, tensor in part("memory", tensors).items()})
    learner.pending.unpack(part("questions", tensors), values["questions"])
    if (task := values["task"]) is not None:
        kept = part("teacher", tensors)
        teacher = _teacher(learner, kept, task["starts"][-1]) if kept else None
        learner.task = Task(task["id"], tuple(task["starts"]), teacher)


def _teacher(learner: BaseLearner, state: dict[str, Tensor], seen: int) -> Net:
    net = learner.net
    teacher = Net(copy.deepcopy(net.encoder), type(net.head)(learner.seed).to(learner.device))
    _load_net(teacher, state, seen)
    return teacher.eval().requires_grad_(False)


def _load_net(net: Net, state: dict[str, Tensor], seen: int, optimizer: torch.optim.Optimizer | None = None) -> None:
    head = state["head.weight"]
    if head.numel():
        net.head.check(state)
        net.head.grow(seen, len(head), head.shape[1], optimizer)
    if (standardise := net.encoder.standardise) is not None and (
        mean := state.get("encoder.standardise.mean")
    ) is not None:
        standardise.resize(mean.numel())
    unsaved = _unsaved_buffers(net)
    state = {name: tensor for name, tensor in unsaved.items() if name not in state} | state  # files of before
    ours, theirs = net.state_dict() | unsaved, state
    for name in ours | theirs:
        if (here := _form(ours.get(name))) != (there := _form(theirs.get(name))):
            raise CheckpointError(f"the encoder does not fit the checkpoint: {name} has {here} here and {there} there")
    net.load_state_dict({name: tensor for name, tensor in state.items() if name not in unsaved})
    for name, buffer in unsaved.items():
        if not torch.equal(buffer, state[name].to(buffer.device)):
            buffer.copy_(state[name])


def _form(tensor: Tensor | None) -> str:
    return "no shape" if tensor is None else f"shape {tuple(tensor.shape)} and type {tensor.dtype}"


def _unsaved_buffers(net: Net) -> dict[str, Tensor]:
    """Those that torch leaves out of a state_dict."""
    saved = net.state_dict().keys()
    return {name: tensor for name, tensor in net.named_buffers(remove_duplicate=False) if name not in saved}


def _load_optimizer(learner: BaseLearner, tensors: dict[str, Tensor], values: Values) -> None:
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


def _optimizer_states(learner: BaseLearner) -> dict[int, dict[str, Any]]:
    states: dict[int, dict[str, Any]] = learner.optimizer.state_dict()["state"]
    return states


def _groups(learner: BaseLearner) -> list[Values]:
    groups = learner.optimizer.state_dict()["param_groups"]
    return [{key: value for key, value in group.items() if key != "params"} for group in groups]


def _named(prefix: str, net: Net) -> dict[str, Tensor]:
    state = net.state_dict() | _unsaved_buffers(net)
    for name, value in state.items():
        if not isinstance(value, Tensor) or not is_dense(value):
            raise CheckpointError(f"{name} of the encoder cannot be saved: it is not a dense tensor")
    return {f"{prefix}{name}": tensor for name, tensor in state.items()}


def _apart(prefix: str, net: Net, other: Net) -> dict[str, Tensor]:
    """Without what both share."""
    theirs = _named(prefix, other)
    return {
        name: tensor for name, tensor in _named(prefix, net).items() if tensor.data_ptr() != theirs[name].data_ptr()
    }


def part(name: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Of what was packed: `net`, `memory`, `optimizer`, ..., by names of their own."""
    return _under(f"{name}/", tensors)


def widened(tensors: dict[str, Tensor], values: Values, columns: int) -> tuple[dict[str, Tensor], Values]:
    """What was packed of a learner with the built-in mlp, for samples with more columns.

    Where these are 0, it answers as before.
    """
    net = values["settings"]["net"]
    there = net["shape"][0]
    net, sample = {**net, "shape": [columns]}, {**values["sample"], "shape": [columns]}
    first_layer = mlp((columns,), seed=net["seed"], width=net["width"]).get_parameter("1.weight").detach()
    nets = {name: x for name, x in tensors.items() if name.endswith("/encoder.module.1.weight")}  # the average, too
    weights = {name: torch.cat([x, first_layer[:, there:]], 1) for name, x in nets.items()}
    by_column = "memory/column/x", "net/encoder.standardise.mean", "net/encoder.standardise.variance"
    held = {name: F.pad(tensors[name], (0, columns - there)) for name in by_column if name in tensors}
    settings = {**values["settings"], "net": net}
    return (
        tensors | held | weights,
        {**values, "settings": settings, "sample": sample},
    )


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _dtype(name: str) -> torch.dtype:
    return torch.uint8 if name == "torch.uint8" else torch.float32


def at_checkpoint(method: Method | None, values: Values) -> Method | None:
    """With the options of the checkpoint, which a log may change."""
    saved, kind = values["method"], cast(Any, type(method))
    if method is None or kind.__name__ != saved["name"]:
        return method
    options = read(kind, saved["options"])
    same = options.keys() == {each.name for each in fields(kind)}
    return cast("Method", kind(**options)) if same else method


def _built_in_method(saved: Mapping[str, Any]) -> Method:
    for method in METHODS.values():
        if method.__name__ == saved["name"]:
            return method(**read(method, saved["options"]))
    raise CheckpointError(f"the method {saved['name']} is not built in: pass it, method=...")


def _built_in_codec(name: str | None) -> Codec | None:
    try:
        return codecs.find(name)
    except InputError as error:
        raise CheckpointError(f"the codec {name} is not built in: pass it again ({error})") from None


def _built_in_augment(name: str | None) -> Augment | None:
    if name is None or name in BUILT_IN:
        return None if name is None else BUILT_IN[name]
    raise CheckpointError(f"the augmentation {name} is not built in: pass it, augment=...")
