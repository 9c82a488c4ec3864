"""Samples as people have them: data frames, lists, whole numbers, images of Pillow."""

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import holdfast
from holdfast.errors import BatchError
from holdfast.samples import as_tensor

TABLE = [[1, 2, 3], [4, 5, 6]]


def photo(width: int, height: int, mode: str = "RGB") -> Image.Image:
    return Image.new(mode, (width, height), 200)


@pytest.mark.parametrize(
    "x",
    [
        np.array(TABLE),
        np.array(TABLE, np.int16),
        TABLE,
        [np.array(row, float) for row in TABLE],
        [torch.tensor(row, dtype=torch.float32) for row in TABLE],
        tuple(map(tuple, TABLE)),
    ],
)
def test_tables_of_any_kind_are_the_same_samples(x: Any) -> None:
    assert torch.equal(as_tensor(x, None), torch.tensor(TABLE, dtype=torch.float32))


def test_data_frames() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(TABLE, columns=["a", "b", "c"])
    learner = holdfast.Learner(holdfast.mlp((3,)), "er")
    learner.observe(frame, pandas.Series(["up", "down"]))
    assert set(learner.predict(frame)) <= {"up", "down"}
    with pytest.raises(BatchError, match="not numbers"):
        learner.observe(frame.assign(a="red"), ["up", "down"])


def test_images_of_pillow_come_channels_first_and_get_the_size_of_those_before() -> None:
    learner = holdfast.Learner(holdfast.small_cnn((3, 16, 12)), "er")
    learner.observe([photo(12, 16), photo(12, 16, "L")], ["a", "b"])
    assert learner.sample_template is not None and learner.sample_template.shape[1:] == (3, 16, 12)
    assert len(learner.predict([photo(40, 30), photo(12, 16)])) == 2
    grey = holdfast.Learner(holdfast.small_cnn((1, 16, 12)), "er")
    grey.observe(np.zeros((1, 1, 16, 12), np.uint8), ["a"])
    assert grey.predict([photo(40, 30)]) == ["a"]


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([photo(12, 16), photo(40, 30)], "12×16 and 40×30; resize them"),
        ([photo(12, 16), 3], "images and other things, such as a int"),
        ([np.zeros(3), np.zeros(4)], r"different shapes, \(3,\) and \(4,\)"),
        ([["red"], ["green"]], "not numbers"),
        (np.zeros((2, 3, 8, 8), np.int64), "x.astype"),
        ("photo.jpg", "not str"),
        ({"a": 1}, "not dict"),
        ([], "must be"),
        ([[[1, 2], [3]], [4]], "no array"),
    ],
)
def test_what_cannot_be_samples_is_said_in_one_line(x: Any, message: str) -> None:
    with pytest.raises(BatchError, match=message):
        as_tensor(x, None)
