"""Which precision the fast path takes. What a processor announces is not believed but tried, on the net at hand."""

import hashlib
import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import torch
from filelock import FileLock
from platformdirs import user_cache_path
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from holdfast import machine
from holdfast.errors import HoldfastError, UnknownName
from holdfast.measure import trial
from holdfast.storage import files

Name = Literal["float32", "bf16"]
CHOICES = ("auto", *get_args(Name))
VARIABLE = "HOLDFAST_PRECISION"

WORTH_TRYING = 5_000_000  # multiply-adds of a sample: below, a whole run gains less than the trial takes
FASTER = 1.2  # times as fast, or it is not worth being less exact
DIFFERENCE = 0.05  # of a sample's features from those in float32, relative; holdfast doctor shows what bf16 gives here
ROUNDS = 5
MEASURED: dict[str, int] = {}  # multiply-adds of a sample, by the kind of net, for all runs of this process
SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Precision:
    name: Name
    why: str


def asked(option: str | None) -> str:
    """The option, else the environment variable, else auto."""
    choice = option or os.environ.get(VARIABLE) or "auto"
    if choice not in CHOICES:
        raise UnknownName("precision" if option else f"precision in ${VARIABLE}", choice, CHOICES)
    return choice


def choose(
    choice: str, encoder: nn.Module, build: Callable[[Name], nn.Module], samples: Tensor, *, anew: bool = False
) -> Precision:
    """`build` makes a copy of the encoder in a precision; `samples` are real ones, as many as are asked at a time.

    With `anew`, what was found before does not count.
    """
    if choice != "auto":
        return Precision(choice, "as asked for")  # type: ignore[arg-type]
    if samples.device.type != "cpu":
        return Precision("float32", f"the net is on {samples.device.type}")
    kind = f"{encoder} {[tuple(parameter.shape) for parameter in encoder.parameters()]} {tuple(samples.shape)}"
    if len(samples) == 0 or _macs(encoder, kind, samples[:1]) < WORTH_TRYING:
        return Precision("float32", "the net is too small for less precision to matter")
    if not trial.possible():
        return Precision("float32", "bf16 cannot be tried safely on this system")
    find = partial(tried, build("float32"), partial(build, "bf16"), samples)
    return find() if anew else _cached(_key(kind), find)


def tried(plain: nn.Module, build: Callable[[], nn.Module], samples: Tensor, seconds: float = SECONDS) -> Precision:
    """bf16 if it works here, agrees with float32 and is faster by a margin. Nothing can happen to this process."""

    def compare() -> tuple[float, float]:
        torch.set_num_threads(1)  # a forked child has none of its parent's threads, and would wait for them
        return _compared(plain, build(), samples)

    try:
        speed, difference = map(float, trial.in_child(compare, seconds))
    except (trial.TrialFailed, TypeError, ValueError) as error:
        return Precision("float32", f"bf16 does not work here: {error}")
    if not difference <= DIFFERENCE:
        return Precision("float32", f"bf16 gives wrong answers here: they differ by {100 * difference:.1f} %")
    if not speed >= FASTER:
        return Precision("float32", f"bf16 is {speed:.2f} times as fast here, which is not worth it")
    return Precision("bf16", f"{speed:.1f} times as fast as float32 here, features within {100 * difference:.1f} %")


@torch.inference_mode()
def _compared(plain: nn.Module, other: nn.Module, samples: Tensor) -> tuple[float, float]:
    """How many times as fast the other one is, and by how much its features differ at most, relative to their size."""
    exact, close = plain(samples).float(), other(samples).float()
    difference = (exact - close).norm(dim=1) / exact.norm(dim=1).clamp(min=1e-6)
    ratios = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        plain(samples)
        halfway = time.perf_counter()
        other(samples)
        ratios.append((halfway - started) / (time.perf_counter() - halfway))
    return statistics.median(ratios), float(difference.nan_to_num(nan=torch.inf).max())


def _macs(encoder: nn.Module, kind: str, sample: Tensor) -> int:
    if kind not in MEASURED:
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            encoder(sample)
        MEASURED[kind] = int(counter.get_total_flops()) // 2
    return MEASURED[kind]


def _key(kind: str) -> str:
    return hashlib.sha256(repr([kind, torch.__version__, machine.key()]).encode()).hexdigest()[:24]


def _cached(key: str, find: Callable[[], Precision]) -> Precision:
    """What was found the first time, by whichever process was the first: runs side by side take the same."""
    file = folder() / f"{key}.json"
    try:
        files.make_folder(file.parent)
        with FileLock(file.with_suffix(".lock"), timeout=2 * SECONDS):
            if (known := _read(file)) is None:
                known = find()
                files.write(file, json.dumps(asdict(known)).encode())
            return known
    except (OSError, HoldfastError):  # a folder that cannot be written costs a trial each time, no more
        return find()


def folder() -> Path:
    """Where the outcomes of trials are cached."""
    return user_cache_path("holdfast") / "precision"


def _read(file: Path) -> Precision | None:
    try:
        known = Precision(**json.loads(file.read_text()))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    return known if known.name in get_args(Name) and isinstance(known.why, str) else None
