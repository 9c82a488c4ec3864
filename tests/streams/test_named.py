from pathlib import Path

import numpy as np
import pytest

from holdfast.errors import HoldfastError, InputError, UnknownName
from holdfast.streams import named


@pytest.fixture
def arrays(tmp_path: Path) -> str:
    x, y = np.arange(70, dtype=np.float32)[:, None], np.arange(70) % 7
    np.savez(tmp_path / "mine.npz", train_x=x, train_y=y, test_x=x[:7], test_y=y[:7])
    return f"arrays:{tmp_path / 'mine.npz'}"


def test_a_name_alone_means_its_usual_tasks_and_batches_of_ten(tmp_path: Path) -> None:
    stream = named("fashion", tmp_path)
    assert stream.name == "fashion"
    assert stream.tasks == ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9))
    assert len(stream) == 500 and len(stream.batch(0)[0]) == 10


def test_own_data_come_two_classes_a_task(arrays: str, tmp_path: Path) -> None:
    stream = named(arrays, tmp_path)
    assert [len(task) for task in stream.tasks] == [2, 2, 2, 1]


def test_options_are_taken(arrays: str, tmp_path: Path) -> None:
    stream = named(f"{arrays}:tasks=7,batch=4", tmp_path)
    assert len(stream.tasks) == 7
    assert [len(stream.batch(i)[0]) for i in range(3)] == [4, 4, 2]


@pytest.mark.parametrize(("iid_batches", "share"), [(0, 5), (1, 5), (2, 10)])
def test_the_order_can_be_shuffled(arrays: str, tmp_path: Path, iid_batches: int, share: int) -> None:
    stream = named(f"{arrays}:order=iid,batch=5", tmp_path, iid_batches=iid_batches)
    assert len(stream.tasks) == 1
    assert len(stream) == 14 and len(stream.batch(0)[0]) == share


def test_a_method_can_ask_for_the_shuffled_order(arrays: str, tmp_path: Path) -> None:
    assert len(named(arrays, tmp_path, iid_batches=2).batch(0)[0]) == 20


def test_the_seed_is_the_streams(arrays: str, tmp_path: Path) -> None:
    for order in ("split", "iid"):
        first, again, other = (named(f"{arrays}:order={order}", tmp_path, seed).order for seed in (1, 1, 2))
        assert (first == again).all() and (first != other).any()


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("fashon", UnknownName, "unknown stream 'fashon': did you mean 'fashion'? there are fashion, cifar10, "),
        ("zzz", UnknownName, "unknown stream 'zzz': there are"),
        ("", UnknownName, "unknown stream ''"),
        ("a\nb", UnknownName, "unknown stream 'a\\nb'"),
        ("fashion:task=5", UnknownName, "unknown stream option 'task': did you mean 'tasks'?"),
        ("fashion:order=idd", UnknownName, "'idd': did you mean 'iid'? there are split, iid"),
        ("fashion:tasks", InputError, "stream 'fashion:tasks': 'tasks' should be option=value"),
        ("fashion:tasks=", InputError, "'tasks=' should be option=value"),
        ("fashion:", InputError, "'' should be option=value"),
        ("fashion:tasks=5,", InputError, "'' should be option=value"),
        ("fashion:tasks=x", InputError, "tasks must be a whole number of 1 or more, not 'x'"),
        ("fashion:tasks=0", InputError, "tasks must be a whole number of 1 or more, not '0'"),
        ("fashion:batch=-1", InputError, "batch must be a whole number of 1 or more, not '-1'"),
        ("fashion:batch=1.5", InputError, "not '1.5'"),
        ("fashion:batch=²", InputError, "not '²'"),
        ("fashion:tasks=11", InputError, "tasks must be between 1 and 10"),
        ("fashion:size=32", InputError, "size is an option of folder streams only"),
        ("fashion:tasks=5:batch=1", InputError, "options go after one colon"),
        ("folder", InputError, "stream 'folder': say where, as in folder:PATH"),
        ("arrays:", InputError, "say where, as in arrays:PATH"),
        ("arrays:/nowhere.npz", HoldfastError, "/nowhere.npz is not a file"),
        ("folder:/nowhere", HoldfastError, "/nowhere"),
    ],
)
def test_a_wrong_name_is_explained_in_one_line(
    name: str, error: type[HoldfastError], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error) as caught:
        named(name, tmp_path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
