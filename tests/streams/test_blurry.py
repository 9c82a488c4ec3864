import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from holdfast.datasets import Dataset
from holdfast.errors import InputError
from holdfast.seeds import generator
from holdfast.streams import Stream, blurry
from holdfast.streams.blurry import classes_in_order

from .test_streams import dataset

CLASSES, SAMPLES = 10, 200


@pytest.fixture(scope="module")
def numbers() -> Dataset:
    return dataset([SAMPLES] * CLASSES)


def labels(stream: Stream) -> list[list[int]]:
    return [stream.batch(i)[1].tolist() for i in range(len(stream))]


def probabilities(position: int, counts: list[int], width: float, left: list[int]) -> list[float]:
    """A Gaussian around the middle of each class, were they to come one after the other; 0 if none is left."""
    weights = []
    for label, count in enumerate(counts):
        distance = position - (sum(counts[:label]) + count / 2)
        weights.append(np.exp(-(distance**2) / (2 * width**2)) if left[label] else 0.0)
    return [float(weight / sum(weights)) for weight in weights]


@given(st.integers(2, 6), st.integers(18, 40), st.integers(5, 9), st.floats(1.5, 1.7), st.integers(0, 99))
def test_every_sample_comes_once_with_its_label(
    classes: int, samples: int, batch: int, distinct: float, seed: int
) -> None:
    source = dataset([samples] * classes)
    stream = blurry(source, 2, seed, batch, distinct)
    numbers = [number for i in range(len(stream)) for number in stream.batch(i)[0][:, 0].tolist()]
    assert sorted(numbers) == list(range(samples * classes))
    assert [label for y in labels(stream) for label in y] == source.train_y[numbers].tolist()
    assert all(len(y) == batch for y in labels(stream)[:-1]) and 0 < len(labels(stream)[-1]) <= batch


@pytest.mark.parametrize("seed", [0, 1, 2, 77])
@pytest.mark.parametrize("distinct", [1.0, 1.3, 2.0, 3.5, 5.0, 6.0])
def test_a_batch_holds_as_many_classes_as_was_asked_for(numbers: Dataset, distinct: float, seed: int) -> None:
    found = np.mean([len(set(y)) for y in labels(blurry(numbers, 5, seed, distinct=distinct))])
    assert abs(found - distinct) < 0.1


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("distinct", [1.0, 2.0, 4.0])
def test_classes_come_in_their_order(numbers: Dataset, distinct: float, seed: int) -> None:
    y = np.concatenate(labels(blurry(numbers, 5, seed, distinct=distinct)))
    centres = [np.median(np.flatnonzero(y == label)) for label in range(CLASSES)]
    assert centres == sorted(centres)
    assert np.abs(centres - (np.arange(CLASSES) + 0.5) * SAMPLES).max() < SAMPLES


def test_without_any_blur_classes_come_one_after_the_other(numbers: Dataset) -> None:
    assert np.concatenate(labels(blurry(numbers, 5, distinct=1))).tolist() == np.repeat(range(10), SAMPLES).tolist()


def test_the_seed_decides_the_classes_and_the_samples(numbers: Dataset) -> None:
    first, again, other = (blurry(numbers, 5, seed, distinct=2) for seed in (1, 1, 2))
    assert (first.order == again.order).all()
    assert labels(first) != labels(other)
    assert (first.order == other.order).mean() < 0.05
    unblurred = [blurry(numbers, 5, seed, distinct=1).order for seed in (1, 2)]
    assert (unblurred[0] == unblurred[1]).mean() < 0.05


def test_a_batch_depends_on_its_index_alone(numbers: Dataset) -> None:
    stream = blurry(numbers, 5, seed=4, distinct=3)
    expected = [stream.batch(i) for i in range(len(stream))]
    for i in (150, 3, 199, 0):
        x, y, task = blurry(numbers, 5, seed=4, distinct=3).batch(i)
        assert (x == expected[i][0]).all() and (y == expected[i][1]).all() and task == 0


def test_nobody_is_told_where_a_task_would_end(numbers: Dataset) -> None:
    stream = blurry(numbers, 5)
    assert stream.tasks == ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9))
    assert stream.task_ends == {len(stream)}


@pytest.mark.slow
@pytest.mark.parametrize("position", [0, 40, 80, 110])
def test_classes_are_drawn_with_the_gaussians_probabilities(position: int) -> None:
    """A chi-square test over seeds, of those in which every class still has samples."""
    counts, width = [60, 40, 50, 70], 45.0
    found = np.zeros(len(counts))
    for seed in range(1500):
        classes = classes_in_order(tuple(counts), width, seed)
        if (np.bincount(classes[:position], minlength=len(counts)) < counts).all():
            found[classes[position]] += 1
    assert found.sum() > 150
    expected = found.sum() * np.array(probabilities(position, counts, width, left=counts))
    often = expected >= 5
    assert often.sum() >= 3
    merged = [np.append(each[often], each[~often].sum()) for each in (found, expected)]
    assert chisquare(*(each[merged[1] > 0] for each in merged)).pvalue > 0.01


@pytest.mark.parametrize(("counts", "width"), [([30, 50, 20], 15.0), ([5] * 12, 4.0), ([300, 400], 200.0), ([9], 1.0)])
def test_many_positions_at_once_are_drawn_as_one_after_the_other(counts: list[int], width: float) -> None:
    for seed in range(5):
        draws, left, expected = generator(seed, "stream/blurry/classes").random(sum(counts)), list(counts), []
        for position, draw in enumerate(draws):
            upper = np.cumsum(probabilities(position, counts, width, left))
            label = int(np.searchsorted(upper, draw, side="right"))
            left[label] -= 1
            expected.append(label)
        assert classes_in_order(tuple(counts), width, seed).tolist() == expected


@pytest.mark.parametrize("distinct", [0.5, 0, -1, 7, 1e9, float("nan"), float("inf")])
def test_an_impossible_target_is_refused(numbers: Dataset, distinct: float) -> None:
    with pytest.raises(InputError, match=r"distinct must be between 1\.00 and 6\.26 classes a batch here, not"):
        blurry(numbers, 5, distinct=distinct)


def test_batches_that_straddle_classes_need_more_than_one() -> None:
    with pytest.raises(InputError, match=r"distinct must be between 1\.20 and"):
        blurry(dataset([25] * 6), 3, distinct=1)
    assert np.mean([len(set(y)) for y in labels(blurry(dataset([25] * 6), 3, distinct=1.2))]) == pytest.approx(1.2)


def test_every_seed_accepts_the_same_targets(numbers: Dataset) -> None:
    assert all(len(blurry(numbers, 5, seed, distinct=6.25)) == 200 for seed in range(5))


@pytest.mark.parametrize(
    ("wrong", "message"), [({"batch": 0}, "batch must be 1 or more"), ({"tasks": 11}, "tasks must")]
)
def test_other_mistakes_are_refused(numbers: Dataset, wrong: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        blurry(numbers, **{"tasks": 5, **wrong})
