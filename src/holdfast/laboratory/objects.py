"""Methods, datasets and encoders that are given as objects: what specs call them."""

import hashlib
import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from holdfast import methods
from holdfast.datasets import Dataset, from_dataset
from holdfast.datasets.adapted import is_dataset
from holdfast.errors import InputError
from holdfast.laboratory.execution import NOTHING, Objects
from holdfast.methods import Method
from holdfast.nets import NETS
from holdfast.nets.structure import fingerprint
from holdfast.runs.plan import MakeEncoder
from holdfast.runs.spec import CHOICES
from holdfast.storage.checkpoint import digest
from holdfast.streams import Source, ordered


def named(choices: Mapping[str, Any], read: Callable[[str], Source]) -> tuple[dict[str, Any], Objects]:
    """Choices as a grid takes them, and what their names stand for. `read` gives the stream of a name."""
    found, given = dict(choices), NOTHING
    sources: dict[str, Source] = {}
    for name in ("method", "start"):
        if name in found:
            found[name] = _each(found[name], lambda value: methods.as_text(value) if _is(Method, value) else value)
    if "stream" in found:
        found["stream"] = _each(found["stream"], lambda value: _stream(value, sources))
    if "net" in found:
        nets: dict[str, MakeEncoder] = {}
        texts = _listed(found.get("stream", CHOICES["stream"].usual))

        def shapes() -> set[tuple[int, ...]]:
            return {(sources.get(text) or read(text)).dataset.sample_shape for text in texts}

        found["net"] = _each(found["net"], lambda value: _net(value, shapes, nets))
        given = replace(given, nets=nets)
    texts = [text for name in ("method", "start") for text in _listed(found.get(name)) if isinstance(text, str)]
    stay = any(":" in (name := methods.parse(text)[0]) and methods.file_of(name) is None for text in texts)
    return found, replace(given, sources=sources, stay=stay)


def _each(given: Any, name: Callable[[Any], Any]) -> Any:
    return [name(value) for value in given] if isinstance(given, list | tuple) else name(given)


def _listed(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [given]


def _is(kind: type, value: object) -> bool:
    if isinstance(value, type) and issubclass(value, kind):
        raise InputError(f"give a method, as {value.__name__}(), not its class")
    return isinstance(value, kind)


def _stream(value: Any, sources: dict[str, Source]) -> Any:
    if isinstance(value, Path):
        raise InputError(f"stream must be text: {'arrays' if value.suffix == '.npz' else 'folder'}:{value}")
    value = from_dataset(value) if not isinstance(value, Dataset | Source) and is_dataset(value) else value
    source = ordered(value) if isinstance(value, Dataset) else value
    if not isinstance(source, Source):
        return value
    sources[source.title] = source
    return source.title


def _net(make: Any, shapes: Callable[[], set[tuple[int, ...]]], nets: dict[str, MakeEncoder]) -> Any:
    """A function is called by its name and by what it makes: weights that were learned elsewhere count, too."""
    built_in = next((name for name, known in NETS.items() if known is make), None)
    if built_in is not None or not callable(make):
        return built_in or make
    if isinstance(make, nn.Module) or not _takes_shape_and_seed(make):
        said = "an encoder" if isinstance(make, nn.Module) else f"{_name_of(make)}, which takes something else"
        raise InputError(f"net must be a function that makes an encoder from (sample_shape, seed=...), not {said}")
    what = hashlib.sha256(_source_of(make))
    for shape in sorted(shapes()):
        encoder = make(shape, seed=0)
        if not isinstance(encoder, nn.Module):
            raise InputError(f"net: {_name_of(make)} must return an nn.Module, not {type(encoder).__name__}")
        what.update(f"{fingerprint(encoder)} {digest(dict(encoder.state_dict()), '')}".encode())
    name = f"{_name_of(make)}@{what.hexdigest()[:8]}"
    nets[name] = make
    return name


def _name_of(make: Any) -> str:
    return str(getattr(make, "__name__", type(make).__name__))


def _takes_shape_and_seed(make: Any) -> bool:
    try:
        inspect.signature(make).bind((1,), seed=0)
    except TypeError:
        return False
    except ValueError:  # of what is not written in Python nothing is known
        return True
    return True


def _source_of(make: Any) -> bytes:
    with suppress(OSError, TypeError):
        return inspect.getsource(make).encode()
    return repr(make).encode()
