"""`holdfast doctor`: what works on this machine and how fast it is, one line each; what to paste into a bug report."""

import argparse
import importlib
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import torch
from rich.console import Console
from torch.nn import functional as F

import holdfast
from holdfast import machine
from holdfast.datasets import listing
from holdfast.datasets.get import data_root
from holdfast.errors import DataError, HoldfastError
from holdfast.learner import Learner
from holdfast.machine import cores
from holdfast.measure import precision, trial
from holdfast.measure.inference import BATCH, suitable
from holdfast.methods import ERACE
from holdfast.nets import slim_resnet18
from holdfast.seeds import generator

State = Literal["right", "absent", "look", "wrong"]
MARKS: dict[State, str] = {"right": "[green]✓[/]", "absent": "·", "look": "[yellow]![/]", "wrong": "[red]✗[/]"}
INSTRUCTIONS = ("avx2", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16", "asimd", "bf16", "sve")
EXTRAS = {
    "plots": "matplotlib",
    "report": "jinja2",
    "serve": "fastapi",
    "client": "httpx",
    "completion": "shtab",
    "parquet": "pyarrow",
    "export": "onnxscript",
    "ray": "ray",
    "tensorboard": "tensorboard",
    "mlflow": "mlflow",
    "wandb": "wandb",
    "sklearn": "sklearn",
    "river": "river",
}
SECONDS_TO_IMPORT = 60.0
ROUNDS = 7
SLOW = 1.5  # times a bare loop
SLOW_SYNC = 0.05  # seconds


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    text: str
    state: State = "right"
    value: Any = None


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="the same for programs")
    parser.add_argument("--data", metavar="DIR", help="where datasets lie")
    parser.set_defaults(command=doctor)


def doctor(options: argparse.Namespace) -> int:
    torch.set_num_threads(1)  # as runs have it
    console, findings = Console(stderr=options.json), []
    for look in (_software, _processor, _precision, _speed, _disk, lambda: _folders(options.data), _extras):
        with console.status("looking"):
            for finding in look():
                findings.append(finding)
                if not options.json:
                    mark = MARKS[finding.state]
                    console.print(f"{mark} [bold]{finding.name:12}[/]", end=" ")
                    console.print(finding.text, markup=False, highlight=False, soft_wrap=True)
    wrong = [finding.name for finding in findings if finding.state == "wrong"]
    look_at = [finding.name for finding in findings if finding.state == "look"]
    verdict = f"does not work: {', '.join(wrong)}" if wrong else "everything that is installed works"
    verdict += f"; worth a look: {', '.join(look_at)}" if look_at else ""
    if options.json:
        json.dump({"verdict": verdict, "findings": [asdict(finding) for finding in findings]}, sys.stdout, indent=1)
        print()
    else:
        console.print(f"\n{verdict}", highlight=False, markup=False)
    return 1 if wrong else 0


def _software() -> Iterator[Finding]:
    yield Finding("holdfast", f"{holdfast.__version__}, Python {platform.python_version()}, {platform.platform()}")
    libraries = {"MKL": torch.backends.mkl, "oneDNN": torch.backends.mkldnn}
    built = [name for name, library in libraries.items() if library.is_available()]
    yield Finding("torch", f"{torch.__version__} with {' and '.join(built) or 'neither MKL nor oneDNN'}")
    if torch.cuda.is_available():
        yield Finding("GPU", torch.cuda.get_device_name())


def _processor() -> Iterator[Finding]:
    has = set(machine.announced().split())
    says = [name for name in INSTRUCTIONS if name in has]
    announces = ", ".join(says) or "nothing special"
    yield Finding("processor", f"{machine.processor()}, {cores()} of {os.cpu_count()} cores; announces {announces}")
    threads = os.environ.get("OMP_NUM_THREADS")
    text = f"OMP_NUM_THREADS={threads}" if threads else "OMP_NUM_THREADS is not set"
    yield Finding("threads", f"{text}; a run takes one, and so does what follows", value=threads)
    conditions = machine.conditions()
    limits = "".join(f"; {name}={value}" for name, value in machine.limits().items())
    used = torch.backends.cpu.get_cpu_capability()
    text = f"{conditions['arithmetic']}, torch uses {used}{limits} (the same digits elsewhere: the same bits)"
    yield Finding("arithmetic", text, value=conditions)


def _precision() -> Iterator[Finding]:
    try:
        precision.asked(None)
    except HoldfastError as error:
        yield Finding("precision", str(error), "wrong")
        return
    net, samples = _learner().net, _pictures(BATCH)
    before, now = (suitable(net, samples, anew=anew) for anew in (False, True))
    text = f"{now.name} for evaluation with the reduced ResNet-18: {now.why}"
    if before.name != now.name:
        text += f"; runs here take {before.name}, as found earlier: remove {precision.folder()} to have it tried again"
    yield Finding("precision", text, "right" if before.name == now.name else "look", asdict(now))


def _speed() -> Iterator[Finding]:
    """Against the same arithmetic in a bare loop, in turns."""
    learner, bare, x = _learner(), _learner().net, _pictures(10)
    y = list(range(10))
    optimizer = torch.optim.SGD(bare.parameters(), lr=0.1)

    def bare_update() -> None:
        bare.train()
        loss = sum(F.cross_entropy(bare(part), torch.arange(10)) for part in (x, x))
        loss.backward()  # type: ignore[union-attr]
        optimizer.step()
        optimizer.zero_grad()

    @torch.inference_mode()
    def bare_answer() -> None:
        bare.eval()(x[:1]).argmax(1)

    update, ratio = _in_turns(lambda: learner.observe(x, y), bare_update)
    yield _compared("update", f"{1000 * update:.0f} ms (10 + 10 images, reduced ResNet-18)", update, ratio)
    answer, ratio = _in_turns(lambda: learner.predict(x[:1]), bare_answer)
    yield _compared("answer", f"{1000 * answer:.1f} ms (one image)", answer, ratio)


def _compared(name: str, text: str, seconds: float, ratio: float) -> Finding:
    state: State = "look" if ratio > SLOW else "right"
    return Finding(name, f"{text}, {ratio:.2f} × a bare loop", state, {"seconds": seconds, "ratio": ratio})


def _in_turns(ours: Callable[[], object], bare: Callable[[], object]) -> tuple[float, float]:
    """Our median time, and the median of how much longer it is."""
    times = [(_timed(ours), _timed(bare)) for _ in range(ROUNDS + 2)][2:]
    return statistics.median(a for a, _ in times), statistics.median(a / b for a, b in times)


def _timed(do: Callable[[], object]) -> float:
    start = time.perf_counter()
    do()
    return time.perf_counter() - start


def _disk() -> Iterator[Finding]:
    """What an acknowledged batch of a durable learner waits for."""
    try:
        with tempfile.TemporaryFile(dir=Path.cwd(), buffering=0) as file:

            def append() -> None:
                file.write(bytes(4096))
                os.fsync(file.fileno())

            seconds = statistics.median(_timed(append) for _ in range(20))
    except OSError as error:
        yield Finding("disk", f"{Path.cwd()} cannot be written: {error.strerror}", "look")
        return
    free = shutil.disk_usage(Path.cwd()).free / 1e9
    state: State = "look" if seconds > SLOW_SYNC else "right"
    yield Finding("disk", f"{1000 * seconds:.2f} ms to sync 4 kB in {Path.cwd()}, {free:.0f} GB free", state, seconds)


def _folders(data: str | None) -> Iterator[Finding]:
    root = data_root(data)
    try:
        there = [row.name for row in listing(root) if row.status == "present"]
        yield Finding("data", f"{root}: {', '.join(there)}", value=str(root))
    except DataError as error:
        yield Finding("data", str(error), "look", str(root))
    cache = precision.folder().parent
    above = next(each for each in (cache, *cache.parents) if os.path.lexists(each))
    writable = above.is_dir() and os.access(above, os.W_OK)
    yield Finding("cache", f"{cache}" + ("" if writable else " cannot be written"), "right" if writable else "look")


def _extras() -> Iterator[Finding]:
    packages = metadata.packages_distributions()
    for extra, module in EXTRAS.items():
        if module not in packages:
            yield Finding(extra, f"not installed: pip install 'holdfast[{extra}]'", "absent")
            continue
        version = metadata.version(packages[module][0])
        fault = _import_fault(module)
        text = f"{module} {version}" + (f" cannot be imported: {fault}" if fault else "")
        yield Finding(extra, text, "wrong" if fault else "right", version)


def _import_fault(module: str) -> str:
    """What goes wrong when it is imported; it is, in a child that can crash."""
    if not trial.possible():
        return ""
    try:
        trial.in_child(lambda: bool(importlib.import_module(module)), SECONDS_TO_IMPORT)
    except trial.TrialFailed as error:
        return str(error)
    return ""


def _learner() -> Learner:
    learner = Learner(slim_resnet18(), ERACE(), memory=200)
    learner.observe(_pictures(10), list(range(10)))
    return learner


def _pictures(count: int) -> torch.Tensor:
    return torch.from_numpy(generator(0, "doctor").integers(0, 256, (count, 3, 32, 32), "uint8"))
