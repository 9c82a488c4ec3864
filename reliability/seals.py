"""Forged files whose checksums are right, of learners of many kinds."""

import copy
import math
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor

from holdfast import ER, ERACE, SSIL, DERPlusPlus, ICaRL, Learner, Method, mlp, small_cnn
from holdfast.durable import DurableLearner
from holdfast.errors import CheckpointError, HoldfastError, OtherBits, WriteError
from holdfast.samples import Samples
from holdfast.storage import checkpoint
from reliability import durable_learner
from reliability.forgeries import (
    Forge,
    change_sizes,
    change_tensors,
    change_text,
    change_values,
    durable_files,
    forged_log,
    places,
)
from reliability.outcome import counted
from reliability.stage import contents, put_back
from reliability.watch import Watch

SECONDS, KIBIBYTES = 1.0, 2**18
EXTREMES = (float("nan"), float("inf"), -1.0, 0.0, 1e38, 255.0, 2.0**31, -(2.0**62))


@dataclass(frozen=True)
class Kind:
    method: Method
    encoder: Callable[[], torch.nn.Module]
    shape: tuple[int, ...]
    optimizer: Any = None

    def batch(self, number: int) -> tuple[Samples, list[str]]:
        rng = np.random.default_rng(number)
        x = rng.standard_normal((4, *self.shape)).astype(np.float32) if len(self.shape) == 1 else None
        images = rng.integers(0, 256, (4, *self.shape), np.uint8)
        return images if x is None else x, [f"class {rng.integers(number + 2)}" for _ in range(4)]

    def observe(self, learner: Learner, number: int) -> None:
        learner.observe(*self.batch(number), task=number // 2)

    @cache  # noqa: B019
    def content(self) -> bytes:
        """The file of such a learner."""
        settings = {"memory": 6, "pending": 3, "classes": 0, "optimizer": self.optimizer}
        learner = Learner(self.encoder(), self.method, **settings)
        for number in range(4):
            self.observe(learner, number)
        learner.ask(self.batch(9)[0])
        return learner.serialized()

    def use(self, learner: Learner) -> None:
        """It works, or refuses what it cannot do in words of ours."""
        for number in (4, 5):
            self.observe(learner, number)
        learner.predict(self.batch(0)[0])
        learner.tell(learner.ask(self.batch(9)[0]), self.batch(9)[1], task=2)
        learner.forget(learner.classes[0])
        learner.serialized()


KINDS = (
    Kind(ERACE(), partial(mlp, (3,), width=4), (3,)),
    Kind(DERPlusPlus(), partial(mlp, (3,), width=4), (3,), partial(torch.optim.SGD, lr=0.01, momentum=0.9)),
    Kind(ICaRL(), partial(mlp, (3,), width=4), (3,)),
    Kind(SSIL(), partial(mlp, (3,), width=4), (3,)),
    Kind(ER(), partial(small_cnn, (1, 8, 8), width=2), (1, 8, 8), partial(torch.optim.Adam, lr=0.01)),
)


def nudge_values(content: bytes, rng: random.Random) -> bytes:
    """A number of the manifest is a little different, or another of its values."""
    tensors, manifest = checkpoint.unpack(content)
    everywhere = list(places(manifest))
    holder, key = rng.choice([each for each in everywhere if type(each[0][each[1]]) in (int, float)] or everywhere)
    other, of_other = rng.choice(everywhere)
    near = [holder[key] + 1, holder[key] - 1, holder[key] * 2, -holder[key], float(holder[key])]
    holder[key] = rng.choice([*near, copy.deepcopy(other[of_other])])
    return checkpoint.pack(tensors, manifest)


def nudge_tensors(content: bytes, rng: random.Random) -> bytes:
    """Some numbers in a tensor are others."""
    tensors, manifest = checkpoint.unpack(content)
    name = rng.choice([name for name, tensor in tensors.items() if tensor.numel()] or sorted(tensors))
    flat = tensors[name].flatten().clone()
    for _ in range(rng.choice((1, 1, 5)) if len(flat) else 0):
        flat[rng.randrange(len(flat))] = fitting(rng.choice(EXTREMES), flat)
    tensors[name] = flat.reshape(tensors[name].shape)
    return checkpoint.pack(tensors, manifest)


def fitting(value: float, sample_template: Tensor) -> float:
    """As near to it as such a tensor can have it."""
    if sample_template.is_floating_point():
        return value
    limits = torch.iinfo(sample_template.dtype) if sample_template.dtype != torch.bool else None
    whole = 0 if math.isnan(value) else int(max(-(2.0**62), min(2.0**62, value)))
    return whole if limits is None else max(limits.min, min(limits.max, whole))


def swap_tensors(content: bytes, rng: random.Random) -> bytes:
    """Two have each other's place, or rows in another order."""
    tensors, manifest = checkpoint.unpack(content)
    first, second = rng.choice(sorted(tensors)), rng.choice(sorted(tensors))
    if first == second:
        tensors[first] = tensors[first].flip(0) if tensors[first].ndim else tensors[first]
    tensors[first], tensors[second] = tensors[second], tensors[first]
    return checkpoint.pack(tensors, manifest)


SEALED: list[Forge] = [
    *(change_values, change_tensors, change_sizes, nudge_values, nudge_tensors, swap_tensors),
    *(nudge_values, nudge_tensors),
]


@counted
def forged_with_right_checksums(effort: int) -> Iterator[str | None]:
    """Refused within a second and 256 MiB, or a learner that works; nothing is run, imported or written."""
    for kind in KINDS:
        forged(kind, kind.content())  # what is needed anyway is imported now
    for number in range(210 * effort**2):
        rng = random.Random(f"{effort} {number}")
        kind = KINDS[number % len(KINDS)]
        content, forges = kind.content(), rng.choices(SEALED, k=rng.choice((1, 1, 2, 3)))
        if number % 20 == 0:
            forges.append(change_text)
        with suppress(CheckpointError):  # nobody goes on with what is refused already
            for forge in forges:
                content = forge(content, rng)
        flaw = forged(kind, content)
        yield f"{kind.method}, number {number}, {[forge.__name__ for forge in forges]}: {flaw}" if flaw else None


@counted
def folders_forged_with_right_checksums(effort: int) -> Iterator[str | None]:
    """The same of what stands in the folder of a durable learner: an entry of its log, or the learner itself."""
    for number in range(30 * effort**2):
        rng = random.Random(f"{effort} {number} folder")
        forge = rng.choice([*SEALED, change_text])
        flaw = (forged_log if number % 3 else forged_home)(forge, rng)
        yield f"folder number {number}, {forge.__name__}: {flaw}" if flaw else None


def forged_home(forge: Forge, rng: random.Random) -> str | None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        files = {folder / path: content for path, content in durable_files().items()}
        file = durable_learner.folder_of(folder) / "learner"
        put_back(folder, files | {file: forge(files[file], rng)})
        before = contents(folder)
        watch = Watch(CheckpointError, durable_learner.folder_of(folder), SECONDS, KIBIBYTES)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OtherBits)  # a file may say that it comes from anywhere
            flaw = watch.flaw(lambda: use(durable_learner.opened(folder)))
        return flaw or ("refused, but changed" if watch.refused and contents(folder) != before else None)


def use(learner: DurableLearner) -> None:
    with learner, suppress(WriteError):
        learner.observe(*durable_learner.batch(5))


def forged(kind: Kind, content: bytes) -> str | None:
    with TemporaryDirectory() as name:
        file = Path(name) / "learner"
        file.write_bytes(content)
        load = partial(Learner.load, file, optimizer=kind.optimizer)
        loaded: list[Learner] = []
        flaw = cheap(CheckpointError, lambda: loaded.append(load()))
        return flaw or next((cheap(HoldfastError, lambda: kind.use(load())) for _ in loaded[:1]), None)


def cheap(refusal: type[Exception], call: Callable[[], object]) -> str | None:
    """What is wrong with it; a slow one is given a second chance, because the machine may have been busy."""
    for _ in range(2):
        watch = Watch(refusal, seconds=SECONDS, kibibytes=KIBIBYTES)
        flaw = watch.flaw(call)
        if not watch.was_slow:
            break
    return flaw
