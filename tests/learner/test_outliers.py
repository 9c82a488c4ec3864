"""R34: values that are finite but absurd ruin nothing, and honest ones are never taken for absurd."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

import holdfast
from holdfast import ER, DERPlusPlus, GDumb, Learner, mlp, small_cnn
from holdfast.errors import BatchError, InputError, NonFiniteError
from holdfast.methods import METHODS

Samples = NDArray[Any]
KINDS = 4
CENTRES = np.random.default_rng(0).normal(size=(KINDS, 64)) * 1.5
every_method = pytest.mark.parametrize("name", METHODS)


def batch(number: int, size: int = 10, shape: tuple[int, ...] = (8,)) -> tuple[Samples, list[int]]:
    rng = np.random.default_rng(number)
    y = rng.integers(0, KINDS, size)
    x = CENTRES[y, : math.prod(shape)] + rng.normal(size=(size, math.prod(shape)))
    return x.reshape(size, *shape).astype(np.float32), y.tolist()


def marked(x: Samples, value: float, *rows: int) -> Samples:
    x = x.copy()
    x.reshape(len(x), -1)[list(rows), 2] = value
    return x


def normed() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU())


def learner_of(name: str, encoder: nn.Module | None = None, **settings: Any) -> Learner:
    method = GDumb(rounds=10) if name == "gdumb" else METHODS[name]()
    return Learner(encoder or mlp((8,), width=32), method, **{"memory": 60, "classes": KINDS, **settings})


def accuracy(learner: Learner) -> float:
    x, y = batch(10_000, 200)
    return float(np.mean(np.array(learner.predict(x)) == y))


@pytest.mark.parametrize("encoder", ["mlp", "small_cnn", "BatchNorm1d"])
@every_method
def test_r34_a_single_outlier_is_refused_and_the_next_batch_is_learned(name: str, encoder: str) -> None:
    shape = (1, 8, 8) if encoder == "small_cnn" else (8,)
    make: Callable[[], nn.Module] = {
        "mlp": lambda: mlp(shape, width=16),
        "small_cnn": lambda: small_cnn(shape, width=4),
        "BatchNorm1d": normed,
    }[encoder]
    learner, undisturbed = learner_of(name, make()), learner_of(name, make())
    for number in range(4):
        x, y = batch(number, shape=shape)
        if number:
            for value in (1e4, -1e19, 1e20, 3.4e38):
                with pytest.raises(BatchError, match=r"x has the value .* in sample 3, .*mend it or leave it out"):
                    learner.observe(marked(x, value, 3), y, task=0)
        learner.observe(x, y, task=0)
        undisturbed.observe(x, y, task=0)
    assert learner.state_hash() == undisturbed.state_hash()


@every_method
def test_r34_marks_for_missing_values_do_not_keep_it_from_learning_the_rest(name: str) -> None:
    """From the first batch on, when nobody has said yet what is usual."""
    learner, rng = learner_of(name), np.random.default_rng(0)
    refused = 0
    for number in range(60):
        x, y = batch(number)
        rows = np.flatnonzero(rng.random(10) < 0.1).tolist() if number else [0, 7]
        try:
            learner.observe(marked(x, -9999, *rows), y, task=number // 30)
        except BatchError:
            refused += 1
            assert rows
    assert 20 < refused < 55 and accuracy(learner) > 0.7


def heavy_tail(rng: np.random.Generator) -> Iterator[Samples]:
    for _ in range(200):
        yield np.exp(1.5 * rng.standard_normal((10, 8)))


def counts(rng: np.random.Generator) -> Iterator[Samples]:
    for _ in range(200):
        yield rng.zipf(2.5, (10, 8)).astype(float)


def one_hot(rng: np.random.Generator) -> Iterator[Samples]:
    for number in range(50):
        yield np.eye(8)[rng.integers(0, 1 + number % 8, 10)]


def sparse_in_large_units(rng: np.random.Generator) -> Iterator[Samples]:
    for _ in range(50):
        yield 1e6 * rng.random((10, 8)) * (rng.random((10, 8)) < 0.02)


def zeros_first(rng: np.random.Generator) -> Iterator[Samples]:
    yield np.zeros((10, 8))
    yield np.zeros((10, 8))
    yield 1e6 + rng.standard_normal((10, 8))


def growing(rng: np.random.Generator) -> Iterator[Samples]:
    for number in range(100):
        yield 1.3**number * rng.standard_normal((10, 8))


def small_then_ordinary(rng: np.random.Generator) -> Iterator[Samples]:
    yield 1e-6 * rng.standard_normal((10, 8))
    yield 10 * rng.standard_normal((10, 8))


def units_of_all_kinds(rng: np.random.Generator) -> Iterator[Samples]:
    for _ in range(20):
        yield 10.0 ** np.arange(-4, 12, 2) * rng.standard_normal((10, 8))


def one_by_one(rng: np.random.Generator) -> Iterator[Samples]:
    yield 1e5 * rng.standard_normal((1, 8))
    yield 1e5 * rng.standard_normal((1, 8))


@pytest.mark.slow
@pytest.mark.parametrize(
    "stream",
    [
        heavy_tail,
        counts,
        one_hot,
        sparse_in_large_units,
        zeros_first,
        growing,
        small_then_ordinary,
        units_of_all_kinds,
        one_by_one,
    ],
)
def test_honest_samples_are_never_refused(stream: Callable[[np.random.Generator], Iterator[Samples]]) -> None:
    for seed in range(5):
        learner = Learner(nn.Identity(), GDumb(), memory=10)
        for x in stream(np.random.default_rng(seed)):
            learner.observe(x.astype(np.float32), [0] * len(x))


def test_outliers_are_refused_wherever_samples_come_in() -> None:
    learner = learner_of("er")
    x, y = batch(0)
    learner.observe(x, y)
    before, wrong = learner.state_hash(), marked(x, -9999, 2)
    with pytest.raises(BatchError, match="-9999, in sample 2"):
        learner.remember(wrong, y)
    assert learner.state_hash() == before
    ticket = learner.ask(wrong)  # a question is answered, whatever it is
    asked = learner.state_hash()
    with pytest.raises(BatchError, match="-9999, in sample 2"):
        learner.tell(ticket, y)
    assert learner.state_hash() == asked


def test_what_is_usual_is_saved_and_taken_back_with_a_step_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = learner_of("er")
    learner.observe(*batch(0))
    before, usual = learner.state_hash(), learner.magnitude
    with monkeypatch.context() as patch:
        patch.setattr(learner.optimizer, "step", lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            learner.observe(50 * batch(1)[0], batch(1)[1])
    assert learner.state_hash() == before and learner.magnitude == usual
    learner.save(tmp_path / "saved")
    loaded = Learner.load(tmp_path / "saved")
    assert loaded.magnitude == usual and loaded.state_hash() == before
    learner.magnitude = 2 * usual
    assert learner.state_hash() != before


def test_bytes_need_no_such_thing() -> None:
    images = np.random.default_rng(0).integers(0, 256, (10, 1, 8, 8), np.uint8)
    learner = Learner(small_cnn((1, 8, 8), width=4), ER(), memory=10)
    learner.observe(images // 255, batch(0)[1])
    learner.observe(images, batch(0)[1])
    assert learner.magnitude == 0


def test_samples_are_clipped_wherever_they_come_in(tmp_path: Path) -> None:
    clipped, by_hand = learner_of("er", clip_samples=3), learner_of("er", clip_samples=math.inf)
    for number in range(4):
        x, y = batch(number)
        x = marked(x, -9999, *range(number))
        inside = np.clip(x, -3, 3)
        clipped.observe(x, y)
        by_hand.observe(inside, y)
        clipped.remember(x, y)
        by_hand.remember(inside, y)
        clipped.tell(clipped.ask(x), y)
        by_hand.tell(by_hand.ask(inside), y)
        assert np.array_equal(clipped.predict_proba(x), by_hand.predict_proba(inside))
    assert clipped.state_hash() == by_hand.state_hash()
    clipped.save(tmp_path / "saved")
    loaded = Learner.load(tmp_path / "saved")
    assert loaded.clip_samples == 3 and np.array_equal(loaded.predict_proba(x), by_hand.predict_proba(inside))
    assert loaded.forget_samples(x) == by_hand.forget_samples(inside) > 0
    assert Learner.load(tmp_path / "saved", clip_samples=5).clip_samples == 5


@pytest.mark.parametrize("kind", [np.float64, np.longdouble, torch.float64])
def test_what_float32_has_no_room_for_is_clipped_too(kind: Any) -> None:
    x, y = batch(0)
    wide = x.astype(np.float64)
    wide[0, 0], wide[1, 1] = 1e39, -1e300
    given: Any = torch.from_numpy(wide) if isinstance(kind, torch.dtype) else wide.astype(kind)
    learner, by_hand = learner_of("er", clip_samples=3), learner_of("er", clip_samples=3)
    learner.observe(given, y)
    by_hand.observe(np.clip(wide, -3, 3), y)
    assert learner.state_hash() == by_hand.state_hash()
    assert np.array_equal(learner.predict_proba(given), by_hand.predict_proba(np.clip(wide, -3, 3)))
    assert learner.forget_samples(given) == len(y)
    for infinite in (given * np.inf, given * np.nan):
        with pytest.raises(BatchError, match="NaN, infinite or too large for float32"):
            learner.observe(infinite, y)
    for limit in (math.inf, 1e300):
        with pytest.raises(BatchError, match="NaN, infinite or too large for float32"):
            learner_of("er", clip_samples=limit).observe(given, y)


def test_a_limit_beyond_float32_is_none() -> None:
    limited, unlimited = learner_of("er", clip_samples=1e300), learner_of("er", clip_samples=math.inf)
    for number in range(3):
        limited.observe(*batch(number))
        unlimited.observe(*batch(number))
    assert limited.state_hash() == unlimited.state_hash()


@pytest.mark.parametrize("limit", [0, -1.0, math.nan, "refuse", True])
def test_a_limit_that_cannot_be(limit: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="clip_samples must be a"):
        learner_of("er", clip_samples=limit)
    with pytest.raises(InputError, match="clip_samples must be a"):
        holdfast.open(tmp_path / "home", mlp((8,)), ER(), clip_samples=limit)


def test_in_a_folder_the_limit_may_change_and_the_log_is_repeated_as_it_was(tmp_path: Path) -> None:
    x, y = batch(0)
    learner = holdfast.open(tmp_path / "home", mlp((8,)), GDumb(), memory=50, clip_samples=math.inf)
    learner.observe(x, y)
    learner.observe(marked(x, -9999, 2), y)
    there = learner.state_hash()
    del learner  # as if it was killed: the log has both
    with holdfast.open(tmp_path / "home", clip_samples=10) as learner:
        assert learner.state_hash() == there
    with holdfast.open(tmp_path / "home") as learner:
        assert learner.clip_samples == 10 and learner.state_hash() == there


@pytest.mark.parametrize(
    ("encoder", "optimizer", "value"),
    [
        (nn.Identity, lambda p: torch.optim.Adam(p, lr=0.01), 1e25),  # its square is kept
        (lambda: nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 8)), None, 1e16),  # the variance is finite
    ],
    ids=["Adam", "BatchNorm"],
)
def test_r34_a_step_that_leaves_numbers_no_step_can_start_from_is_taken_back(
    encoder: Callable[[], nn.Module], optimizer: Any, value: float
) -> None:
    learner = learner_of("er", encoder(), optimizer=optimizer, clip_samples=math.inf)
    learner.observe(*batch(0))
    before = learner.state_hash()
    x, y = batch(1)
    with pytest.raises(NonFiniteError):
        learner.observe(marked(x, value, 0, 1, 2), y)
    assert learner.state_hash() == before
    learner.observe(x, y)


def test_what_is_not_finite_is_named() -> None:
    encoder = nn.Linear(8, 8)
    encoder.register_buffer("mask", torch.full((8, 8), -torch.inf).triu(1))
    with pytest.raises(NonFiniteError, match=r"in encoder.module.mask \(a mask may have -1e9 in place of -inf\)"):
        learner_of("er", encoder).observe(*batch(0))


class Steep(nn.Module):
    """What it makes is infinite long before its weight is."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight**12


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_r34_a_step_after_which_nothing_could_be_answered_is_taken_back(average: float) -> None:
    learner = learner_of("er", Steep(), lr=1e-3, average=average)
    learner.observe(*batch(0))
    learner.change(lr=1000)
    said = []
    for number in range(1, 10):
        before = learner.state_hash()
        try:
            learner.observe(*batch(number))
        except NonFiniteError as error:
            said.append(str(error))
            assert learner.state_hash() == before
        assert np.isfinite(learner.predict_proba(batch(number)[0])).all()
    assert any("could not answer even what it has just learned" in error for error in said)


def test_r34_one_that_cannot_go_on_says_so_and_a_folder_goes_back(tmp_path: Path) -> None:
    home = tmp_path / "home"
    learner = holdfast.open(home, mlp((8,)), DERPlusPlus(), memory=50, clip_samples=math.inf)
    steps = [learner.state_hash()]
    for number in range(5):
        learner.observe(*batch(number))
        steps.append(learner.state_hash())
    said = []
    for number in range(5, 25):
        try:
            learner.observe(marked(batch(number)[0], 1e6, 1, 2), batch(number)[1])
        except NonFiniteError as error:
            said.append(str(error))
    assert "a smaller lr may help" in said[0]
    back = rf"repair\(folder, to_step=...\) goes back to a step from 0 to {learner.step - 1}"
    with pytest.raises(NonFiniteError, match=back):
        learner.observe(*batch(25))
    learner.close()
    holdfast.repair(home, to_step=4, yes=True)
    with holdfast.open(home) as learner:
        assert learner.state_hash() == steps[4]
        learner.observe(*batch(4))
        assert learner.state_hash() == steps[5]
    with holdfast.open(home) as learner:
        assert learner.state_hash() == steps[5]
