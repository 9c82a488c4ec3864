"""An update with a memory of a million images against one with a memory of 200, and an encoded memory against a raw."""

from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bench.ratio import Ratio, ratio, seconds
from holdfast import ERACE, ERAML, Batch, Learner, Memory, Method, Reservoir, mlp, slim_resnet18
from holdfast.memory import raw_bytes
from holdfast.memory.codecs import WebP

SHAPE, SMALL = (3, 32, 32), (1, 16, 16)
CHUNK, MANY, FEW = 10_000, 1_000_000, 200
Images = NDArray[np.uint8]


class WebPOnce(WebP):
    """Encodes an image once, however often it comes: a million of them would take minutes."""

    def __init__(self) -> None:
        super().__init__()
        self._bytes: dict[bytes, bytes] = {}

    def encode(self, sample: NDArray[Any]) -> bytes:
        pixels = sample.tobytes()
        if pixels not in self._bytes:
            self._bytes[pixels] = super().encode(sample)
        return bytes(bytearray(self._bytes[pixels]))  # each in memory of its own


@cache
def images(shape: tuple[int, ...], number: int) -> Images:
    """Smooth, as photographs are."""
    rng = np.random.default_rng(0)
    coarse = torch.from_numpy(rng.uniform(0, 256, (number, shape[0], 4, 4)))
    smooth = torch.nn.functional.interpolate(coarse, shape[1:], mode="bilinear") + torch.from_numpy(
        rng.normal(0, 6, (number, *shape))
    )
    return smooth.clamp(0, 255).byte().numpy()


def filled(learner: Learner, samples: Images, offered: int) -> Learner:
    """With a memory of ten classes."""
    learner.observe(samples[:10], list(range(10)))
    batch, rng = Batch(torch.from_numpy(samples), torch.arange(len(samples)) % 10), np.random.default_rng(0)
    while learner.memory.offered < offered:
        learner.memory.add(batch, rng)
    return learner


def small_against_large(method: Method, memories: dict[str, Memory], samples: Images, offered: int) -> float:
    shape, y = samples.shape[1:], list(range(10))
    small, large = (
        filled(Learner(mlp(shape), method, memory=memory, lr=0.01), samples, number)
        for memory, number in ((memories["small"], 2 * FEW), (memories["large"], offered))
    )
    times = seconds(
        {"small": lambda: small.observe(samples[:10], y), "large": lambda: large.observe(samples[:10], y)}, rounds=500
    )
    return ratio(times, "large", "small")


def bench() -> list[Ratio]:
    rows = []
    for method in (ERACE(), ERAML()):
        memories: dict[str, Memory] = {"small": Reservoir(FEW), "large": Reservoir(MANY)}
        value = small_against_large(method, memories, images(SHAPE, CHUNK), MANY)
        rows.append(Ratio(f"{type(method).__name__} update with a memory of {MANY:,} / {FEW}", value, 1.1))
    rows += [_encoded_small_against_large(), _encoded_against_raw()]
    return rows


def _encoded_small_against_large() -> Ratio:
    samples, codec = images(SMALL, CHUNK), WebPOnce()
    fits = Reservoir(10, codec=codec)
    fits.add(Batch(torch.from_numpy(samples), torch.zeros(CHUNK, dtype=torch.int64)), np.random.default_rng(0))
    each = fits.nbytes / len(fits)
    memories: dict[str, Memory] = {
        name: Reservoir(nbytes=int(each * number), codec=codec) for name, number in (("small", FEW), ("large", MANY))
    }
    value = small_against_large(ERACE(), memories, samples, int(1.02 * MANY))
    held = len(memories["large"])
    return Ratio(f"ERACE update with {held:,} encoded / {len(memories['small'])}", value, 1.1)


def _encoded_against_raw() -> Ratio:
    """Late in a stream of 50,000, where one incoming sample in forty is encoded and ten replayed ones are decoded."""
    samples, y = images(SHAPE, 2000), list(range(10))
    nbytes = FEW * raw_bytes(SHAPE, samples.dtype)
    memories = {"raw": Reservoir(FEW), "encoded": Reservoir(nbytes=nbytes, codec="webp:75")}
    learners = {
        name: filled(Learner(slim_resnet18(), ERACE(), memory=memory, lr=0.01), samples, 50_000)
        for name, memory in memories.items()
    }
    ways = {name: lambda learner=learner: learner.observe(samples[:10], y) for name, learner in learners.items()}
    value = ratio(seconds(ways, rounds=60), "encoded", "raw")
    return Ratio(f"ER-ACE update, {len(memories['encoded'])} WebP / {FEW} raw in the same bytes", value, 1.03)
