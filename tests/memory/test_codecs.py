"""Images as bytes and back."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from holdfast.datasets.embedded import fashion
from holdfast.errors import CheckpointError, InputError
from holdfast.memory import codecs
from holdfast.memory.codecs import PNG, Codec, WebP
from holdfast.memory.encoded import Encoding

Images = NDArray[np.uint8]
SHAPES = [(1, 28, 28), (3, 32, 32), (3, 7, 33), (1, 1, 1), (3, 64, 16)]
UINT8 = np.dtype(np.uint8)


def smooth(shape: tuple[int, ...], seed: int = 0) -> Images:
    """What looks like a photograph to a codec: a slope of its own in each channel, and a little noise."""
    channels, height, width = shape
    rng = np.random.default_rng(seed)
    slopes = rng.uniform(0.2, 1, (2, channels, 1, 1))
    rows, columns = np.linspace(0, 120, height)[:, None], np.linspace(0, 120, width)
    image: NDArray[np.float64] = slopes[0] * rows + slopes[1] * columns + rng.normal(0, 2, shape)
    return image.clip(0, 255).astype(np.uint8)


def encoding(codec: Codec, shape: tuple[int, ...] = (3, 32, 32)) -> Encoding:
    return Encoding(codec, shape, UINT8)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("codec", [WebP(75), PNG()], ids=lambda codec: codec.name)
def test_every_shape_comes_back(codec: Codec, shape: tuple[int, ...]) -> None:
    image = smooth(shape)
    data = codec.encode(image)
    back = codec.decode(data, shape)
    assert (back.shape, back.dtype) == (shape, image.dtype)
    assert codec.flaw(data, shape) is None
    assert np.abs(back.astype(int) - image).mean() < (6 if isinstance(codec, WebP) else 1e-9)


def test_png_loses_nothing_and_webp_little_in_a_fraction_of_the_bytes() -> None:
    clothes = fashion().train_x[:50]
    sizes: dict[str, list[int]] = {"webp:75": [], "png": []}
    for image in clothes:
        for name, lengths in sizes.items():
            codec = codecs.find(name)
            assert codec is not None
            data = codec.encode(image)
            lengths.append(len(data))
            if name == "png":
                assert np.array_equal(codec.decode(data, image.shape), image)
    assert np.mean(sizes["webp:75"]) < 0.6 * np.mean(sizes["png"]) < 0.6 * clothes[0].size


def test_a_lower_quality_takes_fewer_bytes() -> None:
    image = np.asarray(smooth((3, 32, 32)))
    lengths = [len(WebP(quality).encode(image)) for quality in (90, 75, 50, 10)]
    assert lengths == sorted(lengths, reverse=True) and lengths[0] > lengths[-1]


def test_the_same_image_is_the_same_bytes() -> None:
    image = smooth((3, 32, 32))
    for codec in (WebP(), PNG()):
        assert codec.encode(image) == codec.encode(np.asfortranarray(image.copy()))


def test_what_would_not_be_smaller_is_kept_as_it_is() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (3, 32, 32), np.uint8)
    kept = encoding(PNG()).encode(noise)
    assert len(kept) == noise.size
    assert np.array_equal(encoding(PNG()).decode([kept], 1)[0], noise)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("jpeg", "unknown codec 'jpeg'"),
        ("web", "unknown codec 'web': did you mean"),
        ("webp:", None),
        ("webp:101", "webp: the quality must be a whole number of 0 or more and at most 100"),
        ("webp:-1", "write webp:QUALITY"),
        ("webp:best", "write webp:QUALITY"),
        ("png:9", "png has no settings"),
        ("", "unknown codec"),
        (7, "a codec is a name or a holdfast.Codec, not 7"),
        (WebP, "a codec is a name or a holdfast.Codec, not <class"),
    ],
)
def test_names_of_codecs(name: Any, said: str | None) -> None:
    if said is None:
        assert codecs.find(name) is not None
    else:
        with pytest.raises(InputError, match=said):
            codecs.find(name)


def test_raw_is_no_codec() -> None:
    assert codecs.find("raw") is None is codecs.find(None)


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        *(((8,), "uint8"), ((28, 28), "uint8"), ((3, 32, 32), "float32"), ((2, 8, 8), "uint8"), ((3, 0, 8), "uint8")),
        *(((3, 2**14, 1), "uint8"), ((3, 2**12, 2**12), "uint8")),
    ],
    ids=str,
)
def test_what_is_no_image_is_refused(shape: tuple[int, ...], kind: str) -> None:
    with pytest.raises(InputError, match=r"memory: webp:75 keeps uint8 images.*leave the codec out"):
        Encoding(WebP(), shape, np.dtype(kind))


HOSTILE = {
    "webp:75": [b"", b"\0" * 50, b"\xff" * 50, b"RIFF" + bytes(60), WebP().encode(smooth((3, 64, 64)))[:12]],
    "png": [b"", b"\0" * 50, PNG().encode(smooth((3, 33, 32))), PNG().encode(smooth((1, 32, 32)))],
}


@pytest.mark.parametrize(("name", "data"), [(name, data) for name in HOSTILE for data in HOSTILE[name]])
def test_bytes_that_are_no_such_image_are_seen_at_a_glance(name: str, data: bytes) -> None:
    codec = codecs.find(name)
    assert codec is not None
    with pytest.raises(CheckpointError, match=f"the memory holds a sample that {name} cannot decode"):
        encoding(codec).check([data])


def test_more_bytes_than_a_sample_has_are_refused() -> None:
    with pytest.raises(CheckpointError, match="it has 3073 bytes, more than the 3072"):
        encoding(PNG()).check([bytes(3073)])


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.filterwarnings("ignore:the memory holds a sample that")
def test_whatever_is_in_the_bytes_an_image_comes_out(name: str) -> None:
    codec, rng = codecs.find(name), np.random.default_rng(0)
    assert codec is not None
    whole = codec.encode(smooth((3, 32, 32)))
    for _ in range(300):
        data = bytearray(whole[: rng.integers(len(whole) + 1)])
        for place in rng.integers(0, max(1, len(data)), 4 if data else 0):
            data[place] = rng.integers(256)
        assert encoding(codec).decode([bytes(data)], 1).shape == (1, 3, 32, 32)


class Halves(Codec):
    """Numbers in half the bytes."""

    name = "float16"

    def encode(self, sample: NDArray[Any]) -> bytes:
        return sample.astype(np.float16).tobytes()

    def decode(self, data: bytes, shape: tuple[int, ...]) -> NDArray[Any]:
        return np.frombuffer(data, np.float16).reshape(shape).astype(np.float32)


class Wrong(Halves):
    def __init__(self, **answers: Any) -> None:
        self._answers = answers

    def encode(self, sample: NDArray[Any]) -> Any:
        return self._answers.get("encode", super().encode(sample))

    def decode(self, data: bytes, shape: tuple[int, ...]) -> NDArray[Any]:
        result: NDArray[Any] = self._answers.get("decode", super().decode(data, shape))
        return result


def test_a_codec_of_ones_own_may_take_any_samples() -> None:
    sample = np.arange(8, dtype=np.float32) / 4
    own = Encoding(Halves(), (8,), sample.dtype)
    data = own.encode(sample)
    assert len(data) == 16
    assert np.array_equal(own.decode([data, data], 2), [sample, sample])


def test_a_codec_that_is_wrong_is_named() -> None:
    sample = np.zeros(8, np.float32)
    with pytest.raises(InputError, match="float16 must encode a sample as bytes, not bytearray"):
        Encoding(Wrong(encode=bytearray(3)), (8,), sample.dtype).encode(sample)
    with pytest.raises(InputError, match=r"cannot decode what it has encoded: it gives shape .3,. and type float64"):
        Encoding(Wrong(decode=np.zeros(3)), (8,), sample.dtype).encode(sample)
    with pytest.raises(InputError, match=r"the memory holds samples of shape \(8,\)"):
        Encoding(Halves(), (8,), sample.dtype).encode(np.zeros(9, np.float32))
