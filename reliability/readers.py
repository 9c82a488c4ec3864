"""Questions from several threads while a learner learns, grows and forgets."""

import sys
import threading
from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from holdfast import ERACE, Learner
from reliability.outcome import counted

X = np.random.default_rng(0).standard_normal((20, 6)).astype(np.float32)
THREADS = 3


def learner() -> Learner:
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(6, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 16))
    return Learner(encoder, ERACE(), memory=50)


def change(learner: Learner, number: int) -> None:
    """Most are steps, every fifth brings a new class, and some classes are forgotten."""
    if number % 12 == 11:
        learner.forget(f"class {number // 12}")
        return
    rng = np.random.default_rng(number)
    known = range(number // 12, 1 + number // 5)
    learner.observe(rng.standard_normal((6, 6)).astype(np.float32), [f"class {rng.choice(known)}" for _ in range(6)])


@counted
def answers_are_of_one_step(effort: int) -> Iterator[str | None]:
    """Each answer is, bit for bit, what the learner answers between two changes."""
    changes = 60 * effort
    alone, asked = learner(), learner()
    right = set()
    for number in range(changes):
        change(alone, number)
        right.add(answer(alone))
    change(asked, 0)
    found: list[bytes] = []
    errors: list[Exception] = []
    done = threading.Event()

    def ask() -> None:
        try:
            while not done.is_set():
                found.append(answer(asked))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(THREADS)]
    often, usual = 1e-5, sys.getswitchinterval()
    sys.setswitchinterval(often)
    for thread in threads:
        thread.start()
    for number in range(1, changes):
        change(asked, number)
    done.set()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(usual)
    yield from (None if each in right else "an answer that the learner never gives alone" for each in found)
    yield from (f"{type(error).__name__}: {error}" for error in errors)
    yield None if len(set(found)) > 5 else f"only {len(set(found))} different answers"
    yield None if asked.state_hash() == alone.state_hash() else "questions changed what was learned"


def answer(learner: Learner) -> bytes:
    return learner.predict_proba(X).tobytes()
