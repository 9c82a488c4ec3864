"""What a frozen encoder makes of a dataset: computed once, kept in the data root, and what runs learn from."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from numpy.typing import NDArray
from torch import Tensor, nn

from holdfast.errors import CheckpointError
from holdfast.nets.named import Input, Name
from holdfast.nets.pretrained import CHUNK, PretrainedEncoder, features_of, pretrained
from holdfast.storage import checkpoint, files
from holdfast.streams import Source

Report = Callable[[int, int], None]  # samples that are done, of all


class Encoded(PretrainedEncoder):
    """In the place of an encoder whose work is done: takes its features, and is saved as a reference to it."""

    def __init__(self, reference: dict[str, Any]) -> None:
        super().__init__(nn.Flatten(), Input(), frozen=True, name=None)
        self._reference = reference

    @property
    def reference(self) -> dict[str, Any]:
        return self._reference


def encoded(source: Source, net: Name, report: Report = lambda done, of: None) -> tuple[Source, Encoded]:
    """The same stream, of features. Whoever comes first computes them; others wait for that."""
    work = _Work(net, source.root / "features", report)
    dataset = source.dataset
    (train, reference), (test, _) = (work.features(samples) for samples in (dataset.train_x, dataset.test_x))
    return replace(source, dataset=replace(dataset, train_x=train, test_x=test)), Encoded(reference)


class _Work:
    def __init__(self, net: Name, folder: Path, report: Report) -> None:
        self._net, self._identity, self._folder, self._report = net, net.identity, folder, report

    @cached_property
    def _encoder(self) -> PretrainedEncoder:
        return pretrained(str(self._net))

    def features(self, samples: NDArray[np.generic]) -> tuple[NDArray[np.generic], dict[str, Any]]:
        """And the reference of the encoder that made them."""
        what = hashlib.sha256(f"{self._identity} {samples.dtype.str}{samples.shape}".encode())
        what.update(np.ascontiguousarray(samples).reshape(-1).view(np.uint8).data)
        files.make_folder(self._folder)
        file = self._folder / what.hexdigest()
        with FileLock(file.with_suffix(".lock")):
            if not file.exists():
                made = {"features": self._computed(samples)}
                files.write(file, checkpoint.pack(made, {"encoder": self._encoder.reference}))
        tensors, manifest = self._read(file)
        return tensors["features"].numpy(), manifest["encoder"]

    def _computed(self, samples: NDArray[np.generic]) -> Tensor:
        parts = []
        for start in range(0, len(samples), CHUNK):
            parts.append(features_of(self._encoder, torch.from_numpy(samples[start : start + CHUNK])))
            self._report(min(start + CHUNK, len(samples)), len(samples))
        return torch.cat(parts)

    def _read(self, file: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
        try:
            return checkpoint.read(file)
        except CheckpointError as error:
            raise CheckpointError(f"{error}; remove it, and the features are computed again") from error
