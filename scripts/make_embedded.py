"""Make src/holdfast/datasets/fashion.npz out of the four files of Fashion-MNIST.

    python scripts/make_embedded.py [FOLDER] [TARGET]

FOLDER holds the idx .gz files, as Debian's package dataset-fashion-mnist installs them.
The same files give the same bytes.
"""

import gzip
import io
import sys
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets import embedded

DEBIAN = Path("/usr/share/datasets/fashion-mnist")
TARGET = Path(__file__).parents[1] / "src/holdfast/datasets/fashion.npz"
EPOCH = (1980, 1, 1, 0, 0, 0)


def read_idx(path: Path) -> NDArray[np.uint8]:
    """An idx file: two zero bytes, the type, the number of axes, each axis' length, the values."""
    content = gzip.decompress(path.read_bytes())
    axes = content[3]
    lengths = np.frombuffer(content, ">u4", axes, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(lengths)


def first_of_each_class(labels: NDArray[np.uint8], count: int) -> NDArray[np.intp]:
    """Indices in their original order."""
    return np.sort(np.concatenate([np.flatnonzero(labels == each)[:count] for each in np.unique(labels)]))


def write_npz(path: Path, arrays: dict[str, NDArray[np.uint8]]) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array, allow_pickle=False)
            member = zipfile.ZipInfo(f"{name}.npy", EPOCH)
            file.writestr(member, content.getvalue(), zipfile.ZIP_DEFLATED, compresslevel=9)


def main(folder: Path = DEBIAN, target: Path = TARGET) -> None:
    arrays = {}
    for part, stem, count in (
        ("train", "train", embedded.TRAIN_PER_CLASS),
        ("test", "t10k", embedded.TEST_PER_CLASS),
    ):
        images = read_idx(folder / f"{stem}-images-idx3-ubyte.gz")
        labels = read_idx(folder / f"{stem}-labels-idx1-ubyte.gz")
        chosen = first_of_each_class(labels, count)
        arrays[f"{part}_x"], arrays[f"{part}_y"] = images[chosen], labels[chosen]
    write_npz(target, arrays)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
