"""Standardised inputs and several updates a batch: part of the learner's state like everything else."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch

import holdfast
from holdfast.errors import BatchError, InputError, NonFiniteError
from holdfast.methods.base import Method
from holdfast.nets import Standardise

RNG = np.random.default_rng(0)
SCALES = np.array([0.001, 1.0, 1000.0], np.float32)


def table(samples: int = 10) -> tuple[np.ndarray, list[int]]:
    y = RNG.integers(0, 2, samples)
    x = RNG.normal(size=(samples, 3)) + 4 * y[:, None] * np.array([1, 0, 0])
    return (x * SCALES + [0, 5, 3000]).astype(np.float32), y.tolist()


def learner(**how: object) -> holdfast.Learner:
    return holdfast.Learner(holdfast.mlp((3,)), holdfast.ER(), memory=20, **how)  # type: ignore[arg-type]


def test_the_statistics_are_those_of_all_samples() -> None:
    standardise, x = Standardise(), torch.from_numpy(table(50)[0])
    for part in torch.split(x, 7):
        standardise.add(part)
    assert torch.allclose(standardise.mean, x.double().mean(0))
    assert torch.allclose(standardise.variance, x.double().var(0, correction=0))
    assert torch.allclose(standardise(x).std(0, correction=0), torch.ones(3), atol=1e-3)


def test_channels_of_images_and_columns_without_variance() -> None:
    standardise, x = Standardise(), torch.rand(6, 2, 4, 4)
    x[:, 1] = 7
    standardise.add(x)
    assert torch.allclose(standardise(x)[:, 0].std(correction=0), torch.tensor(1.0), atol=1e-3)
    assert torch.equal(standardise(x)[:, 1], torch.zeros(6, 4, 4))


@pytest.mark.parametrize("value", [-9999.0, -99.0, 50_000.0])
def test_one_absurd_value_in_a_small_column_leaves_it_what_it_was(value: float) -> None:
    """Beside a column of large values, it is not absurd by its size."""

    def batch(rng: np.random.Generator) -> tuple[np.ndarray, list[int]]:
        y = rng.integers(0, 2, 10)
        small = 0.02 + 0.03 * y + rng.normal(0, 0.005, 10)
        return np.stack([1000 + rng.normal(0, 10, 10), small], 1).astype(np.float32), y.tolist()

    rng, made = np.random.default_rng(0), holdfast.Learner(holdfast.mlp((2,)), memory=200, standardise=True)
    for number in range(120):
        x, y = batch(rng)
        if number == 60:
            x[3, 1] = value
        made.observe(x, y)
    tested = [batch(rng) for _ in range(20)]
    assert np.mean([np.array(made.predict(x)) == y for x, y in tested]) > 0.95


def test_a_column_that_becomes_larger_is_followed() -> None:
    standardise, rng = Standardise(), np.random.default_rng(0)
    for _ in range(20):
        standardise.add(torch.from_numpy(rng.normal(0, 0.001, (10, 1))))
    later = [torch.from_numpy(rng.normal(500, 10, (10, 1))) for _ in range(20)]
    for x in later:
        standardise.add(x)
    assert 0.3 < float(standardise(torch.cat(later)).mean()) < 3
    assert float(standardise(torch.tensor([[1e30]]))) == 100


def test_columns_of_any_scale_are_learned() -> None:
    plain, scaled = learner(), learner(standardise=True)
    for _ in range(30):
        x, y = table()
        scaled.observe(x, y)
        with suppress(NonFiniteError):
            plain.observe(x, y)
    x, y = table(200)
    right = [np.mean(np.array(each.predict(x)) == y) for each in (plain, scaled)]
    assert right[1] > 0.9 > right[0]


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_saved_and_loaded_it_goes_on_to_the_bit(tmp_path: Path, average: float) -> None:
    first = learner(standardise=True, updates=3, average=average)
    first.observe(*table())
    first.save(tmp_path / "saved")
    second = holdfast.Learner.load(tmp_path / "saved")
    assert second.settings["standardise"] is True and second.settings["updates"] == 3
    x, y = table()
    first.observe(x, y)
    second.observe(x, y)
    assert first.state_hash() == second.state_hash()
    assert np.array_equal(first.predict_proba(x), second.predict_proba(x))


def test_a_folder_knows_it(tmp_path: Path) -> None:
    batches = [table() for _ in range(3)]
    with holdfast.open(tmp_path / "mine", holdfast.mlp((3,)), holdfast.ER(), standardise=True, updates=2) as first:
        for x, y in batches:
            first.observe(x, y)
        there = first.state_hash()
        first._folder = None  # as if it were killed: the log is repeated
    with holdfast.open(tmp_path / "mine") as again:
        assert again.state_hash() == there and again.settings["updates"] == 2


@pytest.mark.parametrize("steps", [0, 1])
def test_a_step_that_fails_leaves_the_statistics(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    one = learner(standardise=True, updates=2)
    for _ in range(steps):
        one.observe(*table())
    before = one.state_hash()
    calls, learn = [], holdfast.ER.learn

    def fail(self: holdfast.ER, new: holdfast.Batch, at: holdfast.StepContext) -> object:
        calls.append(new)
        if len(calls) == 2:
            raise RuntimeError("no power")
        return learn(self, new, at)

    with monkeypatch.context() as patch:
        patch.setattr(type(one.method), "learn", fail)
        with pytest.raises(RuntimeError, match="power"):
            one.observe(*table())
    assert one.state_hash() == before
    one.observe(*table())


def test_updates_are_steps_on_the_same_batch_with_other_replays() -> None:
    one, three = learner(lr=0.01), learner(lr=0.01, updates=3)
    x, y = table(20)
    for each in (one, three):
        each.observe(x, y)
    assert one.step == three.step == 1 and one.memory.offered == three.memory.offered
    assert one.state_hash() != three.state_hash()
    assert learner(updates=1).state_hash() == learner().state_hash()


@pytest.mark.parametrize("method", [holdfast.SLDA(), holdfast.NCM()])
def test_where_nothing_is_learned_by_gradient_it_says_so(method: Method) -> None:
    with pytest.raises(InputError, match="updates=1"):
        holdfast.Learner(holdfast.raw((3,)), method, updates=2)
    with pytest.raises(InputError, match=r"without standardising .no --standardise; standardise=False"):
        holdfast.Learner(holdfast.raw((3,)), method, standardise=True)


@pytest.mark.parametrize("how", [{"updates": 0}, {"updates": 1.5}, {"standardise": "yes"}])
def test_mistakes_are_one_line(how: dict[str, object]) -> None:
    with pytest.raises(InputError, match=next(iter(how))):
        learner(**how)


def test_bad_batches_do_not_count() -> None:
    one = learner(standardise=True)
    one.observe(*table())
    before = one.state_hash()
    with pytest.raises(BatchError):
        one.observe(np.full((2, 3), np.nan, np.float32), [0, 1])
    assert one.state_hash() == before


def test_runs_have_both_and_their_ids_without_them_stay(tmp_path: Path) -> None:
    x, y = table(80)
    data = holdfast.from_arrays(x, y, *table(40))
    results = holdfast.run(
        "er", data, seeds=1, updates=[1, 2], standardise=[False, True], out=tmp_path, progress=False, net="mlp", lr=0.01
    )
    found = {(r["updates_per_batch"], r["standardise"]): r["acc"] for r in results}
    assert len({r["id"] for r in results}) == 4
    assert found[2, True] > found[1, False]
    assert {r["updates"] for r in results} == {8}
