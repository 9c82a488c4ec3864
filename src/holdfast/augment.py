"""Augmentations: pure, batched, each takes its generator."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from holdfast.errors import BatchError

LEAST_SIDE = 16  # of a picture that can lose some of its border

Augment = Callable[[Tensor, np.random.Generator], Tensor]


def crop_and_flip(x: Tensor, rng: np.random.Generator, padding: int = 4) -> Tensor:
    """Crops at random after padding with the darkest value, then flips half of the images; for each image on its own.

    Args:
        x: images of shape (n, channels, height, width).
        rng: all randomness comes from it.
        padding: pixels on each side.

    Returns:
        Images of the same shape and type.

    Raises:
        BatchError: if they are not images.
    """
    if x.ndim != 4:
        raise BatchError(f"only images can be cropped and flipped, not samples of shape {tuple(x.shape[1:])}")
    n, _, height, width = x.shape
    dark = 0 if x.dtype == torch.uint8 else -1
    padded = torch.nn.functional.pad(x, (padding,) * 4, value=dark)
    top, left = (torch.from_numpy(rng.integers(0, 2 * padding + 1, (n, 1))).to(x.device) for _ in range(2))
    flip = torch.from_numpy(rng.random((n, 1)) < 0.5).to(x.device)
    rows = top + torch.arange(height, device=x.device)
    columns = torch.arange(width, device=x.device).expand(n, -1)
    columns = left + torch.where(flip, columns.flip(1), columns)
    samples = torch.arange(n, device=x.device)[:, None, None]
    return padded[samples, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def augment_images(x: Tensor, rng: np.random.Generator) -> Tensor:
    """Crops and flips samples that are images of 16 pixels a side or more; others stay as they are.

    Args:
        x: a batch of samples.
        rng: decides the crops and flips.

    Returns:
        The samples, as `crop_and_flip` makes them if they are images.

    Examples:
        >>> import holdfast, numpy as np, torch
        >>> holdfast.augment_images(torch.zeros(2, 7), np.random.default_rng(0)).shape
        torch.Size([2, 7])
    """
    return crop_and_flip(x, rng) if are_images(tuple(x.shape[1:])) else x


def are_images(shape: Sequence[int]) -> bool:
    """Whether samples of this shape are grey or coloured pictures, and not too small to lose some of their border."""
    return len(shape) == 3 and shape[0] in (1, 3) and min(shape[1:]) >= LEAST_SIDE


BUILT_IN: dict[str, Augment] = {each.__name__: each for each in (crop_and_flip, augment_images)}
