"""What may come as samples."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.errors import BatchError
from holdfast.modes import in_inference

Samples = NDArray[np.generic] | Tensor


@in_inference(False)  # what is made in inference mode could not be learned from
def as_tensor(x: Samples, sample_template: Tensor | None) -> Tensor:
    """`x` as a tensor of our own (the caller may reuse theirs), or a BatchError that says what is wrong.

    The same values have the same form in it, however they were laid out: kernels round by the layout.
    `like`: an empty batch of the shape and type that are expected, if any are.
    """
    if isinstance(x, np.ndarray):
        if x.dtype.kind not in "fu" or (x.dtype.kind == "u" and x.dtype != np.uint8):
            raise BatchError(f"x has type {x.dtype}; it must be uint8 or float")
        if is_masked(x):
            raise BatchError("x has masked values; fill them, x.filled(...), or leave these samples out")
        with np.errstate(over="ignore"):  # what does not fit becomes infinite and is refused below
            samples = torch.from_numpy(
                x.astype(np.float32 if x.dtype.kind == "f" else np.uint8, order="C", subok=False)
            )
    elif isinstance(x, Tensor):
        if not is_dense(x):
            raise BatchError("x is a sparse, nested or meta tensor; it must be a dense one")
        if not x.is_floating_point() and x.dtype != torch.uint8:
            raise BatchError(f"x has type {x.dtype}; it must be uint8 or float")
        samples = x.detach().clone(memory_format=torch.contiguous_format)
    else:
        raise BatchError(f"x must be a numpy array or a tensor, not {type(x).__name__}")
    if samples.ndim < 2:
        raise BatchError(f"x has shape {tuple(samples.shape)}; it must be (samples, ...)")
    if samples.is_floating_point():
        samples = samples.float()
        if not samples.isfinite().all():
            raise BatchError("x has a value that is NaN or infinite")
    check_fits(samples, sample_template)
    return samples


def check_fits(samples: Tensor, sample_template: Tensor | None) -> None:
    if sample_template is not None and (
        sample_template.shape[1:] != samples.shape[1:] or sample_template.dtype != samples.dtype
    ):
        raise BatchError(
            f"x has samples of shape {tuple(samples.shape[1:])} and type {samples.dtype}; "
            f"this learner takes {tuple(sample_template.shape[1:])} and {sample_template.dtype}"
        )


def is_dense(x: Tensor) -> bool:
    """Whether every value is there and has its own place."""
    return x.layout is torch.strided and not x.is_nested and not x.is_meta


def is_number(samples: Tensor) -> bool:
    """Whether they are such as `as_tensor` gives."""
    return samples.dtype == torch.uint8 or (samples.dtype == torch.float32 and bool(samples.isfinite().all()))


def is_masked(x: object) -> bool:
    return isinstance(x, np.ma.MaskedArray) and bool(np.ma.is_masked(x))


def equal_to_any(held: Iterable[NDArray[Any]], samples: Tensor) -> NDArray[np.int64]:
    """Which of those that are held equal one of the samples, byte for byte."""
    wanted = {_identity(sample) for sample in samples.cpu().numpy()}
    return np.array([place for place, sample in enumerate(held) if _identity(sample) in wanted], np.int64)


def _identity(sample: NDArray[Any]) -> tuple[object, ...]:
    return sample.dtype, sample.shape, sample.tobytes()
