"""The dataset inside the package, so that everything can be tried without a download."""

from importlib import resources

import numpy as np

from holdfast.datasets.base import Dataset

CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
TRAIN_PER_CLASS, TEST_PER_CLASS = 500, 100
SAMPLE_SHAPE = (1, 28, 28)


def fashion() -> Dataset:
    """Fashion-MNIST's first 500 training and 100 test images of each class, in their original order."""
    file = resources.files("holdfast.datasets") / "fashion.npz"
    with file.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        return Dataset(
            name="fashion",
            classes=CLASSES,
            train_x=arrays["train_x"].reshape(-1, *SAMPLE_SHAPE),
            train_y=arrays["train_y"].astype(np.int64),
            test_x=arrays["test_x"].reshape(-1, *SAMPLE_SHAPE),
            test_y=arrays["test_y"].astype(np.int64),
        )
