"""Encoders that others have trained, fed as they were trained."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.arguments import POSITIVE, Range, real
from holdfast.errors import BatchError, CheckpointError, HoldfastError, InputError
from holdfast.nets.encoders import recipe
from holdfast.nets.named import FORMS, Input, What, as_frozen, as_size, loaded, parse
from holdfast.nets.net import Encoder
from holdfast.storage.checkpoint import digest

CHUNK = 64


class PretrainedEncoder(nn.Module):
    """A module with its own input size and normalisation. Made by `holdfast.pretrained`."""

    def __init__(self, module: nn.Module, trained_with: Input, frozen: What, name: str | None) -> None:
        super().__init__()
        self.module = module
        self.name = name
        self.frozen = frozen
        self.size, self.mean, self.std = trained_with.size, trained_with.mean, trained_with.std
        self._weights: str | None = None  # their digest
        self._still: list[nn.Module] = []
        if frozen:
            learning = set(map(id, [] if frozen is True else _last_block(module)))
            module.requires_grad_(False)
            for part in module.modules():
                if id(part) in learning:
                    part.requires_grad_(True)
            inside = {id(each) for part in module.modules() if id(part) in learning for each in part.modules()}
            self._still = [part for part in module.modules() if id(part) not in inside]
        self.eval()

    def train(self, mode: bool = True) -> "PretrainedEncoder":
        super().train(mode and self.frozen is not True)
        for part in self._still:
            part.training = False
        return self

    def forward(self, x: Tensor) -> Tensor:
        """`x`: images with values from -1 to 1, which is what uint8 is scaled to."""
        features: Tensor = self.module(self._fitted(x))
        return features

    @property
    def reference(self) -> dict[str, Any]:
        """By which a saved learner knows it again."""
        if self.frozen is True and self._weights is None:
            self._weights = digest(dict(self.module.state_dict()), "")
        return {"name": self.name, "size": self.size, "mean": self.mean, "std": self.std, "weights": self._weights}

    def _fitted(self, x: Tensor) -> Tensor:
        if self.size is None and self.mean is None:
            return x
        if x.ndim != 4 or x.shape[1] not in (1, 3):
            what = f"samples of shape {tuple(x.shape[1:])}"
            turned = x.ndim == 4 and x.shape[3] in (1, 3)
            hint = ": the channels come first, x.transpose(0, 3, 1, 2)" if turned else ""
            raise BatchError(f"the encoder takes images of shape (3, height, width), not {what}{hint}")
        if self.size is not None and tuple(x.shape[2:]) != self.size:
            x = F.interpolate(x, self.size, mode="bilinear", antialias=True, align_corners=False)
        if self.mean is not None and self.std is not None:
            mean, std = (x.new_tensor(numbers).view(-1, 1, 1) for numbers in (self.mean, self.std))
            x = ((x + 1) / 2 - mean) / std
        return x.expand(-1, 3, -1, -1)


@torch.no_grad()
def features_of(encoder: PretrainedEncoder, samples: Tensor) -> Tensor:
    """One row for each of uint8 or float samples."""
    whole = Encoder(encoder).eval()
    device = next(encoder.parameters(), torch.empty(0)).device
    parts: list[Tensor] = []
    for part in torch.split(samples, CHUNK):
        try:
            parts.append(whole(part.to(device)).float().cpu())
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            if isinstance(error, HoldfastError):
                raise
            what, why = f"samples of shape {tuple(part.shape[1:])}", str(error).partition("\n")[0]
            raise BatchError(f"the encoder does not take {what}: {type(error).__name__}: {why}") from error
    found = torch.cat(parts)
    if len(found) != len(samples) or not found.shape[1]:
        raise BatchError(f"the encoder makes {tuple(found.shape)} of {len(samples)} samples, not a row of each")
    return found


def wanted_shape(encoder: nn.Module) -> tuple[int, ...] | None:
    """Of images, if the encoder says so: what a built-in net was made for, what a pretrained one was trained with."""
    if isinstance(encoder, PretrainedEncoder):
        return None if encoder.size is None else (3, *encoder.size)
    made = recipe(encoder)
    return None if made is None else tuple(made["shape"])


def is_frozen(encoder: nn.Module) -> bool:
    """Whether the net begins behind it."""
    return isinstance(encoder, PretrainedEncoder) and encoder.frozen is True


def pretrained(
    encoder: str | nn.Module,
    *,
    frozen: What = True,
    weights: str | Path | None = None,
    size: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> PretrainedEncoder:
    """Makes an encoder that was trained elsewhere, for `Learner` and `open`.

    A learner is saved with the name of its encoder. To load it, pass the encoder again, or make one of this
    name first in the same process: reading a file imports nothing.

    Args:
        encoder: "timm:NAME" or "torchvision:NAME" for a model of that package, which has to be installed,
            "file.py:factory" for what a function in your own file returns, or a module. Options may also follow the
            name, as on the command line: "timm:resnet18,size=96".
        frozen: True if only the head on top of it is to learn; the learner then computes the features of a sample once,
            and keeps these instead of the sample. "but-last" if its last block is to learn too, False if all of it is.
        weights: a safetensors file, instead of the weights that the package downloads.
        size: images are resized to this many pixels; known for timm and torchvision.
        mean: images are normalised with it, where black is 0 and white is 1; known for timm and torchvision.
        std: likewise.

    Returns:
        The encoder.

    Raises:
        InputError: if an argument is wrong, or the package that has the model is not installed.

    Examples:
        >>> import torch, holdfast
        >>> module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 4))
        >>> encoder = holdfast.pretrained(module)
        >>> learner = holdfast.Learner(encoder, holdfast.ERACE(), memory=100)
    """
    if not isinstance(encoder, str):
        if not isinstance(encoder, nn.Module):
            raise InputError(f"encoder must be an nn.Module or a name ({FORMS}), not {type(encoder).__name__}")
        if weights is not None:
            raise InputError("weights are for encoders by name; load them into the module yourself")
        return _made(encoder, Input(), _input(size, mean, std), as_frozen(frozen), None)
    given = {"frozen": frozen, "weights": weights, "size": size}
    chosen = parse(encoder, **{name: value for name, value in given.items() if value not in (None, True)})

    def make() -> PretrainedEncoder:
        module, trained_with = loaded(chosen)
        return _made(module, trained_with, _input(chosen.size, mean, std), chosen.frozen, str(chosen))

    _MADE[str(chosen)] = make
    return make()


def found(reference: dict[str, Any], given: nn.Module | None) -> PretrainedEncoder:
    """The encoder that a saved learner names: the one that was passed, or one that was made here by that name."""
    name = reference["name"]
    if given is None:
        if name not in _MADE:
            say = f"{name!r}), or --net {name} on the command line" if isinstance(name, str) else "...)"
            raise CheckpointError(
                f"the encoder of this learner is not part of the file: pass it, encoder=holdfast.pretrained({say}"
            )
        given = _MADE[name]()
    if not isinstance(given, PretrainedEncoder):
        raise CheckpointError("the encoder of this learner is a pretrained one: encoder=holdfast.pretrained(...)")
    here = given.reference
    for what in ("size", "mean", "std"):
        there = reference[what] if reference[what] is None else tuple(reference[what])
        if here[what] != there:
            raise CheckpointError(
                f"the encoder does not fit the checkpoint: {what} is {here[what]} here, {there} there"
            )
    if here["weights"] != reference["weights"]:
        raise CheckpointError(
            f"the encoder does not fit the checkpoint: {name or 'it'} has other weights here than there"
        )
    return given


_MADE: dict[str, Callable[[], PretrainedEncoder]] = {}


def _made(
    module: nn.Module, trained_with: Input, own: dict[str, Any], frozen: What, name: str | None
) -> PretrainedEncoder:
    """`own`: what the user says of the input, before all else."""
    if isinstance(module, PretrainedEncoder):
        trained_with = Input(module.size, module.mean, module.std)
        module = module.module
    return PretrainedEncoder(module, replace(trained_with, **own), frozen, name)


def _input(size: int | None, mean: Sequence[float] | None, std: Sequence[float] | None) -> dict[str, Any]:
    if (mean is None) != (std is None):
        raise InputError("give mean and std, both or none")
    own: dict[str, Any] = {} if size is None else {"size": (as_size("size", size),) * 2}
    for name, numbers, allowed in (("mean", mean, Range()), ("std", std, POSITIVE)):
        if numbers is not None:
            own[name] = tuple(real(name, number, allowed) for number in numbers)
            if len(own[name]) != 3:
                raise InputError(f"{name} has three numbers, one for each channel, not {len(own[name])}")
    return own


def _last_block(module: nn.Module) -> list[nn.Module]:
    """The last of the blocks that the module is a row of, and whatever comes after them."""
    parts = [part for part in module.children() if any(True for _ in part.parameters())]
    if not parts:
        return [module]
    if isinstance(module, nn.Sequential | nn.ModuleList):
        return parts[-1:] if len(parts) > 1 else _last_block(parts[0])
    rows = [number for number, part in enumerate(parts) if any(_is_row(each) for each in part.modules())]
    if not rows:
        return parts[-1:]
    return [*_last_block(parts[rows[-1]]), *parts[rows[-1] + 1 :]]


def _is_row(part: nn.Module) -> bool:
    return isinstance(part, nn.Sequential | nn.ModuleList) and len(part) > 1
