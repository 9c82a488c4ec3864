"""Images of any size and mode as samples: RGB or grey, channels first, cropped and scaled to what is wanted."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from holdfast.errors import DataError, InputError

Pixels = NDArray[np.uint8]
CHANNELS = 1, 3, 4


def read(path: str | Path) -> Image.Image:
    """Decodes a file; a DataError that names it if it cannot."""
    try:
        with Image.open(path) as image:
            image.load()
            return image
    except FileNotFoundError:
        raise DataError(f"there is no image file {path}") from None
    except Exception as error:  # image decoders raise whatever they like on a damaged file
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{path} cannot be read as an image: {reason}; repair or remove it") from error


def fitted(image: Image.Image, width: int, height: int) -> Pixels:
    """Turned upright, in RGB, cropped to the middle and scaled."""
    upright = rgb(ImageOps.exif_transpose(image))
    return np.asarray(ImageOps.fit(upright, (width, height), Image.Resampling.BILINEAR)).transpose(2, 0, 1)


def as_sample(image: Image.Image, shape: Sequence[int] | None = None) -> Pixels:
    """With the shape that is wanted, channels first; as large as it is and in RGB if none is."""
    if shape is None:
        return np.asarray(rgb(ImageOps.exif_transpose(image))).transpose(2, 0, 1)
    pixels = fitted(image, shape[2], shape[1])
    if shape[0] == 3:
        return pixels
    return np.asarray(Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0))).convert("L"))[None]


def is_image_shape(shape: Sequence[int] | None) -> bool:
    return shape is not None and len(shape) == 3 and shape[0] in (1, 3)


def of_array(pixels: NDArray[Any]) -> Image.Image:
    """Of uint8 with channels first or last, or of grey; an InputError if it is neither."""
    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3):
        raise InputError(f"an array of {pixels.dtype} and shape {pixels.shape} is not a uint8 image")
    if pixels.ndim == 3 and pixels.shape[0] in CHANNELS and pixels.shape[2] not in CHANNELS:
        pixels = pixels.transpose(1, 2, 0)
    elif pixels.ndim == 3 and pixels.shape[2] not in CHANNELS:
        raise InputError(
            f"an array of shape {pixels.shape} is not an image, which has 1, 3 or 4 channels, first or last"
        )
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    return Image.fromarray(np.ascontiguousarray(pixels))


def rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):  # 16 bits of grey, which Pillow's own conversion clips to white
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode == "P":  # Pillow warns when a palette's transparency is dropped in one step
        image = image.convert("RGBA")
    return image.convert("RGB")
