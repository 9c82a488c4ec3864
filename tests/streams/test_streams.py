import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.datasets import Dataset
from holdfast.errors import InputError
from holdfast.streams import Stream, iid, split

sizes_ = st.lists(st.integers(1, 13), min_size=1, max_size=7)


def dataset(sizes: list[int]) -> Dataset:
    """`sizes[c]` samples of class c, numbered, and not in the order of their classes."""
    y = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    x = np.arange(len(y), dtype=np.int32)[:, None]
    return Dataset("numbers", tuple(f"c{i}" for i in range(len(sizes))), x, y, x[:1], y[:1])


def batches(stream: Stream) -> list[tuple[list[int], list[int], int]]:
    return [(x[:, 0].tolist(), y.tolist(), task) for x, y, task in map(stream.batch, range(len(stream)))]


@given(sizes_, st.data(), st.integers(1, 15), st.integers(0, 99))
def test_a_split_stream_shows_every_sample_once_class_by_class(
    sizes: list[int], data: st.DataObject, batch: int, seed: int
) -> None:
    source, tasks = dataset(sizes), data.draw(st.integers(1, len(sizes)))
    stream = split(source, tasks, seed, batch)
    seen = [(number, label, task) for x, y, task in batches(stream) for number, label in zip(x, y, strict=True)]
    assert sorted(number for number, _, _ in seen) == list(range(sum(sizes)))
    assert all(source.train_y[number] == label and label in stream.tasks[task] for number, label, task in seen)
    assert [label for task in stream.tasks for label in task] == list(range(len(sizes)))
    assert max(map(len, stream.tasks)) - min(map(len, stream.tasks)) <= 1
    assert len(stream.tasks) == tasks

    of_task = [[len(x) for x, _, task in batches(stream) if task == t] for t in range(tasks)]
    assert [task for _, _, task in batches(stream)] == sorted(task for _, _, task in batches(stream))
    for task, counts in enumerate(of_task):  # full batches, then what is left
        assert sum(counts) == sum(sizes[label] for label in stream.tasks[task])
        assert all(count == batch for count in counts[:-1]) and 0 < counts[-1] <= batch
    assert stream.task_ends == set(np.cumsum([len(counts) for counts in of_task]).tolist())


@given(sizes_, st.integers(1, 15), st.integers(1, 3), st.integers(0, 99))
def test_a_shuffled_stream_holds_one_batch_of_each_pass(sizes: list[int], batch: int, passes: int, seed: int) -> None:
    source, n = dataset(sizes), sum(sizes)
    stream = iid(source, seed, batch, passes)
    halves: list[list[int]] = [[] for _ in range(passes)]
    for i, (x, y, task) in enumerate(batches(stream)):
        share = min(batch, n - i * batch)
        assert len(x) == passes * share and task == 0
        assert y == source.train_y[x].tolist()
        for p in range(passes):
            halves[p] += x[p * share : (p + 1) * share]
    assert all(sorted(half) == list(range(n)) for half in halves)
    assert stream.task_ends == {len(stream)} == {-(-n // batch)}
    assert stream.tasks == (tuple(range(len(sizes))),)


def test_the_passes_are_independent_permutations() -> None:
    stream = iid(dataset([100] * 10), batch=1000, passes=2)
    x, _, _ = stream.batch(0)
    first, second = x[:1000, 0].astype(np.float64), x[1000:, 0].astype(np.float64)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.15
    assert abs(np.corrcoef(first, np.arange(1000))[0, 1]) < 0.15
    assert (first == iid(dataset([100] * 10), batch=1000).batch(0)[0][:, 0]).all()


@pytest.mark.parametrize("build", [lambda d, s: split(d, 3, s, batch=7), lambda d, s: iid(d, s, batch=7, passes=2)])
def test_a_batch_depends_on_its_index_and_the_seed_alone(build: object) -> None:
    assert callable(build)
    source = dataset([20, 9, 30, 11, 15])
    stream, other = build(source, 1), build(source, 2)
    expected = [stream.batch(i) for i in range(len(stream))]
    for i in np.random.default_rng(0).integers(0, len(stream), 60):
        for anew in (stream, build(source, 1)):
            x, y, task = anew.batch(i)
            assert x.tobytes() == expected[i][0].tobytes() and y.tobytes() == expected[i][1].tobytes()
            assert task == expected[i][2]
    assert len(other) == len(stream)
    assert sum(np.array_equal(stream.batch(i)[0], other.batch(i)[0]) for i in range(len(stream))) <= 1


def test_samples_of_a_task_are_mixed() -> None:
    y = np.concatenate([y for _, y, task in map(split(dataset([100] * 4), 2).batch, range(40)) if task == 0])
    assert 30 < (y[:100] == 0).sum() < 70


def test_tasks_are_shuffled_independently() -> None:
    stream = split(dataset([200] * 2), 2, batch=200)
    first, second = (stream.batch(task)[0][:, 0].argsort().argsort().astype(np.float64) for task in range(2))
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.3


def test_a_batch_is_the_callers_to_change() -> None:
    stream = split(dataset([6]), 1)
    x, y, _ = stream.batch(0)
    x[:] = y[:] = 77
    again = stream.batch(0)
    assert sorted(again[0][:, 0].tolist()) == list(range(6)) and not again[1].any()


@pytest.mark.parametrize("tasks", [0, -1, 4])
def test_more_tasks_than_classes_are_refused(tasks: int) -> None:
    with pytest.raises(InputError, match="tasks must be between 1 and 3, the number of classes of numbers"):
        split(dataset([2, 2, 2]), tasks)


def test_a_batch_holds_at_least_one_sample() -> None:
    with pytest.raises(InputError, match="batch must be 1 or more, not 0"):
        split(dataset([2, 2]), 2, batch=0)


@pytest.mark.parametrize("wrong", [{"batch": 0}, {"passes": 0}, {"epochs": 0}])
def test_a_shuffled_stream_refuses_no_samples_and_no_passes(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError, match="must be 1 or more"):
        iid(dataset([2, 2]), **wrong)
