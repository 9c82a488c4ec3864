"""Datasets of Hugging Face and of torch, as streams and for a learner."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, TensorDataset

import holdfast
from holdfast.errors import DataError, InputError

COLOURS = ["red", "green", "blue"]


def photo(colour: int, width: int = 20, height: int = 16) -> Image.Image:
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[:, :, colour] = 255
    return Image.fromarray(pixels)


class Photos(Dataset[tuple[Image.Image, int]]):
    """As torchvision's: pairs by number, names apart."""

    classes = COLOURS

    def __len__(self) -> int:
        return 24

    def __getitem__(self, place: int) -> tuple[Image.Image, int]:
        return photo(place % 3, width=20 + place), place % 3


@pytest.fixture(scope="module")
def hub() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what its own packages have to say
        return pytest.importorskip("datasets")


def of_hub(hub: Any, number: int = 24) -> Any:
    features = hub.Features({"img": hub.Image(), "label": hub.ClassLabel(names=COLOURS), "id": hub.Value("int64")})
    rows = [{"img": photo(place % 3), "label": place % 3, "id": place} for place in range(number)]
    return hub.Dataset.from_list(rows, features=features)


def test_a_learner_is_fed_from_hugging_face(hub: Any) -> None:
    learner = holdfast.Learner(holdfast.small_cnn((3, 16, 16), width=4), "ncm", memory=10)
    for x, y in holdfast.batches(of_hub(hub), 7):
        learner.observe(x, y)
    assert learner.step == 4 and learner.classes == COLOURS
    assert learner.predict([photo(2), photo(0)]) == ["blue", "red"]


@pytest.mark.slow
def test_splits_of_hugging_face_are_a_stream(hub: Any, tmp_path: Any) -> None:
    splits = hub.DatasetDict(train=of_hub(hub), validation=of_hub(hub, 3), test=of_hub(hub, 6))
    dataset = holdfast.from_dataset(splits, size=16, name="photos")
    assert dataset.classes == tuple(COLOURS) and dataset.train_x.shape == (24, 3, 16, 16)
    assert len(dataset.test_x) == 6 and dataset.notes[0] == "training on train, testing on test, validation is not used"
    results = holdfast.run("ncm", splits, seeds=1, net="raw", progress=False, out=tmp_path)
    assert [record["title"] for record in results] == ["ncm"]


def test_columns_are_named_where_they_are_not_usual(hub: Any) -> None:
    table = hub.Dataset.from_dict({"vector": [[0.0, 1.0], [1.0, 0.0]], "kind": ["up", "right"]})
    with pytest.raises(InputError, match="say which of vector, kind is the sample, x="):
        next(holdfast.batches(table))
    with pytest.raises(InputError, match="say which of vector, kind is the label, y="):
        next(holdfast.batches(table, x="vector"))
    with pytest.raises(InputError, match="there is no 'vectors' among vector, kind"):
        next(holdfast.batches(table, x="vectors"))
    assert next(holdfast.batches(table, x="vector", y="kind")) == ([[0.0, 1.0], [1.0, 0.0]], ["up", "right"])


def test_a_dataset_of_torch_is_a_stream_and_feeds_a_learner() -> None:
    dataset = holdfast.from_dataset(Photos(), size=8)
    assert dataset.classes == tuple(COLOURS) and dataset.train_x.shape == (18, 3, 8, 8) and len(dataset.test_x) == 6
    assert all(x[y].min() == 255 for x, y in zip(dataset.train_x, dataset.train_y, strict=True))
    assert "every sixth sample of a class is for testing" in dataset.notes[0] and "8 × 8 pixels" in dataset.notes[1]
    tensors: Any = TensorDataset(torch.eye(3).repeat(4, 1), torch.arange(12) % 3)
    found = holdfast.from_dataset(tensors, tensors)
    assert found.classes == ("0", "1", "2") and found.test_x.dtype == np.float32 and found.notes == ()
    learner = holdfast.Learner(holdfast.mlp((3,)), "ncm", memory=10)
    for x, y in holdfast.batches(tensors, 5):
        learner.observe(x, y)
    assert learner.classes == [0, 1, 2] and learner.predict(np.eye(3)) == [0, 1, 2]


def test_what_is_no_dataset_is_said_in_one_line() -> None:
    mistakes: list[tuple[Any, str]] = [
        (Photos(), r"samples differ in shape, \(3, 16, 20\) and .*; for images, give size=224"),
        ([1, 2], "pairs of a sample and its label, not a int"),
        ({"first": []}, "no split train among first"),
        ([({"a": 1}, "b")], "sample 0: x"),
        (DataLoader(TensorDataset(torch.eye(4), torch.arange(4)), 2), r"give its dataset, loader.dataset"),
    ]
    for given, message in mistakes:
        with pytest.raises(InputError, match=message):
            holdfast.from_dataset(given)
    with pytest.raises(DataError, match="empty"):
        holdfast.from_dataset([])
    with pytest.raises(DataError, match="'b' has 1 sample"):
        holdfast.from_dataset([([1.0, 2.0], "a"), ([1.0, 3.0], "a"), ([1.0, 2.0], "b")])
    with pytest.raises(InputError, match="a mapping of train; give one of them"):
        next(holdfast.batches({"train": []}))
