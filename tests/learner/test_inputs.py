"""Samples as people have them: data frames, lists, whole numbers, images of any size, files of images."""

from pathlib import Path
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
        torch.tensor(TABLE),
        torch.tensor(TABLE, dtype=torch.int8),
        [torch.tensor(row, dtype=torch.bfloat16) for row in TABLE],
        [np.array(row, object) for row in TABLE],
        [np.ma.masked_array(row, mask=False) for row in TABLE],
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


@pytest.mark.parametrize("types", [float, "Float64", "Int64", object, {"a": int, "b": "float32", "c": "Int8"}])
def test_data_frames_of_any_types_are_the_same_samples(types: Any) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(TABLE, columns=["a", "b", "c"]).astype(types)
    assert torch.equal(as_tensor(frame, None), torch.tensor(TABLE, dtype=torch.float32))
    with pytest.raises(BatchError, match=r"NaN|not numbers"):
        as_tensor(frame.mask(frame > 5), None)


@pytest.mark.parametrize("kind", [np.array, torch.tensor, list])
def test_true_and_false_are_one_and_nought(kind: Any) -> None:
    assert torch.equal(as_tensor(kind([[True, False], [False, False]]), None), torch.tensor([[1.0, 0], [0, 0]]))


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (np.ma.masked_array([1.0, 2.0, 3.0], mask=[False, True, False]), "masked values"),
        (torch.tensor([1.0, 2.0, 3.0], device="meta"), "dense"),
        (torch.tensor([1.0, 2.0, 3.0]).to_sparse(), "dense"),
        ([1.0, None, 3.0], "not numbers"),
        ([1.0, 10**400, 3.0], "too large"),
    ],
)
def test_a_sample_in_a_list_is_checked_like_an_array(sample: Any, message: str) -> None:
    with pytest.raises(BatchError, match=message):
        as_tensor([sample, sample], None)


def test_images_of_pillow_come_channels_first_and_get_the_size_of_those_before() -> None:
    learner = holdfast.Learner(holdfast.small_cnn((3, 16, 12)), "er")
    learner.observe([photo(12, 16), photo(12, 16, "L")], ["a", "b"])
    assert learner.sample_template is not None and learner.sample_template.shape[1:] == (3, 16, 12)
    assert len(learner.predict([photo(40, 30), photo(12, 16)])) == 2
    grey = holdfast.Learner(holdfast.small_cnn((1, 16, 12)), "er")
    grey.observe(np.zeros((1, 1, 16, 12), np.uint8), ["a"])
    assert grey.predict([photo(40, 30)]) == ["a"]


def colours(height: int, width: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Red in the upper half, blue in the lower."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[: height // 2, :, 0], pixels[height // 2 :, :, 2] = 255, 255
    return pixels


@pytest.mark.parametrize("make", [holdfast.small_cnn, lambda shape: holdfast.pretrained(Flat(), size=16)])
def test_images_of_any_size_get_the_size_that_the_net_wants(make: Any, tmp_path: Path) -> None:
    learner = holdfast.Learner(make((3, 16, 16)), "er", memory=10)
    large, small = colours(64, 48), colours(16, 16)
    Image.fromarray(large).save(tmp_path / "large.png")
    same: list[list[Any]] = [
        [Image.fromarray(large), Image.fromarray(small)],
        [large, small],  # channels last, as OpenCV and Pillow give them
        [large.transpose(2, 0, 1), torch.from_numpy(small)],
        [tmp_path / "large.png", small],
        [str(tmp_path / "large.png"), Image.fromarray(small)],
    ]
    learner.observe(same[0], ["large", "small"])
    answers = [learner.predict_proba(x) for x in same]
    for found in answers[1:]:
        np.testing.assert_array_equal(found, answers[0])
    np.testing.assert_allclose(answers[0][0], answers[0][1], atol=0.02)  # they differ only where the halves meet


class Flat(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert x.shape[1:] == (3, 16, 16)
        return x.flatten(1)


def test_what_is_forgotten_may_be_given_as_it_came() -> None:
    learner = holdfast.Learner(holdfast.small_cnn((3, 16, 16)), "er", memory=10)
    learner.observe([colours(64, 48), colours(20, 90)], ["a", "b"])
    assert learner.forget_samples([Image.fromarray(colours(64, 48))]) == 1


def test_wrong_images_are_said_in_one_line(tmp_path: Path) -> None:
    learner = holdfast.Learner(holdfast.small_cnn((3, 16, 16)), "er", memory=10)
    (tmp_path / "text.jpg").write_text("not an image")
    mistakes: list[tuple[list[Any], str]] = [
        ([tmp_path / "none.jpg"], "there is no image file .*none.jpg"),
        ([tmp_path / "text.jpg"], "text.jpg cannot be read as an image"),
        ([np.zeros((16, 16, 7), np.uint8)], "1, 3 or 4 channels"),
        ([colours(8, 8), np.zeros((3, 3), np.float32)], "different shapes"),
    ]
    for x, message in mistakes:
        with pytest.raises(BatchError, match=message):
            learner.observe(x, ["a"] * len(x))
    with pytest.raises(BatchError, match=r"x.transpose\(0, 3, 1, 2\) puts the channels first"):
        learner.observe(np.zeros((2, 16, 16, 3), np.uint8), ["a", "b"])
    learner.observe([colours(16, 16)], ["a"])
    with pytest.raises(BatchError, match=r"x.transpose\(0, 3, 1, 2\) puts the channels first"):
        learner.predict(np.zeros((2, 16, 16, 3), np.uint8))
    with pytest.raises(BatchError, match=r"x has images; this learner takes samples of shape \(3,\)"):
        holdfast.Learner(holdfast.mlp((3,)), "er", memory=10).observe([colours(8, 8), photo(8, 8)], ["a", "b"])
    with pytest.raises(BatchError, match="x has text or file names; this learner takes"):
        holdfast.Learner(holdfast.mlp((3,)), "er", memory=10).observe(["a text", "another"], ["a", "b"])
    with pytest.raises(BatchError, match=r"3 samples but y has 1 labels; one sample alone is x\[None\]"):
        holdfast.Learner(holdfast.small_cnn((3, 16, 16)), "er", memory=10).observe(
            np.zeros((3, 16, 16), np.uint8), ["a"]
        )


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([photo(12, 16), photo(40, 30)], "12×16 and 40×30.*resize them.*size=224"),
        ([photo(12, 16), 3], "images and other things, such as a int"),
        ([np.zeros(3), np.zeros(4)], r"different shapes, \(3,\) and \(4,\)"),
        ([["red"], ["green"]], "not numbers"),
        (np.zeros((2, 3, 8, 8), np.int64), "x.astype"),
        ("photo.jpg", r"not str; for one image, \['photo.jpg'\]"),
        (photo(8, 8), r"for one image, \[image\]$"),
        (Path().glob("*.jpg"), r"list\(x\) makes one$"),
        ({"a": 1}, "not dict$"),
        ([], "must be"),
        ([[[1, 2], [3]], [4]], "not an array"),
    ],
)
def test_what_cannot_be_samples_is_said_in_one_line(x: Any, message: str) -> None:
    with pytest.raises(BatchError, match=message):
        as_tensor(x, None)
