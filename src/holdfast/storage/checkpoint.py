"""Files of tensors with a manifest: safetensors, checksummed. Reading one runs nothing that it names."""

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from torch import Tensor

from holdfast.errors import CheckpointError
from holdfast.modes import in_inference

FORMAT = 1
KEY = "holdfast"
BEGINNING = b'{"__metadata__":{"holdfast":"'  # behind eight bytes of length
CHECKSUM = 64  # hexadecimal digits of a sha256
Manifest = dict[str, Any]


def read(path: Path) -> tuple[dict[str, Tensor], Manifest]:
    content = content_of(path)
    with naming(path):
        return unpack(content)


def content_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                safe_open(path, "np")  # looks at the beginning and the size: before the rest takes any memory
            return file.read()
    except SafetensorError as error:
        raise CheckpointError(f"{path} is not a checkpoint or is damaged: {error}") from error
    except FileNotFoundError:
        raise CheckpointError(f"there is no checkpoint {path}") from None
    except IsADirectoryError:
        raise CheckpointError(f"{path} is a folder: holdfast.open opens a learner that lives in one") from None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error


def begins_as_one(path: Path) -> bool:
    """Whether a file begins as `pack` writes it; what follows may be damaged."""
    try:
        if not path.is_file():  # a pipe would be waited for
            return False
        with path.open("rb") as file:
            return file.read(8 + len(BEGINNING))[8:] == BEGINNING
    except OSError:
        return False


def pack(tensors: Mapping[str, Tensor], manifest: Manifest) -> bytes:
    text = as_text({"format": FORMAT, **manifest})
    plain = _apart(tensors)
    return save(plain, {KEY: digest(plain, text) + text})  # one key: several would be written in any order


def as_text(values: Manifest) -> str:
    try:
        return json.dumps(values, sort_keys=True, default=_item)
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"the learner cannot be saved: {error}") from error


@in_inference(False)  # tensors made in the caller's could not be learned from
def unpack(content: bytes) -> tuple[dict[str, Tensor], Manifest]:
    try:
        tensors = load(content)
        metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
        checksum, text = metadata[KEY][:CHECKSUM], metadata[KEY][CHECKSUM:]
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(f"is not a checkpoint or is damaged: {error}") from error
    if digest(tensors, text) != checksum:
        raise CheckpointError("is damaged: its checksum does not match its content")
    with distrust("a manifest"):
        manifest: Manifest = json.loads(text)
        if manifest["format"] > FORMAT:
            raise CheckpointError(f"has format {manifest['format']}; this version reads up to {FORMAT}")
    return tensors, manifest


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Whatever is wrong with a file inside is said with its name."""
    try:
        yield
    except CheckpointError as error:
        raise CheckpointError(f"{path} {error}") from error


@contextmanager
def distrust(what: object) -> Iterator[None]:
    """What is made of a file inside may have been written by anyone: whatever is wrong with it is a CheckpointError."""
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:  # something is missing, of another type, of a size no machine has
        raise CheckpointError(f"{what} has values that no learner has: {type(error).__name__}: {error}") from error


def digest(tensors: Mapping[str, Tensor], text: str) -> str:
    """sha256 over names, types, shapes, contents and the manifest's text."""
    sha = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        sha.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        own = tensor.detach().cpu().flatten().clone(memory_format=torch.contiguous_format)
        sha.update(own.view(torch.uint8).numpy().data)  # numpy does not know all of torch's types
    return sha.hexdigest()


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Each with memory of its own, as the format wants it: weights that are tied are written under every name."""
    apart: dict[str, Tensor] = {}
    taken: set[int] = set()
    for name, tensor in tensors.items():
        if not _comes_back(tensor.dtype):
            raise CheckpointError(f"{name} cannot be saved: no file holds tensors of type {tensor.dtype}")
        own = tensor.detach().cpu().contiguous()
        place = own.untyped_storage().data_ptr()
        apart[name] = own.clone() if place in taken else own
        taken.add(place)
    return apart


@cache
def _comes_back(dtype: torch.dtype) -> bool:
    """The format does not know some types, and writes some that it cannot read."""
    try:
        return load(save({"x": torch.empty(0, dtype=dtype)}))["x"].dtype == dtype
    except (SafetensorError, KeyError, ValueError):
        return False


def _item(value: object) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"there is a {type(value).__name__} among its options or its optimizer's; give plain values")
