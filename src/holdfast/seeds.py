"""All randomness comes from here.

A draw is a pure function of (seed, purpose, step): there is no generator state to save, evaluating cannot
disturb training, and a resumed run is the same run. Philox is counter-based, so two different triples never
share a sequence.
"""

import hashlib
from typing import TYPE_CHECKING

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch


class _Key(ISeedSequence):
    """The key of a Philox as it is. With key=..., numpy would make another from the system's entropy first."""

    def __init__(self, key: bytes) -> None:
        self._key = np.frombuffer(key, np.uint64)

    def generate_state(self, n_words: int, dtype: object = np.uint64) -> NDArray[np.uint64]:
        return self._key


def generator(seed: int, purpose: str, step: int = 0) -> np.random.Generator:
    key = hashlib.blake2b(f"{seed}/{purpose}".encode(), digest_size=16).digest()
    counter = np.array([0, 0, 0, step], np.uint64)
    return np.random.Generator(np.random.Philox(_Key(key), counter=counter))  # type: ignore[arg-type]


class torch_seeded:
    """For what draws from torch's own generators (weight init, dropout): seeded inside, outside as they were."""

    def __init__(self, seed: int, purpose: str, step: int = 0, device: "torch.device | None" = None) -> None:
        self._cuda = device if device is not None and device.type == "cuda" else None
        self._number = int(generator(seed, purpose, step).integers(2**63))

    def __enter__(self) -> None:
        import torch

        self._before = torch.default_generator.get_state()
        # torch.manual_seed would queue a call, with its traceback, for every backend that is not in use.
        torch.default_generator.manual_seed(self._number)
        if self._cuda is not None:
            self._before_on_cuda = torch.cuda.get_rng_state(self._cuda)
            torch.cuda.manual_seed(self._number)

    def __exit__(self, *how: object) -> None:
        import torch

        torch.default_generator.set_state(self._before)
        if self._cuda is not None:
            torch.cuda.set_rng_state(self._before_on_cuda, self._cuda)
