"""The built-in encoders, and how a saved one is made again."""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.arguments import Range, whole
from holdfast.errors import CheckpointError, InputError
from holdfast.nets.structure import fingerprint
from holdfast.seeds import torch_seeded


class Block(nn.Module):
    def __init__(self, width_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or width_in != width:
            self.shortcut = nn.Sequential(nn.Conv2d(width_in, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + self.shortcut(x))


def slim_resnet18(shape: tuple[int, ...] = (3, 32, 32), seed: int = 0, width: int = 20) -> nn.Sequential:
    """The reduced ResNet-18 of the paper: 160 features at 32×32, 640 at 84×84.

    Args:
        shape: of one sample.
        seed: decides the first weights.
        width: channels of the first stage.

    Returns:
        A module from samples to features.

    Raises:
        InputError: if samples of this shape are not images of at least 32×32.
    """
    shape, seed, width = _plain(shape, seed, width)
    if len(shape) != 3 or min(shape[1:]) < 32:
        raise InputError(
            f"slim_resnet18 takes images of 32×32 or more, not samples of shape {shape}{_channels_first(shape)}"
        )
    widths = [width, width, 2 * width, 4 * width, 8 * width]
    with torch_seeded(seed, "net"):
        stages = [
            nn.Sequential(Block(widths[i], widths[i + 1], 1 if i == 0 else 2), Block(widths[i + 1], widths[i + 1], 1))
            for i in range(4)
        ]
        stem = nn.Conv2d(shape[0], width, 3, padding=1, bias=False)
        net = nn.Sequential(stem, nn.BatchNorm2d(width), nn.ReLU(), *stages, nn.AvgPool2d(4), nn.Flatten())
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return _with_recipe(net, "slim-resnet18", shape, seed, width)


def small_cnn(shape: tuple[int, ...] = (1, 28, 28), seed: int = 0, width: int = 32) -> nn.Sequential:
    """Three convolutions for small images: 1024 features at 28×28.

    Args:
        shape: of one sample.
        seed: decides the first weights.
        width: channels of the first convolution.

    Returns:
        A module from samples to features.

    Raises:
        InputError: if samples of this shape are not images of at least 8×8.
    """
    shape, seed, width = _plain(shape, seed, width)
    if len(shape) != 3 or min(shape[1:]) < 8:
        raise InputError(f"small_cnn takes images of 8×8 or more, not samples of shape {shape}{_channels_first(shape)}")
    with torch_seeded(seed, "net"):
        layers: list[nn.Module] = []
        for width_in, width_out in ((shape[0], width), (width, 2 * width), (2 * width, 2 * width)):
            conv = nn.Conv2d(width_in, width_out, 3, stride=2, padding=1, bias=False)
            layers += [conv, nn.BatchNorm2d(width_out), nn.ReLU()]
        net = nn.Sequential(*layers, nn.Flatten())
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return _with_recipe(net, "small-cnn", shape, seed, width)


def mlp(shape: tuple[int, ...], seed: int = 0, width: int = 128) -> nn.Sequential:
    """An MLP with two hidden layers, for vectors; anything else is flattened.

    Args:
        shape: of one sample.
        seed: decides the first weights.
        width: of the hidden layers.

    Returns:
        A module from samples to features.
    """
    shape, seed, width = _plain(shape, seed, width)
    with torch_seeded(seed, "net"):
        net = nn.Sequential(
            nn.Flatten(), nn.Linear(math.prod(shape), width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        )
    return _with_recipe(net, "mlp", shape, seed, width)


class Frozen(nn.Module):
    """An encoder that stays as it is, without gradient, statistics or dropout: only the head on top of it learns.

    Args:
        module: the encoder.

    Raises:
        InputError: if it is not a module.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        if not isinstance(module, nn.Module):
            raise InputError(f"Frozen takes an nn.Module, not {type(module).__name__}")
        self.module = module.requires_grad_(False).eval()

    def train(self, mode: bool = True) -> "Frozen":
        return self

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.module(x)
        return features


NETS: dict[str, Callable[..., nn.Module]] = {
    "slim-resnet18": slim_resnet18,
    "small-cnn": small_cnn,
    "mlp": mlp,
}


Recipe = dict[str, Any]


def as_shape(shape: object) -> tuple[int, ...]:
    """Of one sample, as plain Python."""
    if isinstance(shape, str) or not isinstance(shape, Iterable):
        raise InputError(f"shape must be that of one sample, as in (8,) or (3, 32, 32), not {shape!r}")
    return tuple(whole("every number in shape", size, Range(least=1)) for size in shape)


def _channels_first(shape: tuple[int, ...]) -> str:
    """What would be the shape of an image, if this is another way to write one."""
    if len(shape) == 2:
        return f"; grey images are {(1, *shape)}"
    if len(shape) == 3 and shape[2] in (1, 3) and shape[0] > 3:
        return f"; channels come first: {(shape[2], *shape[:2])}"
    return ""


def _plain(shape: object, seed: object, width: object) -> tuple[tuple[int, ...], int, int]:
    return as_shape(shape), whole("seed", seed), whole("width", width, Range(least=1))


def _with_recipe(net: nn.Sequential, name: str, shape: tuple[int, ...], seed: int, width: int) -> nn.Sequential:
    net.recipe = {"name": name, "shape": list(shape), "seed": seed, "width": width}  # type: ignore[assignment]
    net._as_made = fingerprint(net)  # type: ignore[assignment]
    return net


def recipe(encoder: nn.Module) -> Recipe | None:
    """How a built-in net was made; None for others."""
    return getattr(encoder, "recipe", None)


def reliable_recipe(encoder: nn.Module) -> Recipe | None:
    """How a built-in net is made again; None for others, and where anything but values was changed since it was made.

    Which weights are frozen, and the precision of all of them, is known from elsewhere.
    """
    if recipe(encoder) is None or getattr(encoder, "_as_made", None) != fingerprint(encoder):
        return None
    tensors = (*encoder.parameters(), *encoder.buffers())
    precisions = {tensor.dtype for tensor in tensors if tensor.is_floating_point()}
    return recipe(encoder) if len(precisions) <= 1 else None


def built_in(recipe: Recipe | None, state: Mapping[str, Tensor], frozen: Iterable[str] = ()) -> nn.Module:
    """A net for this state. A recipe for another one is refused before it has cost any memory."""
    if recipe is None:
        why = "is not built in, or was changed after it was made"
        raise CheckpointError(f"the encoder {why}: pass it, encoder=...")
    make = partial(NETS[recipe["name"]], tuple(recipe["shape"]), seed=recipe["seed"], width=recipe["width"])
    with torch.device("meta"):
        shapes = {name: tensor.shape for name, tensor in make().state_dict().items()}
    if shapes != {name: tensor.shape for name, tensor in state.items()}:
        raise CheckpointError(f"the encoder that the checkpoint names, {recipe['name']}, is not the one it holds")
    if len({tensor.dtype for tensor in state.values() if tensor.is_floating_point()}) > 1:
        raise CheckpointError("the encoder of the checkpoint has weights of several precisions")
    net = make()
    for name, tensor in [*net.named_parameters(), *net.named_buffers()]:
        if tensor.is_floating_point() and state[name].is_floating_point():
            tensor.data = tensor.data.to(state[name].dtype)
    for name in frozen:
        net.get_parameter(name).requires_grad_(False)
    return net


SMALL_NETS = ("small-cnn", "mlp", "raw")  # augmentation costs them more than it gives


def default_net(shape: tuple[int, ...]) -> str:
    """The built-in net that suits samples of this shape."""
    if len(shape) != 3 or min(shape[1:]) < 8:
        return "mlp"
    return "slim-resnet18" if min(shape[1:]) >= 32 else "small-cnn"


def raw(shape: tuple[int, ...]) -> nn.Sequential:
    """Makes no encoder: the features are the samples themselves, flattened.

    Args:
        shape: the shape of one sample.

    Returns:
        A module without parameters.
    """
    return _with_recipe(nn.Sequential(nn.Flatten()), "raw", as_shape(shape), 0, 0)


NETS["raw"] = lambda shape, seed=0, width=0: raw(shape)
