"""How a memory keeps samples in fewer bytes."""

import io
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, features

from holdfast.arguments import Range, whole
from holdfast.errors import InputError, UnknownName

Shape = tuple[int, ...]
LARGEST_SIDE = 2**14 - 1  # that WebP knows
MOST_VALUES = 2**24  # of one sample: what a few bytes of a file claim to be is bounded before it is decoded


class Codec(ABC):
    """Turns a sample into bytes and back. A codec of your own is a subclass.

    `encode` has to be deterministic: replaying a log must give the same bytes. Where the result is not smaller than
    the sample, the memory keeps the sample as it is.

    Attributes:
        name: stands for the codec and all its settings in files.
        version: of the library that makes the bytes, if there is one.
    """

    name: str
    version: str = ""

    @abstractmethod
    def encode(self, sample: NDArray[Any]) -> bytes:
        """Encodes one sample.

        Args:
            sample: the sample.

        Returns:
            Its bytes.
        """

    @abstractmethod
    def decode(self, data: bytes, shape: Shape) -> NDArray[Any]:
        """Decodes one sample. Any exception means that the bytes are not such a sample.

        Args:
            data: what `encode` returned.
            shape: of the sample.

        Returns:
            The sample, with the shape and type it had.
        """

    def takes(self, shape: Shape, dtype: np.dtype[Any]) -> str | None:
        """Says whether samples of this shape and type can be encoded.

        Args:
            shape: of one sample.
            dtype: of its values.

        Returns:
            None if they can; otherwise, in words, what can.
        """
        return None

    def flaw(self, data: bytes, shape: Shape) -> str | None:
        """Checks bytes from a file, quickly.

        Args:
            data: the bytes.
            shape: of the sample.

        Returns:
            Why they cannot be decoded, as far as a quick look tells, or None.
        """
        return None


class _Image(Codec):
    """Images of 1 or 3 channels, (channels, height, width), by Pillow."""

    def takes(self, shape: Shape, dtype: np.dtype[Any]) -> str | None:
        fits = dtype == np.uint8 and len(shape) == 3 and shape[0] in (1, 3) and max(shape) <= LARGEST_SIDE
        if fits and 0 < np.prod(shape) <= MOST_VALUES:
            return None
        return f"uint8 images, (channels, height, width), of 1 or 3 channels and at most {MOST_VALUES:,} values"


class WebP(_Image):
    """Lossy WebP. The part of the file that is the same for all images of a shape is not kept."""

    START = b"\x9d\x01\x2a"  # of the frame, followed by its width and height

    def __init__(self, quality: int = 75) -> None:
        self.quality = whole("webp: the quality", quality, Range(least=0, most=100))
        self.name = f"webp:{self.quality}"
        self.version = f"libwebp {features.version('webp')}"
        if not features.check("webp"):
            raise InputError("webp: this Pillow was built without WebP")

    def encode(self, sample: NDArray[Any]) -> bytes:
        file = _file(sample, "WEBP", quality=self.quality)
        (size,) = struct.unpack("<I", file[16:20])
        frame = file[20 : 20 + size]
        if file[8:16] != b"WEBPVP8 " or frame[3:10] != self._size(sample.shape):
            raise InputError(f"webp: {self.version} writes files that are not a single frame")
        return frame[:3] + frame[10:]

    def decode(self, data: bytes, shape: Shape) -> NDArray[Any]:
        frame = data[:3] + self._size(shape) + data[3:]
        padding = bytes(len(frame) % 2)
        head = struct.pack("<4sI8sI", b"RIFF", 12 + len(frame) + len(padding), b"WEBPVP8 ", len(frame))
        return _pixels(head + frame + padding, "WEBP", shape)

    def flaw(self, data: bytes, shape: Shape) -> str | None:
        bits = int.from_bytes(data[:3], "little")
        shown_key_frame, first_part = bits & 0b10001 == 0b10000, bits >> 5
        return None if shown_key_frame and 0 < first_part <= len(data) - 3 else "it is not the frame of an image"

    def _size(self, shape: Shape) -> bytes:
        return self.START + struct.pack("<HH", shape[2], shape[1])


class PNG(_Image):
    """Lossless."""

    name = "png"
    version = f"zlib {features.version('zlib')}"

    def encode(self, sample: NDArray[Any]) -> bytes:
        return _file(sample, "PNG")

    def decode(self, data: bytes, shape: Shape) -> NDArray[Any]:
        return _pixels(data, "PNG", shape)

    def flaw(self, data: bytes, shape: Shape) -> str | None:
        channels, height, width = shape
        head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">IIBB", width, height, 8, 0 if channels == 1 else 2)
        fits = data.startswith(head)
        return None if fits else f"it is not a PNG of {width} × {height} pixels and {channels} channels"


CODECS: dict[str, Callable[..., Codec]] = {"webp": WebP, "png": PNG}


def find(codec: "str | Codec | None") -> Codec | None:
    """`webp:75`, `png`, `raw`, or a codec of one's own. None: samples are kept as they are."""
    if codec is None or isinstance(codec, Codec):
        return codec
    if not isinstance(codec, str):
        raise InputError(f"memory: a codec is a name or a holdfast.Codec, not {codec!r}")
    name, _, setting = codec.partition(":")
    if name == "raw" and not setting:
        return None
    if name not in CODECS:
        raise UnknownName("codec", codec, ["webp:75", "png", "raw"])
    if name == "png" and setting:
        raise InputError(f"codec {codec!r}: png has no settings")
    if setting and not (setting.isascii() and setting.isdigit()):
        raise InputError(f"codec {codec!r}: write webp:QUALITY, with a quality from 0 to 100")
    return CODECS[name](*([int(setting)] if setting else []))


def _file(sample: NDArray[Any], kind: str, **options: Any) -> bytes:
    content = io.BytesIO()
    image = sample[0] if len(sample) == 1 else sample.transpose(1, 2, 0)
    Image.fromarray(np.ascontiguousarray(image)).save(content, kind, **options)
    return content.getvalue()


def _pixels(content: bytes, kind: str, shape: Shape) -> NDArray[Any]:
    channels, height, width = shape
    with Image.open(io.BytesIO(content), formats=[kind]) as image:
        if image.size != (width, height):
            raise ValueError(f"it has {image.size[0]} × {image.size[1]} pixels, not {width} × {height}")
        pixels = np.asarray(image.convert("L" if channels == 1 else "RGB"))
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)
