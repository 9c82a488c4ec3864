"""Files of tensors with a manifest: safetensors, checksummed. Reading one runs nothing that it names."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from holdfast import files
from holdfast.errors import CheckpointError

FORMAT = 1
Manifest = dict[str, Any]


def write(path: Path, tensors: Mapping[str, Tensor], manifest: Manifest) -> None:
    """There whole or not at all; what was there before stays until then."""
    text = json.dumps({"format": FORMAT, **manifest}, sort_keys=True)
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    files.write(path, save(plain, {"manifest": text, "sha256": digest(plain, text)}))


def read(path: Path) -> tuple[dict[str, Tensor], Manifest]:
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except FileNotFoundError:
        raise CheckpointError(f"there is no checkpoint {path}") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path} is not a checkpoint or is damaged: {error}") from error
    text = metadata.get("manifest", "")
    if digest(tensors, text) != metadata.get("sha256"):
        raise CheckpointError(f"{path} is damaged: its checksum does not match its content")
    manifest: Manifest = json.loads(text)
    if manifest["format"] > FORMAT:
        raise CheckpointError(f"{path} has format {manifest['format']}; this version reads up to {FORMAT}")
    return tensors, manifest


def digest(tensors: Mapping[str, Tensor], text: str) -> str:
    """sha256 over names, types, shapes, contents and the manifest's text."""
    sha = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        sha.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        sha.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return sha.hexdigest()
