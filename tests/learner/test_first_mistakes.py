"""Every honest first mistake is one line that says what would be right."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast
from holdfast import ER, ERACE, Learner, Reservoir, mlp, slim_resnet18, small_cnn
from holdfast.errors import HoldfastError

Y = [0, 1, 0, 1]
PHOTOS = np.zeros((4, 32, 32, 3), np.uint8)
TABLE = np.zeros((4, 8), np.float32)


def given(value: object) -> Any:
    return value


def met(shape: tuple[int, int, int]) -> Learner:
    """Has learned from such images."""
    learner = Learner(small_cnn(shape), ERACE(), memory=10)
    learner.observe(np.zeros((4, *shape), np.uint8), Y)
    return learner


@pytest.mark.parametrize(
    ("mistake", "right"),
    [
        (lambda: Learner(slim_resnet18(), ERACE()).observe(PHOTOS, Y), "x.transpose(0, 3, 1, 2) puts the channels"),
        (lambda: Learner(small_cnn(), ERACE()).observe(np.zeros((4, 28, 28), np.uint8), Y), "x[:, None]"),
        (lambda: Learner(mlp((8,)), ERACE()).observe(TABLE[:, :7], Y), "it was made for (8,)"),
        (lambda: mlp(given(8)), "as in (8,)"),
        (lambda: Learner(mlp((8,)), given(ERACE)), "write ERACE()"),
        (lambda: Learner(given(mlp), ERACE()), "as in mlp((3, 32, 32))"),
        (lambda: Learner(given("small-cnn"), ERACE()), "holdfast.small_cnn("),
        (lambda: Learner(given("timm:resnet18"), ERACE()), "write holdfast.pretrained('timm:resnet18')"),
        (lambda: met((1, 28, 28)).observe(np.zeros((4, 28, 28), np.uint8), Y), "x[:, None]"),
        (lambda: met((3, 32, 32)).predict(np.zeros((3, 32, 32), np.uint8)), "one sample alone is x[None]"),
        (lambda: met((3, 32, 32)).predict(np.zeros((2, 3, 50, 40), np.uint8)), "list(x), are cropped and scaled"),
        (lambda: Learner(mlp((8,)), lr=float("nan")), "lr must be a finite number above 0 and at most 1000, not nan"),
        (lambda: Learner(given(ERACE()), given(mlp((8,)))), "the encoder comes first"),
        (lambda: Learner(mlp((8,)), "er-acee"), "did you mean 'er-ace'"),
        (lambda: Learner(mlp((8,)), ER(), memory=Reservoir(nbytes=10)).observe(TABLE, Y), "which has 32 bytes"),
        (lambda: Learner(mlp((8,)), ER(), memory="lots"), "such as 614kB, 50MB"),
        (lambda: ERACE(compete=given("foo")), "there are batch, batch+unseen"),
        (lambda: ER(replay=-1), "0 or more"),
        (lambda: holdfast.run("er", given(TABLE)), "holdfast.from_arrays"),
        (lambda: holdfast.run(given(ERACE)), "ERACE()"),
    ],
)
def test_one_line_says_what_would_be_right(mistake: Callable[[], object], right: str) -> None:
    with pytest.raises(HoldfastError) as caught:
        mistake()
    assert right in str(caught.value) and "\n" not in str(caught.value)


def test_methods_may_be_named_and_memories_written_in_bytes(tmp_path: Path) -> None:
    assert Learner(mlp((8,)), "er-ace:replay=5", memory="50MB").method == ERACE(replay=5)
    with holdfast.open(tmp_path / "mine", mlp((8,)), "er") as learner:
        assert learner.method == ER()


@pytest.mark.parametrize("method", [given(ERACE), "er-acee"])
def test_a_folder_that_was_not_there_is_not_left_behind(tmp_path: Path, method: Any) -> None:
    with pytest.raises(HoldfastError):
        holdfast.open(tmp_path / "mine", mlp((8,)), method)
    assert not (tmp_path / "mine").exists()
