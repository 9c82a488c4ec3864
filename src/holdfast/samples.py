"""What may come as samples."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Image
from torch import Tensor

from holdfast import images
from holdfast.errors import BatchError, DataError, InputError
from holdfast.modes import in_inference


class SupportsNumpy(Protocol):
    """A data frame, of pandas, polars or others."""

    def to_numpy(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class Features:
    """What a frozen encoder has made of samples, one row each: taken in their place by a learner that has it."""

    values: NDArray[np.generic] | Tensor


Samples = NDArray[np.generic] | Tensor | Features | Sequence[Any] | SupportsNumpy
Equal = Callable[[Iterable[NDArray[Any]], Tensor], NDArray[np.int64]]  # which of the held are among the others

LARGEST_VALUE = torch.finfo(torch.float32).max
ROUNDING = 1e-4  # of features, against their length
WHOLE = (torch.int8, torch.int16, torch.int32, torch.int64, torch.bool)
MASKED = "x has masked values; fill them, x.filled(...), or leave these samples out"
NOT_DENSE = "x is or has a sparse, nested or meta tensor; it must be a dense one"
TOO_LARGE = "x has a value that is NaN, infinite or too large for float32"
FAR = 100  # times as large as all values so far: no measurement, but a mistake or a mark for a missing value
TOO_FAR = (
    f"which is more than {FAR} times as large as any other so far: mend it or leave it out; "
    "clip_samples=... would limit what comes, clip_samples=math.inf take it as it is"
)


@in_inference(False)  # what is made in inference mode could not be learned from
def as_tensor(
    x: Samples, sample_template: Tensor | None, clip: float | None = None, shape: Sequence[int] | None = None
) -> Tensor:
    """`x` as a tensor of our own (the caller may reuse theirs), or a BatchError that says what is wrong.

    The same values have the same form in it, however they were laid out: kernels round by the layout.
    `sample_template`: an empty batch of the shape and type that are expected, if any are. `clip`: float values beyond
    it, on either side, become it. `shape`: what images in a list are cropped and scaled to.
    """
    if not isinstance(x, np.ndarray | Tensor | Features):
        if shape is None and sample_template is not None:
            shape = sample_template.shape[1:]
        x = _as_array(x, shape)
    if isinstance(x, np.ndarray):
        samples = _of_array(x)
    elif isinstance(x, Tensor):
        samples = _of_tensor(x)
    else:
        raise BatchError("x has features; they are for learners with a frozen pretrained encoder")
    if samples.ndim < 2:
        raise BatchError(f"x has shape {tuple(samples.shape)}; it must be (samples, ...); one sample alone is x[None]")
    if samples.is_floating_point():
        samples = samples.float()
        if clip is not None and clip <= LARGEST_VALUE and _is_finite(x):
            samples.clamp_(-clip, clip)
        if not samples.isfinite().all():
            raise BatchError(TOO_LARGE)
    check_fits(samples, sample_template)
    return samples


def _of_tensor(x: Tensor) -> Tensor:
    if not is_dense(x):
        raise BatchError(NOT_DENSE)
    if x.ndim == 2 and x.dtype in WHOLE:
        return x.float()
    if not x.is_floating_point() and x.dtype != torch.uint8:
        more = "; images from 0 to 255 are x.to(torch.uint8)" if x.dtype in WHOLE else ""
        raise BatchError(f"x has type {x.dtype}; it must be uint8 or float{more}")
    return x.detach().clone(memory_format=torch.contiguous_format)


def _of_array(x: NDArray[Any]) -> Tensor:
    is_table = x.dtype.kind in "iub" and x.dtype != np.uint8 and x.ndim == 2  # of whole numbers
    if x.dtype.kind != "f" and x.dtype != np.uint8 and not is_table:
        more = "; images from 0 to 255 are x.astype(np.uint8)" if x.dtype.kind in "iu" else ""
        raise BatchError(f"x has type {x.dtype}; it must be uint8 or float{more}")
    if is_masked(x):
        raise BatchError(MASKED)
    with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is clipped or refused by the caller
        return torch.from_numpy(x.astype(np.uint8 if x.dtype == np.uint8 else np.float32, order="C", subok=False))


def _as_array(x: object, shape: Sequence[int] | None) -> NDArray[Any]:
    """Of a data frame, or of a list of samples: images, files of images, arrays, numbers."""
    if isinstance(x, list | tuple):
        if any(isinstance(each, Image | str | Path) for each in x):
            return _of_images(x, shape)
        try:
            samples = [_one(each) for each in x]
        except BatchError:
            raise
        except (ValueError, TypeError) as error:
            raise BatchError(f"x has a sample that is not an array: {error}") from None
        shapes = {each.shape for each in samples}
        wanted = tuple(shape) if shape is not None and images.is_image_shape(shape) else None
        if wanted is not None and shapes != {wanted} and all(each.dtype == np.uint8 for each in samples):
            return _of_images(samples, wanted)
        if len(shapes) > 1:
            said = f"{samples[0].shape} and {(shapes - {samples[0].shape}).pop()}"
            raise BatchError(f"x has samples of different shapes, {said}; bring them to one size")
        found = np.stack(samples) if samples else np.empty(0)
    elif hasattr(x, "to_numpy"):
        found = np.asarray(x.to_numpy())
    else:
        what = "an array, a tensor, a data frame or a list of samples"
        raise BatchError(f"x must be {what}, not {type(x).__name__}{_instead_of(x)}")
    return _as_numbers(found)


def _one(sample: object) -> NDArray[Any]:
    """Of a list."""
    if is_masked(sample):
        raise BatchError(MASKED)
    if not isinstance(sample, Tensor):
        return np.asarray(sample)
    if not is_dense(sample):
        raise BatchError(NOT_DENSE)
    sample = sample.detach().cpu()
    return (sample.float() if sample.is_floating_point() and sample.itemsize < 4 else sample).numpy()


def _as_numbers(found: NDArray[Any]) -> NDArray[Any]:
    """Data frames with columns of several types, or of types that may miss values, give Python's numbers."""
    if found.dtype.kind == "b":
        return found.astype(np.float32)
    if found.dtype.kind in "fiu":
        return found
    others = [value for value in found.flat if not isinstance(value, Real | np.bool_)]
    if others:
        kind = "missing" if others[0] is None else type(others[0]).__name__
        raise BatchError(f"x has values that are not numbers ({kind}); leave them out, or write them as numbers")
    try:
        return found.astype(np.float64)
    except OverflowError:
        raise BatchError(TOO_LARGE) from None


def _instead_of(x: object) -> str:
    """What would be right."""
    if isinstance(x, Image):
        return "; for one image, [image]"
    if isinstance(x, str | Path):
        return f"; for one image, [{str(x)!r}]"
    return "; list(x) makes one" if isinstance(x, Iterator) else ""


def _of_images(given: Sequence[Any], shape: Sequence[int] | None) -> NDArray[np.uint8]:
    """Images of Pillow, files and arrays of any size, of the shape that is wanted."""
    if shape is not None and not images.is_image_shape(shape):
        if isinstance(given[0], str):
            raise BatchError(f"x has text or file names; this learner takes samples of shape {tuple(shape)}")
        raise BatchError(f"x has images; this learner takes samples of shape {tuple(shape)}")
    found = []
    for each in given:
        if not isinstance(each, Image | str | Path | np.ndarray):
            raise BatchError(f"x has images and other things, such as a {type(each).__name__}")
        if is_masked(each):
            raise BatchError(MASKED)
        try:
            if isinstance(each, np.ndarray):
                image = images.of_array(each)
            else:
                image = each if isinstance(each, Image) else images.read(each)
            found.append(images.as_sample(image, shape))
        except (DataError, InputError) as error:
            raise BatchError(f"x: {error}") from None
    if len(sizes := {each.shape for each in found}) > 1:
        (_, *first), (_, *second) = sorted(sizes)[:2]
        said = f"{first[1]}×{first[0]} and {second[1]}×{second[0]}"
        raise BatchError(
            f"x has images of different sizes, {said}, and the encoder does not say which it wants: resize them, as "
            "image.resize((224, 224)), or make it with holdfast.pretrained(module, size=224)"
        )
    return np.stack(found)


def _is_finite(x: "np.ndarray[Any, Any] | Tensor") -> bool:
    """As it came: float32 may not have room for it."""
    return bool(np.isfinite(x).all() if isinstance(x, np.ndarray) else x.double().isfinite().all())


def check_fits(samples: Tensor, sample_template: Tensor | None) -> None:
    if sample_template is not None and (
        sample_template.shape[1:] != samples.shape[1:] or sample_template.dtype != samples.dtype
    ):
        shape, wanted = tuple(samples.shape[1:]), tuple(sample_template.shape[1:])
        raise BatchError(
            f"x has samples of shape {shape} and type {samples.dtype}; "
            f"this learner takes {wanted} and {sample_template.dtype}{_would_fit(samples, sample_template)}"
        )


def _would_fit(samples: Tensor, sample_template: Tensor) -> str:
    """What would be right, if that is known."""
    shape, wanted = tuple(samples.shape[1:]), tuple(sample_template.shape[1:])
    if samples.shape == wanted:
        return "; one sample alone is x[None]"
    if not images.is_image_shape(wanted):
        return ""
    if shape == (*wanted[1:], wanted[0]):
        return "; x.transpose(0, 3, 1, 2) puts the channels first"
    if shape == wanted[1:] and wanted[0] == 1:
        return "; x[:, None] gives grey images their channel"
    if samples.dtype == sample_template.dtype == torch.uint8 and len(shape) in (2, 3) and shape != wanted:
        return "; images in a list, list(x), are cropped and scaled to it"
    return ""


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
