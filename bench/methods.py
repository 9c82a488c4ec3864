"""Each method's update against ER's: time beside multiply-adds. What costs time but no arithmetic would show here."""

import numpy as np

from bench.ratio import Ratio, ratio, seconds
from holdfast import Learner, Method, slim_resnet18
from holdfast.measure.ledger import Ledger
from holdfast.methods import METHODS

NOTHING_TO_COMPUTE = {"gdumb"}  # its update only fills the memory
SAME_AS_ANOTHER = {"iid-offline"}  # the update of iid
CLASSES_A_TASK = 5


def busy(method: Method) -> Learner:
    """A learner with a full memory, in its second task."""
    learner = Learner(slim_resnet18(), method, memory=200, lr=0.001, classes=2 * CLASSES_A_TASK)
    x = np.random.default_rng(0).integers(0, 256, (100, 3, 32, 32), np.uint8)
    for task in range(2):
        learner.observe(x, (task * CLASSES_A_TASK + np.arange(100) % CLASSES_A_TASK).tolist(), task=task)
    return learner


def bench() -> list[Ratio]:
    names = [name for name in METHODS if name not in NOTHING_TO_COMPUTE | SAME_AS_ANOTHER]
    learners = {name: busy(METHODS[name]()) for name in names}
    rng = np.random.default_rng(1)
    batches = {n: rng.integers(0, 256, (n, 3, 32, 32), np.uint8) for n in (10, 20)}

    def update(name: str) -> None:
        n = 10 * max(1, METHODS[name].iid_batches)
        y = (CLASSES_A_TASK + np.arange(n) % CLASSES_A_TASK).tolist()
        learners[name].observe(batches[n], y, task=1)

    macs = {}
    for name in names:
        ledger = Ledger()
        with ledger.watch("training"):
            update(name)
        macs[name] = ledger.train_macs
    times = seconds({name: lambda name=name: update(name) for name in names}, rounds=12)  # type: ignore[misc]
    rows = []
    for name in names:
        time, work = ratio(times, name, "er"), macs[name] / macs["er"]
        rows.append(Ratio(f"{name}: {time:.2f} × ER's time, {work:.2f} × its arithmetic", abs(time / work - 1), 0.25))
    return rows
