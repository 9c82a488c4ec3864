"""What is answered at the end: which classes are taken for which, and some samples that are answered wrongly."""

import io
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from holdfast.augment import are_images
from holdfast.seeds import generator

if TYPE_CHECKING:
    from PIL import Image

MOST = 24  # samples that are kept of a run
SIDE = 64  # pixels of their pictures, at most

Index = NDArray[np.int64]


def confusion(truth: Index, answers: Index) -> list[list[int]]:
    """`[class, answer, number]`, where there are any."""
    pairs, counts = np.unique(np.stack([truth, answers], 1), axis=0, return_counts=True)
    return [[*pair, count] for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True)]


def some(rows: Index, truth: Index, answers: Index) -> list[list[int]]:
    """`[row of the test set, class, answer]` of mistakes chosen at random."""
    wrong = generator(0, "mistakes").permutation(np.flatnonzero(truth != answers))[:MOST]
    found: list[list[int]] = np.stack([rows, truth, answers], 1)[np.sort(wrong)].tolist()
    return found


def strip(samples: NDArray[np.generic]) -> bytes | None:
    """Small pictures side by side, as WebP; None if these are no images."""
    if not len(samples) or not are_images(samples.shape[1:]):
        return None
    from PIL import Image

    content = io.BytesIO()
    pictures = [_picture(sample) for sample in samples]
    width, height = pictures[0].size
    whole = Image.new("RGB", (width * len(pictures), height))
    for number, picture in enumerate(pictures):
        whole.paste(picture, (width * number, 0))
    whole.save(content, "WEBP", quality=80)
    return content.getvalue()


def pictures(samples: NDArray[np.generic]) -> list[NDArray[np.uint8]]:
    """As height × width × 3; none if these are no images."""
    if not are_images(samples.shape[1:]):
        return []
    return [np.asarray(_picture(sample)) for sample in samples]


def _picture(sample: NDArray[np.generic]) -> "Image.Image":
    from PIL import Image

    picture = Image.fromarray(_bytes(sample).transpose(1, 2, 0).squeeze()).convert("RGB")
    picture.thumbnail((SIDE, SIDE))
    return picture


def _bytes(sample: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Whatever its values are, the smallest black and the largest white."""
    if sample.dtype == np.uint8:
        return np.asarray(sample, np.uint8)
    values = sample.astype(np.float64)
    return np.asarray(255 * (values - values.min()) / max(float(np.ptp(values)), 1e-12), np.uint8)
