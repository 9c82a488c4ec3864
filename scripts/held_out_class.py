"""How well classes that were never seen are told from known ones: every class in turn is held out of the stream.

    python scripts/held_out_class.py [cifar10]

Learns the embedded images, or those of another stream, with ER-ACE and 20 samples a class in memory, without the
class that is held out; takes the threshold from the memory; asks about the test images of all classes.
"""

import sys
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from holdfast import ERACE, Learner, datasets
from holdfast.datasets.base import Dataset
from holdfast.datasets.get import data_root
from holdfast.nets import NETS, default_net
from holdfast.report.statistics import mean_and_error
from holdfast.streams import split

ACCEPT = 0.95


def without(dataset: Dataset, label: int) -> Dataset:
    """Trains on the other classes only."""
    kept = dataset.train_y != label
    return replace(dataset, train_x=dataset.train_x[kept], train_y=dataset.train_y[kept])


def learn(dataset: Dataset, seed: int) -> Learner:
    stream = split(dataset, tasks=5, seed=seed)
    learner = Learner(
        NETS[default_net(dataset.sample_shape)](dataset.sample_shape, seed=seed), ERACE(), memory=180, seed=seed
    )
    for i in range(len(stream)):
        x, y, _ = stream.batch(i)
        learner.observe(x, y)
    return learner


def area_under_curve(known: NDArray[np.float32], unknown: NDArray[np.float32]) -> float:
    """How probable it is that a known sample is more similar to its class than an unknown one to any."""
    order = np.argsort(np.concatenate([unknown, known]), kind="stable")
    ranks = np.empty(len(order))
    ranks[order] = np.arange(1, len(order) + 1)
    return float((ranks[len(unknown) :].sum() - len(known) * (len(known) + 1) / 2) / (len(known) * len(unknown)))


def main() -> None:
    dataset = datasets.load(sys.argv[1] if len(sys.argv) > 1 else "fashion", data_root())
    print(f"{'held out':16} {'area':>6} {'known accepted':>15} {'unknown rejected':>17}")
    figures = []
    for label, name in enumerate(dataset.classes):
        learner = learn(without(dataset, label), seed=0)
        threshold = learner.rejection_threshold(ACCEPT)
        held_out = dataset.test_y == label
        known, unknown = learner.similarity(dataset.test_x[~held_out]), learner.similarity(dataset.test_x[held_out])
        figures.append((area_under_curve(known, unknown), (known >= threshold).mean(), (unknown < threshold).mean()))
        area, accepted, rejected = figures[-1]
        print(f"{name:16} {area:6.3f} {accepted:15.1%} {rejected:17.1%}", flush=True)
    area, accepted, rejected = (mean_and_error(column)[0] for column in zip(*figures, strict=True))
    print(f"{'mean':16} {area:6.3f} {accepted:15.1%} {rejected:17.1%}")


if __name__ == "__main__":
    main()
