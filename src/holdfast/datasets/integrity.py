"""Whether a named dataset holds exactly the samples it should, in whatever order."""

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets import load, mini_imagenet
from holdfast.datasets.base import Dataset
from holdfast.errors import DataError

RIGHT: dict[str, dict[str, str]] = {
    "fashion": {
        "training samples": "43bf13186354b981b6fa64f407e595701c7c1ee392eafc2919ff953711097609",
        "test samples": "a76a4fb8f47aa0f4619748713441570712fc3d1389758a7423f7213c9cebc47e",
        "class names": "39a730d3fc82d69808279f2d613827ba0f1ac9e908e1ae8a552cd2ee22e3758f",
    },
    "cifar10": {
        "training samples": "55a61f79a40ece2ceda9fb5f9f7078f6ea2fc4952489cef56682bcf92cfcc260",
        "test samples": "325704b01eb92e1e2a6215ae6a916bb7db7de054af0c496be1c7be2e0fcfbf5f",
        "class names": "bb3914949cecedee6d1257f7f5fdb8f43fa3b2c8095fd1763161caf1b873fe59",
    },
    "cifar100": {
        "training samples": "6d2a03c47c105e4c34d3a2ff16c2803e8df0e5d6fa0c631e46663a327aeac573",
        "test samples": "381b7d98ce1e9b98232a8df0db0a22992654c39ff2433270656ab8ace5a45e65",
        "class names": "fbe8ad23bbaf24969898a386833b49c3aaf6ad1119d43f7b41cdea1b3416d578",
    },
}


def verify(name: str, root: Path) -> dict[str, str]:
    """The content hashes of the parts, after they were found right."""
    if name == mini_imagenet.LAYOUT.name:
        return mini_imagenet.LAYOUT.verify(root)
    found = hashes(load(name, root))
    for part, right in RIGHT[name].items():
        if found[part] != right:
            raise DataError(f"{name} in {root} is damaged: its {part} hash to {found[part]}, {right} is right")
    return found


def hashes(dataset: Dataset) -> dict[str, str]:
    return {
        "training samples": content_hash(dataset.train_x, dataset.train_y),
        "test samples": content_hash(dataset.test_x, dataset.test_y),
        "class names": hashlib.sha256("\n".join(dataset.classes).encode()).hexdigest(),
    }


def content_hash(x: NDArray[np.generic], y: NDArray[np.int64]) -> str:
    """sha256 of the records' sorted sha256 digests; a record is the label byte and the sample's bytes."""
    records = np.concatenate([y.astype(np.uint8)[:, None], x.reshape(len(x), -1)], axis=1)
    return hashlib.sha256(b"".join(sorted(hashlib.sha256(record).digest() for record in records))).hexdigest()
