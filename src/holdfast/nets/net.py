"""Encoders, and heads that grow one class at a time without touching the rows they have."""

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parameter import is_lazy

from holdfast.arguments import Range, whole
from holdfast.errors import BatchError, CheckpointError, HoldfastError, InputError
from holdfast.losses import unit
from holdfast.nets.norms import norms_of_one_value
from holdfast.nets.standardise import Standardise
from holdfast.nets.structure import fingerprint
from holdfast.seeds import generator, torch_seeded


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
    """Two hidden layers for vectors; anything else is flattened.

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


def _nothing(dimensions: int) -> nn.Parameter:
    """A parameter that is to grow; in float32 whatever the caller's default is."""
    return nn.Parameter(torch.empty([0] * dimensions, dtype=torch.float32))


class Head(nn.Module):
    """Logits over the classes seen so far, which are the first `seen` rows of `weight`.

    There are more rows than that only when the head was sized in advance.
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.seen = 0
        self.seed = seed
        self.weight = _nothing(2)

    def restorer(self, optimizer: torch.optim.Optimizer | None = None) -> Callable[[], None]:
        """What puts the head back to the size it has now."""
        seen, before = self.seen, dict(self.named_parameters())
        state = {} if optimizer is None else optimizer.state
        states: dict[Tensor, Any] = {p: state[p] for p in before.values() if p in state}
        groups = [(group, group["params"]) for group in optimizer.param_groups] if optimizer else []

        def restore() -> None:
            self.seen = seen
            for name, parameter in before.items():
                state.pop(getattr(self, name), None)
                setattr(self, name, parameter)
            state.update(states)
            for group, parameters in groups:
                group["params"] = parameters

        return restore

    def grow(self, seen: int, rows: int, features: int, optimizer: torch.optim.Optimizer | None = None) -> None:
        """Room for `rows` classes, `seen` of them seen; the rows there are, and their optimizer state, stay."""
        bound = 1 / math.sqrt(features)
        for name, parameter in list(self.named_parameters()):
            shape = (rows, features) if parameter.ndim == 2 else (rows,)
            data = parameter.detach().new_empty(shape)
            if len(parameter):
                data[: len(parameter)] = parameter.detach()
            for row in range(len(parameter), rows):
                data[row] = self._fresh(name, row, shape[1:], bound)
            self._exchange(name, nn.Parameter(data), optimizer)
        self.seen = seen

    @torch.no_grad()
    def renew(self, row: int, optimizer: torch.optim.Optimizer | None = None) -> None:
        """The row of a class as it was before anything was learned."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        for name, parameter in self.named_parameters():
            parameter[row] = self._fresh(name, row, parameter.shape[1:], bound)
            for value in optimizer.state.get(parameter, {}).values() if optimizer else ():
                if isinstance(value, Tensor) and value.shape == parameter.shape:
                    value[row] = 0

    def check(self, state: Mapping[str, Tensor]) -> None:
        """A CheckpointError if the state of a net has something of the head that would cost more than it holds."""

    def _exchange(self, name: str, new: nn.Parameter, optimizer: torch.optim.Optimizer | None) -> None:
        """Puts another parameter in the place of one; optimizer state of its shape follows, new rows at zero.

        One that is resized in place fails as long as somebody holds a graph of its old shape, such as an exception.
        """
        old = getattr(self, name)
        setattr(self, name, new)
        if optimizer is None:
            return
        for group in optimizer.param_groups:
            group["params"] = [new if parameter is old else parameter for parameter in group["params"]]
        if old in optimizer.state:
            state = optimizer.state.pop(old)
            optimizer.state[new] = {key: _resized(value, old.shape, new.shape) for key, value in state.items()}

    def _fresh(self, name: str, row: int, shape: tuple[int, ...], bound: float) -> Tensor:
        """Depends on the seed and the row's index only, not on when it is added."""
        return torch.as_tensor(generator(self.seed, f"head/{name}", row).uniform(-bound, bound, shape))


def _resized(value: Any, old: torch.Size, new: torch.Size) -> Any:
    if not isinstance(value, Tensor) or value.shape != old or not old:
        return value
    resized = value.new_zeros(new)
    if rows := min(len(value), len(resized)):
        resized[:rows] = value[:rows]
    return resized


class LinearHead(Head):
    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.bias = _nothing(1)

    def forward(self, features: Tensor, unseen: bool = False) -> Tensor:
        stop = None if unseen else self.seen
        return F.linear(features, self.weight[:stop], self.bias[:stop])


class CosineHead(Head):
    """logit_c = cos(w_c, f) / temperature"""

    def __init__(self, seed: int = 0, temperature: float = 0.1) -> None:
        super().__init__(seed)
        self.temperature = temperature

    def forward(self, features: Tensor, unseen: bool = False) -> Tensor:
        weight = self.weight[: None if unseen else self.seen]
        return F.linear(unit(features), unit(weight)) / self.temperature


class ProjectionHead(Head):
    """Not logits but a point in a space to compare samples in: two layers, whatever the number of classes."""

    def __init__(self, seed: int = 0, dimensions: int = 128) -> None:
        super().__init__(seed)
        self.dimensions = dimensions
        self.bias, self.out_weight, self.out_bias = _nothing(1), _nothing(2), _nothing(1)

    def grow(self, seen: int, rows: int, features: int, optimizer: torch.optim.Optimizer | None = None) -> None:
        if not self.weight.numel():
            bound = 1 / math.sqrt(features)
            for number, (name, parameter) in enumerate(list(self.named_parameters())):
                size = self.dimensions if name.startswith("out_") else features
                fresh = generator(self.seed, "head/projection", number)
                shape = (size, features) if parameter.ndim == 2 else (size,)
                data = torch.as_tensor(fresh.uniform(-bound, bound, shape)).to(parameter)
                self._exchange(name, nn.Parameter(data), optimizer)
        self.seen = seen

    def renew(self, row: int, optimizer: torch.optim.Optimizer | None = None) -> None:
        """No row belongs to one class."""

    def forward(self, features: Tensor, unseen: bool = False) -> Tensor:
        hidden = F.relu(F.linear(features, self.weight, self.bias))
        return F.linear(hidden, self.out_weight, self.out_bias)


HEADS: dict[str, type[Head]] = {"linear": LinearHead, "cosine": CosineHead, "projection": ProjectionHead}


class Encoder(nn.Module):
    """A module that makes features, fed with scaled samples: uint8 becomes [-1, 1]; images run in channels-last.

    With `standardise`, samples then get mean 0 and variance 1, by what has been learned so far.
    """

    def __init__(self, module: nn.Module, *, standardise: bool = False) -> None:
        super().__init__()
        if any(is_lazy(tensor) or tensor.is_meta for tensor in (*module.parameters(), *module.buffers())):
            raise InputError("the encoder has no weights yet: call it once on a sample, or load them")
        self.module = module
        self.standardise = Standardise() if standardise else None

    def scaled(self, x: Tensor) -> Tensor:
        weight = next(self.parameters(), None)
        layout = torch.channels_last if x.ndim == 4 else torch.contiguous_format
        scaled = x.to(torch.float32 if weight is None else weight.dtype, memory_format=layout)
        return scaled.div_(127.5).sub_(1) if x.dtype == torch.uint8 else scaled

    def forward(self, x: Tensor) -> Tensor:
        scaled = self.scaled(x)
        if self.standardise is not None:
            scaled = self.standardise(scaled)
        with norms_of_one_value(self.module) if self.training and len(x) == 1 else nullcontext():
            features = self.module(scaled)
        if not isinstance(features, Tensor):
            raise InputError(f"the encoder must return a tensor of features, not a {type(features).__name__}")
        return features.flatten(1)


def changing(part: nn.Module) -> list[Tensor]:
    """The tensors that learning changes."""
    return [*(p for p in part.parameters() if p.requires_grad), *part.buffers()]


class Net(nn.Module):
    """An encoder and a head."""

    encoder: Encoder
    head: Head

    def __init__(self, encoder: nn.Module, head: Head) -> None:
        super().__init__()
        self.encoder = encoder if isinstance(encoder, Encoder) else Encoder(encoder)
        self.head = head

    @property
    def seen(self) -> int:
        """How many classes have appeared."""
        return self.head.seen

    @property
    def rows(self) -> int:
        """How many classes the head has room for: `seen`, or more if it was sized in advance."""
        return len(self.head.weight)

    @torch.no_grad()
    def width(self, sample: Tensor) -> int:
        """How many features the encoder makes of such a sample; a BatchError if it cannot."""
        what = f"samples of shape {tuple(sample.shape[1:])} and type {sample.dtype}"
        try:
            features = self.encoder(sample)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            if isinstance(error, HoldfastError):
                raise
            why = self._expected(sample) or f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            raise BatchError(f"the encoder does not take {what}: {why}") from error
        if len(features) != 1 or not features.shape[1] or not features.is_floating_point():
            raise BatchError(f"the encoder makes {tuple(features.shape)} of one of {what}, not a row of real features")
        return int(features.shape[1])

    def _expected(self, sample: Tensor) -> str:
        """What would be right, if that is known."""
        *others, last = shape = tuple(sample.shape[1:])
        made = recipe(self.encoder.module)
        wanted = f"it was made for {tuple(made['shape'])}" if made else ""
        if len(shape) == 3 and last in (1, 3, 4) and others[0] != last:
            return f"{wanted or 'channels come first'}; x.transpose(0, 3, 1, 2) puts the channels first"
        if len(shape) == 2 and made and len(made["shape"]) == 3:
            return f"{wanted}; x[:, None] gives grey images their channel"
        return wanted if made and shape != tuple(made["shape"]) else ""

    def features(self, x: Tensor) -> Tensor:
        return self.encoder(x).to(self.head.weight.dtype)  # type: ignore[no-any-return]

    def forward(self, x: Tensor, unseen: bool = False) -> Tensor:
        return self.head(self.features(x), unseen)  # type: ignore[no-any-return]

    def twin(self) -> "Net":
        """A copy in evaluation mode. What does not learn is shared, not copied."""
        shared = {id(p): p for p in self.parameters() if not p.requires_grad}
        try:
            return copy.deepcopy(self, shared).eval()
        except Exception as error:
            raise InputError(f"the encoder cannot be copied, which answering while learning needs: {error}") from error

    def frozen(self) -> "Net":
        """A copy that answers as this net does now, and learns nothing."""
        return copy.deepcopy(self).eval().requires_grad_(False)
