"""Files that somebody changed: bytes anywhere, or what they say, with checksums that are right."""

import copy
import json
import random
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save
from torch import Tensor

from holdfast import ERACE, Learner, Reservoir, export_memory, import_memory, mlp
from holdfast.durable import log
from holdfast.errors import CheckpointError, HoldfastError
from holdfast.storage import checkpoint
from reliability import durable_learner
from reliability.outcome import counted
from reliability.stage import contents, put_back
from reliability.watch import Watch

DEEP = "[" * 50_000 + "]" * 50_000
STRANGE: list[Any] = [
    *(None, True, -1, 0, 3, 2**31, 2**70, 1e300, float("nan"), "", "os.system", "torch.load", "../../x"),
    *([], {}, [[]], [2**40, 2**40], [-1], {"name": "os.system"}, {"tuple": 3}, {"bytes": "x"}, {"__class__": "os"}),
    *(["a"] * 1000, {"width": 10**9}, {str(i): i for i in range(100)}),
]
Forge = Callable[[bytes, random.Random], bytes]


def change_bytes(content: bytes, rng: random.Random) -> bytes:
    """Some are changed, put in or taken out."""
    forged = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        place, size = rng.randrange(len(forged)), rng.choice((1, 1, 8, 100))
        forged[place : place + rng.choice((0, size))] = rng.choice((b"", rng.randbytes(size), b"\xff" * size))
    return bytes(forged)


def change_values(content: bytes, rng: random.Random) -> bytes:
    """One value of the manifest is another one, or missing."""
    tensors, manifest = checkpoint.unpack(content)
    holder, key = rng.choice(list(places(manifest)))
    if rng.random() < 0.2:
        del holder[key]
    else:
        holder[key] = copy.deepcopy(rng.choice(STRANGE))
    return checkpoint.pack(tensors, manifest)


def change_tensors(content: bytes, rng: random.Random) -> bytes:
    """One is missing, another's, or of another shape or type."""
    tensors, manifest = checkpoint.unpack(content)
    name = rng.choice(sorted(tensors))
    tensor = tensors.pop(name)
    if rng.random() < 0.8:
        tensors[rng.choice((name, name, name + "/x", "net/x", "optimizer/7/x"))] = rng.choice(_others(tensor))
    return checkpoint.pack(tensors, manifest)


def change_text(content: bytes, rng: random.Random) -> bytes:
    """The manifest is something else altogether."""
    tensors, _ = checkpoint.unpack(content)
    text = rng.choice((DEEP, "", "null", "[]", "3", "{", '{"format": "x"}', '{"format": 1}', f'{{"format": {DEEP}}}'))
    return save(tensors, {checkpoint.KEY: checkpoint.digest(tensors, text) + text})


def change_header(content: bytes, rng: random.Random) -> bytes:
    """What comes before the tensors is something else."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    holder, key = rng.choice(list(places(header)))
    holder[key] = copy.deepcopy(rng.choice([*STRANGE, {"dtype": "F32", "shape": [2**62], "data_offsets": [0, 2**64]}]))
    text = rng.choice((json.dumps(header), DEEP)).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + size :]


def change_sizes(content: bytes, rng: random.Random) -> bytes:
    """All sizes are such as a machine may just have."""
    tensors, manifest = checkpoint.unpack(content)
    size = rng.choice((6000, 20_000, 10**9))
    for holder, key in places(manifest):
        if type(holder[key]) is int and key not in ("format", "log"):
            holder[key] = size
    return checkpoint.pack(tensors, manifest)


FORGERIES: list[Forge] = [
    *(change_bytes, change_values, change_values, change_tensors),
    *(change_text, change_header, change_sizes),
]


@counted
def forged_files(effort: int) -> Iterator[str | None]:
    """Refused with an error of ours, or read; nothing is run, imported or written, and it costs little."""
    for trial in FORGED.values():
        trial(lambda content, _: content, random.Random())  # what is needed anyway is imported now
    for number, forge in enumerate(FORGERIES * (40 * effort)):
        rng = random.Random(f"{effort} {number}")
        for what, trial in FORGED.items():
            if what in ("checkpoint", "encoded images") or number % 5 == 0:
                flaw = trial(forge, rng)
                yield f"{what} number {number}, {forge.__name__}: {flaw}" if flaw else None


def forged_checkpoint(forge: Forge, rng: random.Random) -> str | None:
    with TemporaryDirectory() as name:
        file = Path(name) / "learner"
        file.write_bytes(forge(learner().serialized(), rng))
        loaded: list[Learner] = []
        flaw = Watch(CheckpointError).flaw(lambda: loaded.append(Learner.load(file)))
        return flaw or next((Watch(HoldfastError).flaw(partial(use, each)) for each in loaded), None)


def forged_images(forge: Forge, rng: random.Random) -> str | None:
    """A checkpoint whose memory holds encoded images, some of which may be other bytes as well."""
    with TemporaryDirectory() as name:
        file = Path(name) / "learner"
        tensors, manifest = checkpoint.unpack(viewer().serialized())
        held = tensors["memory/encoded"]
        for place in (rng.randrange(len(held)) for _ in range(rng.choice((0, 1, 20)))):
            held[place] = rng.randrange(256)
        file.write_bytes(forge(checkpoint.pack(tensors, manifest), rng))
        loaded: list[Learner] = []
        flaw = Watch(CheckpointError).flaw(lambda: loaded.append(Learner.load(file)))
        return flaw or next((Watch(HoldfastError).flaw(partial(look, each)) for each in loaded), None)


def look(learner: Learner) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the memory holds a sample", RuntimeWarning)  # that is blank
        for number in range(3):
            learner.observe(*pictures(number))
    learner.predict(pictures(0)[0])
    learner.serialized()


def use(learner: Learner) -> None:
    """What a file gives works, or is refused in words of ours when it is asked for something it cannot do."""
    for number in range(3):
        learner.observe(*durable_learner.batch(number))
    learner.predict(durable_learner.batch(0)[0])
    learner.tell(learner.ask(durable_learner.batch(3)[0]), durable_learner.batch(3)[1])
    learner.forget(learner.classes[0])
    learner.serialized()


def forged_memory(forge: Forge, rng: random.Random) -> str | None:
    with TemporaryDirectory() as name:
        file = Path(name) / "memory"
        there = copy.deepcopy(learner())
        export_memory(there, file)
        file.write_bytes(forge(file.read_bytes(), rng))
        watch = Watch(HoldfastError)
        flaw = watch.flaw(lambda: import_memory(there, file))
        changed = there.state_hash() != learner().state_hash()
        return flaw or ("refused, but changed" if watch.refused and changed else None)


def forged_log(forge: Forge, rng: random.Random) -> str | None:
    """An entry of the log of a durable learner, in a frame that fits it."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        forged = {folder / path: content for path, content in durable_files().items()}
        (file,) = (path for path in forged if path.name.startswith("log."))
        identity = log.Identity(*log.HEAD.unpack(forged[file][: log.HEAD.size])[1:3])
        entries = log.examined(forged[file], identity).entries
        chosen = rng.randrange(len(entries))
        entries[chosen] = forge(entries[chosen], rng)
        forged[file] = written(entries, identity)
        put_back(folder, forged)
        watch = Watch(CheckpointError, may_write=durable_learner.folder_of(folder))
        flaw = watch.flaw(lambda: durable_learner.opened(folder).close())
        return flaw or ("refused, but changed" if watch.refused and contents(folder) != forged else None)


def written(entries: list[bytes], identity: log.Identity) -> bytes:
    """A log with these entries, as it would stand in a file."""
    whole, chain = identity.head, identity.salt
    for entry in entries:
        frame, chain = log.framed(entry, len(whole), 0, identity.salt, chain)
        whole += frame + entry
    return whole


@cache
def learner() -> Learner:
    learner = Learner(mlp((3,), width=4), ERACE(), memory=5)
    for number in range(3):
        learner.observe(*durable_learner.batch(number))
    learner.ask(durable_learner.batch(3)[0])
    return learner


def pictures(number: int) -> tuple[NDArray[np.uint8], list[str]]:
    rng = np.random.default_rng(number)
    slopes = np.linspace(0, rng.integers(0, 200, (4, 3, 1)), 12, axis=-1).astype(np.uint8)
    return slopes.repeat(12, 2), [f"class {label}" for label in rng.integers(0, 4, 4)]


@cache
def viewer() -> Learner:
    """With a memory of encoded images."""
    memory = Reservoir(nbytes=1500, codec="webp:75")
    learner = Learner(mlp((3, 12, 12), width=4), ERACE(), memory=memory, lr=0.01)
    for number in range(5):
        learner.observe(*pictures(number))
    return learner


@cache
def durable_files() -> dict[Path, bytes]:
    """The files of a durable learner, by their paths inside the folder."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        with durable_learner.opened(folder) as learner:
            for operation in durable_learner.OPERATIONS[:3]:
                operation(learner)
        return {path.relative_to(folder): content for path, content in contents(folder).items()}


def places(values: Any) -> Iterator[tuple[Any, Any]]:
    """Every value inside, as what holds it and its key there."""
    for key, value in list(values.items() if isinstance(values, dict) else enumerate(values)):
        yield values, key
        if isinstance(value, dict | list):
            yield from places(value)


def _others(tensor: Tensor) -> list[Tensor]:
    wide = torch.empty(0, 2**40)
    rows = tensor if tensor.ndim else tensor[None]
    shapes = [tensor.flatten(), tensor[None], rows[:0], torch.cat([rows, rows]), wide, torch.tensor(1.0)]
    return [*shapes, tensor.double(), tensor.to(torch.int64), tensor.to(torch.int32) - 7, torch.full_like(tensor, 99)]


FORGED = {
    "checkpoint": forged_checkpoint,
    "encoded images": forged_images,
    "log": forged_log,
    "memory": forged_memory,
}
