from pathlib import Path

import numpy as np
import pytest

from holdfast.errors import DataError, HoldfastError, InputError, UnknownName
from holdfast.streams import Stream, blurry, named, source, split


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
    for order in ("split", "iid", "blurry"):
        first, again, other = (named(f"{arrays}:order={order}", tmp_path, seed).order for seed in (1, 1, 2))
        assert (first == again).all() and (first != other).any()


def of_each_task(stream: Stream) -> list[list[int]]:
    task = np.repeat(stream.batch_task, np.diff(stream.starts))
    return [stream.order[task == i].tolist() for i in range(len(stream.tasks))]


@pytest.mark.parametrize(("share", "later"), [("50", 500), ("10", 100), ("2.5", 25), ("0.01", 1)])
@pytest.mark.parametrize("seed", [0, 3])
def test_later_tasks_can_be_limited_to_a_share(share: str, later: int, seed: int, tmp_path: Path) -> None:
    whole = of_each_task(named("fashion", tmp_path, seed))
    part = of_each_task(named(f"fashion:share={share}", tmp_path, seed))
    assert part == [whole[0], *(task[:later] for task in whole[1:])]


def test_a_share_of_all_is_the_split_stream(tmp_path: Path) -> None:
    limited, whole = named("fashion:share=100", tmp_path, 2), split(named("fashion", tmp_path).dataset, 5, 2)
    for part in ("order", "starts", "batch_task", "tasks"):
        assert np.array_equal(getattr(limited, part), getattr(whole, part))
    assert source("fashion:share=100", tmp_path).options == source("fashion", tmp_path).options


def test_the_order_can_be_blurry(arrays: str, tmp_path: Path) -> None:
    stream = named(f"{arrays}:order=blurry,batch=5,distinct=2.5", tmp_path, seed=1)
    assert (stream.order == blurry(stream.dataset, 4, 1, 5, 2.5).order).all()
    assert not source(f"{arrays}:order=blurry", tmp_path).has_tasks
    assert source(f"{arrays}:order=blurry", tmp_path).options["distinct"] == 2.0


@pytest.mark.parametrize("seed", [0, 1])
def test_a_recorded_stream_can_keep_its_order(arrays: str, tmp_path: Path, seed: int) -> None:
    stream = named(f"{arrays}:order=given,batch=8", tmp_path, seed)
    batches = [stream.batch(i) for i in range(len(stream))]
    assert [len(y) for _, y, _ in batches] == [8] * 8 + [6]
    assert np.concatenate([x for x, _, _ in batches]).ravel().tolist() == list(range(70))
    assert np.concatenate([y for _, y, _ in batches]).tolist() == [i % 7 for i in range(70)]
    assert stream.task_ends == {9} and [len(task) for task in stream.tasks] == [2, 2, 2, 1]
    assert not source(f"{arrays}:order=given", tmp_path).has_tasks


def test_rehearsal_can_be_balanced(tmp_path: Path) -> None:
    assert source("fashion:rehearsal=balanced", tmp_path).options["rehearsal"] == "balanced"
    assert source("fashion:rehearsal=steady", tmp_path).options == source("fashion", tmp_path).options
    assert (named("fashion:rehearsal=balanced", tmp_path).order == named("fashion", tmp_path).order).all()


def test_mini_imagenet_that_is_not_there_says_how_to_bring_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="run `holdfast data get mini-imagenet --from PATH`"):
        named("mini-imagenet", tmp_path)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("fashon", UnknownName, "unknown stream 'fashon': did you mean 'fashion'? there are fashion, cifar10, "),
        ("zzz", UnknownName, "unknown stream 'zzz': there are"),
        ("", UnknownName, "unknown stream ''"),
        ("a\nb", UnknownName, "unknown stream 'a\\nb'"),
        ("fashion:task=5", UnknownName, "unknown stream option 'task': did you mean 'tasks'?"),
        ("fashion:order=idd", UnknownName, "'idd': did you mean 'iid'? there are split, iid"),
        ("fashion:order=blury", UnknownName, "unknown order 'blury': did you mean 'blurry'?"),
        ("fashion:rehearsal=balance", UnknownName, "unknown rehearsal 'balance': did you mean 'balanced'?"),
        ("fashion:distinc=2", UnknownName, "unknown stream option 'distinc': did you mean 'distinct'?"),
        ("mini-imagenett", UnknownName, "did you mean 'mini-imagenet'?"),
        ("fashion:distinct=2", InputError, "stream 'fashion:distinct=2': distinct goes with order=blurry"),
        ("fashion:order=iid,distinct=2", InputError, "distinct goes with order=blurry"),
        ("fashion:order=iid,share=10", InputError, "share goes with order=split"),
        ("fashion:order=blurry,share=10", InputError, "share goes with order=split"),
        ("fashion:order=given,rehearsal=balanced", InputError, "rehearsal goes with order=split"),
        ("fashion:order=given,batch=0", InputError, "batch must be a whole number of 1 or more"),
        ("fashion:order=blurry,distinct=two", InputError, "distinct must be a number, not 'two'"),
        ("fashion:order=blurry,distinct=nan", InputError, "distinct must be between 1.00 and "),
        ("fashion:order=blurry,distinct=0", InputError, "classes a batch here, not 0.0"),
        ("fashion:order=blurry,distinct=9", InputError, "classes a batch here, not 9.0"),
        ("fashion:share=ten", InputError, "share must be a number, not 'ten'"),
        ("fashion:share=0", InputError, "share must be above 0 and at most 100 per cent, not 0.0"),
        ("fashion:share=-5", InputError, "share must be above 0 and at most 100 per cent, not -5.0"),
        ("fashion:share=101", InputError, "share must be above 0 and at most 100 per cent, not 101.0"),
        ("fashion:share=nan", InputError, "share must be above 0 and at most 100 per cent, not nan"),
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
        ("fashion:tasks=5:batch=1", InputError, "options go after one colon, fashion:tasks=5,batch=1,"),
        ("folder:photos:size=16:tasks=3", InputError, "one colon, folder:photos:size=16,tasks=3, and a path has none"),
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
