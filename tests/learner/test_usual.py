"""What a learner has if nobody says otherwise."""

import pytest
import torch

import holdfast
from holdfast import ERACE, Holdfast, Learner, augment_images


@pytest.mark.parametrize(
    ("encoder", "method", "augment"),
    [
        (holdfast.slim_resnet18((3, 32, 32)), Holdfast(), augment_images),
        (torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 8)), Holdfast(), augment_images),
        (holdfast.small_cnn((3, 32, 32)), Holdfast(), None),  # fits augmented images less well than plain ones
        (holdfast.slim_resnet18((3, 32, 32)), ERACE(), None),
    ],
    ids=["resnet", "own", "small", "er-ace"],
)
def test_images_are_augmented_where_it_helps(
    encoder: torch.nn.Module, method: holdfast.Method, augment: object
) -> None:
    learner = Learner(encoder, method)
    assert learner.training.augment is augment
    assert (learner.average is not None) == (learner.settings["lr"] == 0.05) == isinstance(method, Holdfast)
