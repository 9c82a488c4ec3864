"""Models by name: of timm, of torchvision, of a function in a file of the user's."""

import hashlib
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from holdfast.arguments import Range, whole
from holdfast.errors import InputError, UnknownName
from holdfast.user_files import file_of, identity, module_of

PACKAGES = "timm", "torchvision"
OPTIONS = "frozen", "weights", "size"
FORMS = "timm:NAME, torchvision:NAME or file.py:factory"
CLASSIFIERS = "fc", "classifier", "head", "heads"  # of torchvision's models

What = bool | Literal["but-last"]
Numbers = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Input:
    """What an encoder was trained with; nothing of it for modules that take samples as they are."""

    size: tuple[int, int] | None = None
    mean: Numbers | None = None  # of the channels, where black is 0 and white is 1
    std: Numbers | None = None


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
    size = None if "size" not in options else as_size(text, options["size"])
    return Name(source, as_frozen(options.get("frozen", True)), weights, size)


def loaded(name: Name) -> tuple[nn.Module, Input]:
    file = file_of(name.source)
    if file is not None:
        return _from_file(file, name.source.rpartition(":")[2]), Input()
    package, _, model = name.source.partition(":")
    try:
        library = import_module(package)
    except Exception as error:
        why, missing = str(error).partition("\n")[0], isinstance(error, ModuleNotFoundError) and error.name
        right = f"pip install {missing}" if missing else f"install the one that belongs to torch {torch.__version__}"
        raise InputError(f"net {name}: {package} cannot be imported ({why}); {right}") from error
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
    try:
        module = namespace[factory]()
    except Exception as error:
        raise InputError(f"net {file}:{factory}: {factory}() failed with {type(error).__name__}: {error}") from error
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


def as_frozen(given: object) -> What:
    choices: dict[object, What] = {True: True, False: False, "true": True, "false": False, "but-last": "but-last"}
    given = bool(given) if isinstance(given, np.bool_) else given
    if not isinstance(given, bool | str) or given not in choices:
        raise InputError(f"frozen must be true, false or but-last, not {given!r}")
    return choices[given]


def as_size(text: str, given: object) -> int:
    if isinstance(given, str):
        given = int(given) if given.isdecimal() else given
    return whole("size" if text == "size" else f"net {text!r}: size", given, Range(least=8, most=4096))


def _mark(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=16)
def _sha256(file: Path, mark: tuple[int, int]) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
