import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from holdfast.augment import crop_and_flip
from holdfast.errors import BatchError


def outcomes(image: Tensor, dark: int, padding: int = 4) -> list[bytes]:
    """Every crop of the padded image, as it is and mirrored, by plain indexing."""
    channels, height, width = image.shape
    padded = np.full((channels, height + 2 * padding, width + 2 * padding), dark, image.numpy().dtype)
    padded[:, padding:-padding, padding:-padding] = image.numpy()
    crops = [
        padded[:, top : top + height, left : left + width]
        for top in range(2 * padding + 1)
        for left in range(2 * padding + 1)
    ]
    return [view.tobytes() for crop in crops for view in (crop, crop[:, :, ::-1])]


@pytest.mark.parametrize(("dtype", "dark"), [(torch.uint8, 0), (torch.float32, -1), (torch.float64, -1)])
def test_each_image_becomes_one_of_its_own_crops(dtype: torch.dtype, dark: int) -> None:
    images = torch.from_numpy(np.random.default_rng(0).integers(1, 255, (40, 3, 5, 6))).to(dtype)
    before = images.clone()
    cropped = crop_and_flip(images, np.random.default_rng(1))
    assert (cropped.shape, cropped.dtype) == (images.shape, images.dtype)
    assert torch.equal(images, before)
    for image, crop in zip(images, cropped, strict=True):
        assert crop.numpy().tobytes() in outcomes(image, dark)


def test_offsets_and_flips_are_uniform_and_independent() -> None:
    image = torch.arange(1, 2 * 9 * 9 + 1, dtype=torch.uint8).reshape(2, 9, 9)
    possible = {view: i for i, view in enumerate(outcomes(image, 0))}
    assert len(possible) == 9 * 9 * 2
    crops = crop_and_flip(image.expand(40 * len(possible), -1, -1, -1), np.random.default_rng(3)).contiguous()
    met = [possible[crop.tobytes()] for crop in crops.numpy()]
    assert chisquare(np.bincount(met, minlength=len(possible))).pvalue > 1e-3
    # Neighbours in a batch have nothing to do with each other.
    flipped = np.array(met) % 2
    assert chisquare(np.bincount(2 * flipped[1:] + flipped[:-1], minlength=4)).pvalue > 1e-3


def test_the_same_generator_gives_the_same_crops() -> None:
    images = torch.randn(20, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    before = torch.get_rng_state()
    first, again, other = (crop_and_flip(images, np.random.default_rng(seed)) for seed in (5, 5, 6))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_padding_can_be_chosen() -> None:
    images = torch.arange(1, 101, dtype=torch.uint8).reshape(1, 1, 10, 10).expand(50, -1, -1, -1)
    for crop in crop_and_flip(images, np.random.default_rng(0), padding=1):
        assert crop.numpy().tobytes() in outcomes(images[0], 0, padding=1)


def test_only_images_are_cropped() -> None:
    with pytest.raises(BatchError, match=r"not samples of shape \(8,\)"):
        crop_and_flip(torch.zeros(3, 8), np.random.default_rng(0))
