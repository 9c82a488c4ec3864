"""Torch's modes, entered and left in C.

Those of torch's own Python code can be left on for good by an interrupt that falls while they are entered or left.
"""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ParamSpec, TypeVar

import torch

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def inference(on: bool) -> AbstractContextManager[Any]:
    """Inference mode inside, or neither that nor `no_grad`, whatever the caller has."""
    mode: AbstractContextManager[Any] = torch._C._InferenceMode(on)
    return mode


def in_inference(on: bool) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """`inference` for a whole function."""

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        @functools.wraps(function)
        def within(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            with inference(on):
                return function(*args, **kwargs)

        return within

    return decorate


def no_autocast(device: torch.device) -> AbstractContextManager[Any]:
    """In the caller's autocast there would be other bits."""
    if not torch.is_autocast_enabled(device.type):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)
