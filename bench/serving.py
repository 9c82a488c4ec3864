"""The learner as people deploy it: in a folder, behind scikit-learn, asked while it learns."""

import statistics
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

import holdfast
from bench.ratio import Ratio, ratio, seconds
from holdfast import ERACE, Learner, mlp, slim_resnet18
from holdfast.sklearn import OnlineClassifier

X = np.random.default_rng(0).integers(0, 256, (10, 3, 32, 32), np.uint8)
Y = list(range(10))
QUESTIONS = 300


def bench() -> Iterator[Ratio]:
    yield from _shells()
    yield _progress()
    yield from _on_a_tiny_net()
    yield _questions_while_learning()


def _progress() -> Ratio:
    """An answer a sample: of the 20 samples of a step, forward and backward, 10 are forwarded once more."""
    plain, watched = (Learner(slim_resnet18(), ERACE(), memory=200, progress=progress) for progress in (0, 1000))
    times = seconds({"plain": lambda: plain.observe(X, Y), "watched": lambda: watched.observe(X, Y)}, rounds=40)
    return Ratio("update with progress=1000 / without", ratio(times, "watched", "plain"), 1.3)


def _on_a_tiny_net() -> Iterator[Ratio]:
    """Where the disk weighs most: a step takes about a millisecond, an fsync on a solid-state disk about as long."""
    x = X[:, 0, 0, :8].astype(np.float32)
    with TemporaryDirectory() as folder:
        learners = {"plain": Learner(mlp((8,)), ERACE(), memory=200)}
        for name, sync_every in (("each", 0.0), ("often", 0.1)):
            learners[name] = holdfast.open(Path(folder) / name, mlp((8,)), ERACE(), memory=200, sync_every=sync_every)
        times = seconds({name: partial(learner.observe, x, Y) for name, learner in learners.items()}, rounds=200)
    yield Ratio("the same on a tiny net, synced each", ratio(times, "each", "plain"), 3)
    yield Ratio("the same on a tiny net, synced every 100 ms", ratio(times, "often", "plain"), 1.3)


def _shells() -> Iterator[Ratio]:
    plain = Learner(slim_resnet18(), ERACE(), memory=200)
    estimator = OnlineClassifier("er-ace", memory=200, encoder="slim-resnet18")
    with TemporaryDirectory() as folder:
        each, often = (
            holdfast.open(Path(folder) / name, slim_resnet18(), ERACE(), memory=200, sync_every=sync_every)
            for name, sync_every in (("each", 0.0), ("often", 0.1))
        )
        times = seconds(
            {
                "plain": lambda: plain.observe(X, Y),
                "synced each": lambda: each.observe(X, Y),
                "synced every 100 ms": lambda: often.observe(X, Y),
                "partial_fit": lambda: estimator.partial_fit(X, Y),
            },
            rounds=40,
        )
        each.close()
        often.close()
    yield Ratio("durable update, synced each / plain", ratio(times, "synced each", "plain"), 1.15)
    yield Ratio("durable update, synced every 100 ms / plain", ratio(times, "synced every 100 ms", "plain"), 1.15)
    yield Ratio("OnlineClassifier.partial_fit / Learner.observe", ratio(times, "partial_fit", "plain"), 1.05)


def _questions_while_learning() -> Ratio:
    """p99 of one image while another thread learns, against twice that of an idle learner and one forward."""
    learner = Learner(slim_resnet18(), ERACE(), memory=200)
    learner.observe(X, Y)
    idle = _answer_times(learner)
    done = threading.Event()

    def learn() -> None:
        while not done.is_set():
            learner.observe(X, Y)

    thread = threading.Thread(target=learn, daemon=True)
    thread.start()
    busy = _answer_times(learner)
    done.set()
    thread.join()
    allowed = 2 * float(np.quantile(idle, 0.99)) + statistics.median(idle)
    return Ratio(
        "p99 of an answer while learning / (2 × idle + a forward)", float(np.quantile(busy, 0.99)) / allowed, 1
    )


def _answer_times(learner: Learner) -> NDArray[np.float64]:
    times = []
    for _ in range(QUESTIONS):
        start = time.perf_counter()
        learner.predict(X[:1])
        times.append(time.perf_counter() - start)
        time.sleep(0.005)
    return np.array(times)
