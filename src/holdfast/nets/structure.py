"""How a module is built, beside its weights: what two have to share so that the same weights give the same answers."""

import inspect
from collections.abc import Iterator
from typing import Any

from torch import nn

from holdfast.errors import CheckpointError

Structure = dict[str, Any]
HOOKS = "_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"


def structure(module: nn.Module) -> Structure:
    """Of each part its type, what it is set to and its hooks; and which weights are one and the same."""
    parts = {name: _described(part) for name, part in module.named_modules(remove_duplicate=False)}
    names: dict[int, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return {"parts": parts, "tied": [tied for tied in names.values() if len(tied) > 1]}


def fingerprint(module: nn.Module) -> str:
    """Of its structure and of the shapes of all its tensors."""
    tensors = (*module.named_parameters(), *module.named_buffers())
    types = [f"{type(part).__module__}.{type(part).__qualname__}" for part in module.modules()]
    own = [name for part in module.modules() for name, value in vars(part).items() if inspect.isroutine(value)]
    hooked = [name for name, parameter in module.named_parameters() if parameter._post_accumulate_grad_hooks]
    return repr((structure(module), types, own, hooked, {name: tuple(tensor.shape) for name, tensor in tensors}))


def frozen(module: nn.Module) -> list[str]:
    return [name for name, parameter in module.named_parameters() if not parameter.requires_grad]


def check_structure(module: nn.Module, there: Structure, frozen_there: list[str]) -> None:
    """A CheckpointError if it is built otherwise than the one that was saved."""
    for difference in _differences(structure(module), there):
        raise CheckpointError(f"the encoder does not fit the checkpoint: {difference}")
    if odd := sorted(set(frozen(module)) ^ set(frozen_there)):
        places = ("there", "here") if odd[0] in frozen_there else ("here", "there")
        raise CheckpointError(
            f"the encoder does not fit the checkpoint: {odd[0]} is frozen {places[0]} and not {places[1]}"
        )


def changed(before: Structure, after: Structure) -> list[str]:
    """The settings of the same module that are not what they were."""
    return [
        f"{name}.{key}".removeprefix(".")
        for name, settings in before["parts"].items()
        for key in settings
        if after["parts"].get(name, {}).get(key) != settings[key]
    ]


def _differences(here: Structure, there: Structure) -> Iterator[str]:
    for name in here["parts"] | there["parts"]:
        ours, theirs = here["parts"].get(name), there["parts"].get(name)
        what = f"its part {name}" if name else "it"
        if ours is None or theirs is None:
            yield f"{what} is only {'there' if ours is None else 'here'}"
        elif ours["type"] != theirs["type"]:
            yield f"{what} is of type {ours['type']} here and {theirs['type']} there"
        else:  # another version of torch may know settings that this one does not
            for key in sorted(ours.keys() & theirs.keys()):
                if ours[key] != theirs[key]:
                    yield f"{what} has {key}={ours[key]} here and {key}={theirs[key]} there"
    if here["tied"] != there["tied"]:
        yield f"the weights that are tied are {here['tied']} here and {there['tied']} there"


def _described(part: nn.Module) -> dict[str, str]:
    settings = {name: text for name, value in vars(part).items() if (text := _text(value)) and name[0] != "_"}
    settings.pop("training", None)  # the learner sees to that
    hooks = [hook for kind in HOOKS for hook in getattr(part, kind, {}).values()]
    hooks += [hook for weight in part.parameters(recurse=False) for hook in (weight._backward_hooks or {}).values()]
    names = [getattr(hook, "__name__", type(hook).__name__) for hook in hooks]
    return {"forward": "", **settings, "type": type(part).__name__, "hooks": repr(names)}


def _text(value: object) -> str | None:
    """Of a setting: a plain value or a function. Anything else may change while it learns."""
    if inspect.isroutine(value):
        return str(getattr(value, "__name__", value))
    if isinstance(value, tuple):
        return repr(value) if all(_text(each) for each in value) else None
    return repr(value) if value is None or isinstance(value, bool | int | float | str) else None
