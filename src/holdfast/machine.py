"""What the bits of a result depend on besides its seed: the processor as it behaves, torch, the number of threads,
and the library that encodes samples if they are held encoded."""

import hashlib
import os
import platform
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

CONDITIONS = ("torch", "arithmetic", "threads", "device", "codec")
LIMITS = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR")


def limits() -> dict[str, str]:
    """Environment variables that make libraries use less than the processor has."""
    return {name: os.environ[name] for name in LIMITS if os.environ.get(name)}


@cache
def processor() -> str:
    return _cpuinfo().get("model name") or platform.processor() or platform.machine()


@cache
def announced() -> str:
    """The instructions that the processor says it has."""
    return _cpuinfo().get("flags") or _cpuinfo().get("Features", "")


def key() -> str:
    """The same as long as nothing changes that decides which instructions work here and how fast they are."""
    return repr([processor(), announced(), platform.platform(), sorted(limits().items())])


def conditions(device: str = "cpu", threads: int | None = None, codec: str = "") -> dict[str, Any]:
    """Results made under the same conditions have the same bits. `threads`: those of torch if not said."""
    import torch

    threads = threads or torch.get_num_threads()
    arithmetic = _arithmetic(threads, torch.get_float32_matmul_precision())
    found = torch.__version__, arithmetic, threads, device, codec
    return {name: value for name, value in zip(CONDITIONS, found, strict=True) if value}


def differences(here: Mapping[str, Any], there: Mapping[str, Any]) -> str:
    """What of two conditions is not the same, in words; nothing where one of them, of an older file, does not say."""
    unlike = [name for name in CONDITIONS if name in here and name in there and here[name] != there[name]]
    return ", ".join(f"{name} {here[name]} here and {there[name]} there" for name in unlike)


@cache
def _arithmetic(threads: int, precision: str) -> str:
    """Two steps of training, to the last bit: processors and limits that round in other places give other digits, and
    so does the precision that torch's matrix products are set to."""
    import torch

    before = torch.get_num_threads(), torch.get_default_dtype()
    torch.set_num_threads(threads)
    torch.set_default_dtype(torch.float32)
    try:
        return _two_steps()
    finally:
        torch.set_num_threads(before[0])
        torch.set_default_dtype(before[1])


def _two_steps() -> str:
    import torch
    from torch.nn import functional as F

    from holdfast.losses import unit
    from holdfast.modes import inference, no_autocast
    from holdfast.nets import Encoder, mlp, small_cnn
    from holdfast.seeds import generator

    sha = hashlib.sha256()
    with inference(False), no_autocast(torch.device("cpu")):
        y = torch.arange(10)
        for make, shape in ((small_cnn, (1, 28, 28)), (small_cnn, (3, 32, 32)), (mlp, (784,)), (mlp, (8,))):
            encoder = Encoder(make(shape))
            x = torch.from_numpy(generator(0, "arithmetic").integers(0, 256, (10, *shape), np.uint8))
            for _ in range(2):
                features = encoder(x)
                loss = F.cross_entropy(unit(features) @ unit(features.detach()).T / 0.1, y)
                loss.backward()  # type: ignore[no-untyped-call]
                with torch.no_grad():
                    for parameter in encoder.parameters():
                        assert parameter.grad is not None
                        parameter.sub_(0.1 * parameter.grad)
                        parameter.grad = None
            for parameter in encoder.parameters():
                sha.update(parameter.detach().numpy().tobytes())
    return sha.hexdigest()[:12]


@cache
def _cpuinfo() -> dict[str, str]:
    """Of the first core, where the system tells it in a file (Linux)."""
    try:
        first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    except OSError:
        return {}
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first.splitlines())}


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
