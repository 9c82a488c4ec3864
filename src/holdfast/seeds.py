"""All randomness comes from here.

A draw is a pure function of (seed, purpose, step): there is no generator state to save, evaluating cannot
disturb training, and a resumed run is the same run. Philox is counter-based, so two different triples never
share a sequence.
"""

import hashlib

import numpy as np


def generator(seed: int, purpose: str, step: int = 0) -> np.random.Generator:
    key = hashlib.blake2b(f"{seed}/{purpose}".encode(), digest_size=16).digest()
    return np.random.Generator(
        np.random.Philox(key=np.frombuffer(key, np.uint64), counter=np.array([0, 0, 0, step], np.uint64))
    )


def torch_seed(seed: int, purpose: str, step: int = 0) -> int:
    """For the few places where torch insists on its own generator (weight init, dropout)."""
    return int(generator(seed, purpose, step).integers(2**63))
