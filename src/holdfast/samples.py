"""What may come as samples."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.errors import BatchError
from holdfast.modes import in_inference


@dataclass(frozen=True, slots=True)
class Features:
    """What a frozen encoder has made of samples, one row each: taken in their place by a learner that has it."""

    values: NDArray[np.generic] | Tensor


Samples = NDArray[np.generic] | Tensor | Features
Equal = Callable[[Iterable[NDArray[Any]], Tensor], NDArray[np.int64]]  # which of the held are among the others

ROUNDING = 1e-4  # of features, against their length
FAR = 100  # times as large as all values so far: no measurement, but a mistake or a mark for a missing value
TOO_FAR = (
    f"which is more than {FAR} times as large as any other so far: mend it or leave it out; "
    "clip_samples=... would limit what comes, clip_samples=math.inf take it as it is"
)


@in_inference(False)  # what is made in inference mode could not be learned from
def as_tensor(x: Samples, sample_template: Tensor | None, clip: float | None = None) -> Tensor:
    """`x` as a tensor of our own (the caller may reuse theirs), or a BatchError that says what is wrong.

    The same values have the same form in it, however they were laid out: kernels round by the layout.
    `sample_template`: an empty batch of the shape and type that are expected, if any are. `clip`: float values beyond
    it, on either side, become it.
    """
    if isinstance(x, np.ndarray):
        if x.dtype.kind not in "fu" or (x.dtype.kind == "u" and x.dtype != np.uint8):
            raise BatchError(f"x has type {x.dtype}; it must be uint8 or float")
        if is_masked(x):
            raise BatchError("x has masked values; fill them, x.filled(...), or leave these samples out")
        with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is clipped or refused below
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
        if isinstance(x, Features):
            raise BatchError("x has features; they are for learners with a frozen pretrained encoder")
        raise BatchError(f"x must be a numpy array or a tensor, not {type(x).__name__}")
    if samples.ndim < 2:
        raise BatchError(f"x has shape {tuple(samples.shape)}; it must be (samples, ...)")
    if samples.is_floating_point():
        samples = samples.float()
        if clip is not None and _is_finite(x):
            samples.clamp_(-clip, clip)
        if not samples.isfinite().all():
            raise BatchError("x has a value that is NaN, infinite or too large for float32")
    check_fits(samples, sample_template)
    return samples


def _is_finite(x: "np.ndarray[Any, Any] | Tensor") -> bool:
    """As it came: float32 may not have room for it."""
    return bool(np.isfinite(x).all() if isinstance(x, np.ndarray) else x.double().isfinite().all())


def check_fits(samples: Tensor, sample_template: Tensor | None) -> None:
    if sample_template is not None and (
        sample_template.shape[1:] != samples.shape[1:] or sample_template.dtype != samples.dtype
    ):
        raise BatchError(
            f"x has samples of shape {tuple(samples.shape[1:])} and type {samples.dtype}; "
            f"this learner takes {tuple(sample_template.shape[1:])} and {sample_template.dtype}"
        )


def magnitude(samples: Tensor) -> float:
    """The power of two that no value reaches: how large they are, which gives away none of them. 0 if all are 0."""
    if not samples.is_floating_point() or not samples.numel():
        return 0.0
    low, high = samples.aminmax()
    largest = max(-low.item(), high.item())
    return math.ldexp(1.0, math.frexp(largest)[1]) if largest else 0.0


def check_magnitude(samples: Tensor, so_far: float) -> None:
    """A BatchError if a value lies so far beyond all others that learning from it would ruin the net.

    `so_far`: the magnitude of the batches before.
    """
    if magnitude(samples) <= FAR * max(1.0, so_far):
        return
    sizes = samples.flatten(1).abs().amax(1)
    if (place := outlier(sizes.tolist(), so_far)) is not None:
        value = samples[place].flatten()[samples[place].abs().argmax()].item()
        raise BatchError(f"x has the value {value:g}, in sample {place}, {TOO_FAR}")


def outlier(sizes: Sequence[float], so_far: float) -> int | None:
    """The place of one that is far beyond all others, if there is one.

    Without any before, most of these say what is usual. Nets are made for values around 1, so up to 100 all is well.
    They are looked at in order, each as a measure for the next: a heavy tail is no gap.
    """
    inorder = sorted(size for size in sizes if size)
    usual = max(1.0, so_far or inorder[len(inorder) // 2]) if inorder else 1.0
    for size in inorder:
        if size > FAR * usual:
            return list(sizes).index(size)
        usual = max(usual, size)
    return None


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


def close_to_any(held: Iterable[NDArray[Any]], features: Tensor) -> NDArray[np.int64]:
    """Which of those that are held are one of these features up to rounding, which depends on what came beside."""
    wanted = features.flatten(1).double()
    found = []
    for place, each in enumerate(held):
        distances = (wanted - torch.as_tensor(each).double().flatten()).norm(dim=1)
        if bool((distances <= ROUNDING * wanted.norm(dim=1)).any()):
            found.append(place)
    return np.array(found, np.int64)


def _identity(sample: NDArray[Any]) -> tuple[object, ...]:
    return sample.dtype, sample.shape, sample.tobytes()
