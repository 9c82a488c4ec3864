"""CIFAR-10 in the order of the paper's released code for streams without task boundaries, as arrays in a file.

    python scripts/released_blurry.py released.npz [seed]
    holdfast run --stream arrays:released.npz:order=given ...

Its sampler (`data/base.py` of github.com/pclucas14/AML) takes the square of an exponential where a Gaussian has the
exponential of a square. Time cancels: at any moment each class is exp(1.6) times as probable as the next one, among
those that have samples left.
"""

import sys

import numpy as np
from numpy.typing import NDArray

from holdfast import datasets
from holdfast.datasets.get import data_root
from holdfast.streams.blurry import distinct_classes

RATIO = np.exp(-1.6)


def classes_in_order(counts: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    left, weight = counts.copy(), RATIO ** np.arange(len(counts))
    classes = np.empty(counts.sum(), np.int64)
    for position in range(len(classes)):
        share = np.where(left > 0, weight, 0)
        classes[position] = rng.choice(len(counts), p=share / share.sum())
        left[classes[position]] -= 1
    return classes


def main() -> None:
    path, seed = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
    cifar, rng = datasets.load("cifar10", data_root()), np.random.default_rng(seed)
    classes = classes_in_order(np.bincount(cifar.train_y), rng)
    order = np.empty(len(classes), np.int64)
    for label in range(len(cifar.classes)):
        order[classes == label] = rng.permutation(np.flatnonzero(cifar.train_y == label))
    names = np.array(cifar.classes)
    np.savez(
        path,
        train_x=cifar.train_x[order],
        train_y=names[cifar.train_y[order]],
        test_x=cifar.test_x,
        test_y=names[cifar.test_y],
    )
    alone = int((classes != classes[-1]).nonzero()[0][-1]) + 1
    print(f"{path}: {distinct_classes(classes, 10):.2f} classes a batch of 10; the last {len(classes) - alone} alike")


if __name__ == "__main__":
    main()
