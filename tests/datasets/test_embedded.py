import gzip
import runpy
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets.embedded import fashion
from holdfast.datasets.integrity import verify

SCRIPT = Path(__file__).parents[2] / "scripts/make_embedded.py"


def test_fashion_is_balanced_and_complete() -> None:
    dataset = fashion()
    assert dataset.train_x.shape == (5000, 1, 28, 28)
    assert dataset.test_x.shape == (1000, 1, 28, 28)
    assert dataset.train_x.dtype == np.uint8
    assert np.bincount(dataset.train_y).tolist() == [500] * 10
    assert np.bincount(dataset.test_y).tolist() == [100] * 10
    assert dataset.classes[0] == "T-shirt/top"
    assert dataset.classes[-1] == "Ankle boot"


def test_fashion_is_the_data_it_is_said_to_be(tmp_path: Path) -> None:
    verify("fashion", tmp_path)


def test_fashion_has_no_image_in_both_parts() -> None:
    dataset = fashion()
    train = {image.tobytes() for image in dataset.train_x}
    assert sum(image.tobytes() in train for image in dataset.test_x) == 0


def write_idx(path: Path, array: NDArray[np.uint8]) -> None:
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    path.write_bytes(gzip.compress(header + array.tobytes()))


def test_the_maker_takes_the_first_of_each_class_and_always_gives_the_same_bytes(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    labels = random.permutation(np.repeat(np.arange(10, dtype=np.uint8), 510))
    images = random.integers(0, 256, (len(labels), 2, 2), np.uint8)
    for stem in ("train", "t10k"):
        write_idx(tmp_path / f"{stem}-images-idx3-ubyte.gz", images)
        write_idx(tmp_path / f"{stem}-labels-idx1-ubyte.gz", labels)
    make = runpy.run_path(str(SCRIPT))["main"]
    made = [tmp_path / "first.npz", tmp_path / "second.npz"]
    for target in made:
        make(tmp_path, target)
    assert made[0].read_bytes() == made[1].read_bytes()
    with np.load(made[0], allow_pickle=False) as arrays:
        assert np.bincount(arrays["test_y"]).tolist() == [100] * 10
        for label in range(10):
            expected = images[labels == label][:500]
            assert (arrays["train_x"][arrays["train_y"] == label] == expected).all()
