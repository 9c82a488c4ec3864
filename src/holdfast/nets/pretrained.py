"""Encoders that others have trained: modules of timm, torchvision or the user's own, fed as they were trained."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.arguments import POSITIVE, Range, real, whole
from holdfast.errors import BatchError, CheckpointError, HoldfastError, InputError, UnknownName
from holdfast.nets.net import Encoder, recipe
from holdfast.storage.checkpoint import digest
from holdfast.user_files import file_of, identity, module_of

PACKAGES = "timm", "torchvision"
OPTIONS = "frozen", "weights", "size"
FORMS = "timm:NAME, torchvision:NAME or file.py:factory"
CHUNK = 64
CLASSIFIERS = "fc", "classifier", "head", "heads"  # of torchvision's models

What = bool | Literal["but-last"]
Numbers = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Input:
    """What an encoder was trained with; nothing of it for modules that take samples as they are."""

    size: tuple[int, int] | None = None
    mean: Numbers | None = None  # of the channels, where black is 0 and white is 1
    std: Numbers | None = None


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

    A learner is saved with the name of its encoder. Whoever loads it passes the encoder again, or has made one of
    this name before in the same process: reading a file imports nothing.

    Args:
        encoder: "timm:NAME" or "torchvision:NAME" for a model of that package, which has to be installed,
            "file.py:factory" for what a function in a file of yours returns, or a module. Options may also follow the
            name, as on the command line: "timm:resnet18,size=96".
        frozen: True if only the head on top of it is to learn; the learner then computes the features of a sample once,
            and holds these instead of the sample. "but-last" if its last block is to learn too, False if all of it is.
        weights: a safetensors file, where those that the package downloads are not wanted.
        size: images are resized to so many pixels; timm and torchvision know it by themselves.
        mean: images are normalised by it, where black is 0 and white is 1; timm and torchvision know it.
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
        return _made(encoder, Input(), _input(size, mean, std), _frozen(frozen), None)
    given = {"frozen": frozen, "weights": weights, "size": size}
    chosen = parse(encoder, **{name: value for name, value in given.items() if value not in (None, True)})

    def make() -> PretrainedEncoder:
        module, trained_with = _loaded(chosen)
        return _made(module, trained_with, _input(chosen.size, mean, std), chosen.frozen, str(chosen))

    _MADE[str(chosen)] = make
    return make()


@dataclass(frozen=True, slots=True)
class Name:
    """A pretrained encoder as it is named on the command line: SOURCE[,option=value,...]."""

    source: str
    frozen: What = True
    weights: Path | None = None
    size: int | None = None

    def __str__(self) -> str:
        said = {"frozen": self.frozen, "weights": self.weights, "size": self.size}
        usual = {"frozen": True, "weights": None, "size": None}
        return ",".join(
            [self.source, *(f"{k}={str(v).lower() if v is False else v}" for k, v in said.items() if v != usual[k])]
        )

    @property
    def identity(self) -> str:
        """The same wherever files lie; another one if they change."""
        weights = None if self.weights is None else Path(_sha256(self.weights, _mark(self.weights)))
        return str(replace(self, source=identity(self.source), weights=weights))


def is_pretrained(net: str) -> bool:
    """Whether a name is that of one, right or wrong."""
    return ":" in net


def parse(text: str, **more: Any) -> Name:
    """Takes apart what `holdfast run --net` is given."""
    source, *items = text.split(",")
    options: dict[str, Any] = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not value:
            raise InputError(f"net {text!r}: {item!r} should be option=value")
        if key not in OPTIONS:
            raise UnknownName("option of a pretrained net", key, OPTIONS)
        options[key] = value
    options |= more
    file = file_of(source)
    package, _, name = source.partition(":")
    if not name or (file is None and package not in PACKAGES):
        raise InputError(f"net {text!r}: a pretrained net is {FORMS}")
    if file is not None and not file.is_file():
        raise InputError(f"there is no file {file} to take a net from")
    if file is not None and "weights" in options:
        raise InputError(f"net {text!r}: weights are for timm and torchvision; a factory loads its own")
    weights = Path(options["weights"]) if "weights" in options else None
    if weights is not None and not weights.is_file():
        raise InputError(f"net {text!r}: there is no file {weights}")
    size = None if "size" not in options else _size(text, options["size"])
    return Name(source, _frozen(options.get("frozen", True)), weights, size)


def found(reference: dict[str, Any], given: nn.Module | None) -> PretrainedEncoder:
    """The encoder that a saved learner names: the one that was passed, or one that was made here by that name."""
    name = reference["name"]
    if given is None:
        if name not in _MADE:
            say = f"holdfast.pretrained({name!r})" if isinstance(name, str) else "holdfast.pretrained(...)"
            raise CheckpointError(f"the encoder of this learner is not part of the file: pass it, encoder={say}")
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
    own: dict[str, Any] = {} if size is None else {"size": (_size("size", size),) * 2}
    for name, numbers, allowed in (("mean", mean, Range()), ("std", std, POSITIVE)):
        if numbers is not None:
            own[name] = tuple(real(name, number, allowed) for number in numbers)
            if len(own[name]) != 3:
                raise InputError(f"{name} has three numbers, one for each channel, not {len(own[name])}")
    return own


def _loaded(name: Name) -> tuple[nn.Module, Input]:
    file = file_of(name.source)
    if file is not None:
        return _from_file(file, name.source.rpartition(":")[2]), Input()
    package, _, model = name.source.partition(":")
    try:
        library = import_module(package)
    except Exception as error:
        raise InputError(f"net {name}: {package} cannot be imported ({error}); pip install {package}") from error
    try:
        module, trained_with = (_from_timm if package == "timm" else _from_torchvision)(library, model, name)
    except InputError:
        raise
    except Exception as error:  # no network, no such weights, another version of the package
        why = str(error).partition("\n")[0]
        hint = "" if name.weights else "; weights=FILE.safetensors takes them from a file"
        raise InputError(f"net {name} cannot be made: {type(error).__name__}: {why}{hint}") from error
    if name.weights is not None:
        _load_weights(module, name.weights)
    return module, trained_with


def _from_file(file: Path, factory: str) -> nn.Module:
    namespace = vars(module_of(file, "a net"))
    if factory not in namespace:
        raise UnknownName(f"function in {file}", factory, [name for name, v in namespace.items() if callable(v)])
    module = namespace[factory]()
    if not isinstance(module, nn.Module):
        raise InputError(f"net {file}:{factory}: {factory}() must return an nn.Module, not {type(module).__name__}")
    return module


def _from_timm(timm: Any, model: str, name: Name) -> tuple[nn.Module, Input]:
    known = timm.list_models()
    if model.partition(".")[0] not in known:
        raise UnknownName("model of timm", model, known)
    module = timm.create_model(model, pretrained=name.weights is None, num_classes=0)
    config = timm.data.resolve_data_config({}, model=module)
    height, width = config["input_size"][1:]
    return module, Input((height, width), tuple(config["mean"]), tuple(config["std"]))


def _from_torchvision(torchvision: Any, model: str, name: Name) -> tuple[nn.Module, Input]:
    known = torchvision.models.list_models(module=torchvision.models)
    if model not in known:
        raise UnknownName("model of torchvision", model, known)
    module: nn.Module = torchvision.models.get_model(model, weights=None if name.weights else "DEFAULT")
    preset = torchvision.models.get_model_weights(model).DEFAULT.transforms()
    for classifier in CLASSIFIERS:
        if hasattr(module, classifier):
            setattr(module, classifier, nn.Identity())
    side = preset.crop_size[0]
    return module, Input((side, side), tuple(preset.mean), tuple(preset.std))


def _load_weights(module: nn.Module, file: Path) -> None:
    try:
        weights = load_file(file)
    except (SafetensorError, OSError) as error:
        convert = "safetensors.torch.save_file(torch.load(FILE, weights_only=True), NEW) makes one of a .pth"
        raise InputError(f"{file} is not a safetensors file ({error}): {convert}") from error
    ours = module.state_dict()
    for name, tensor in ours.items():
        if name not in weights or weights[name].shape != tensor.shape:
            there = tuple(weights[name].shape) if name in weights else "missing"
            raise InputError(f"{file} is of another model: {name} has shape {tuple(tensor.shape)} here, {there} there")
    module.load_state_dict({name: weights[name] for name in ours})


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


def _frozen(given: object) -> What:
    choices: dict[object, What] = {True: True, False: False, "true": True, "false": False, "but-last": "but-last"}
    given = bool(given) if isinstance(given, np.bool_) else given
    if not isinstance(given, bool | str) or given not in choices:
        raise InputError(f"frozen must be true, false or but-last, not {given!r}")
    return choices[given]


def _size(text: str, given: object) -> int:
    if isinstance(given, str):
        given = int(given) if given.isdecimal() else given
    return whole("size" if text == "size" else f"net {text!r}: size", given, Range(least=8, most=4096))


def _mark(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=16)
def _sha256(file: Path, mark: tuple[int, int]) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
