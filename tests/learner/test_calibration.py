"""Calibrated answers: probabilities that fit how often they are right, and None for classes that are not known."""

import itertools
from pathlib import Path

import numpy as np
import pytest

import holdfast
from holdfast.errors import BatchError, InputError, NothingLearned
from holdfast.learner.calibration import unpack
from holdfast.methods.base import Method

RNG = np.random.default_rng(0)
CENTRES = 2.0 * np.eye(5, 6)


def samples(number: int, classes: int = 3) -> tuple[np.ndarray, list[str]]:
    y = RNG.integers(0, classes, number)
    return (CENTRES[y] + RNG.normal(size=(number, 6))).astype(np.float32), [f"c{label}" for label in y]


def learned(method: Method | str = "er", **how: object) -> holdfast.Learner:
    net = holdfast.mlp((6,)) if not isinstance(method, str) or method in ("er", "scr", "icarl") else holdfast.raw((6,))
    learner = holdfast.Learner(net, method, memory=60, lr=0.1, **how)  # type: ignore[arg-type]
    for _ in range(40):
        learner.observe(*samples(10), task=0)
    return learner


@pytest.mark.parametrize("method", ["er", "ncm", "slda", "scr", "icarl"])
def test_probabilities_fit_better_and_answers_stay(method: str) -> None:
    learner = learned(method)
    before = learner.predict(fresh := samples(300)[0])
    found = learner.calibrate(*samples(400))
    assert found == learner.calibration and found.samples == 400 and found.step == 40
    assert found.error <= found.error_before + 0.02 and found.error < 0.15
    assert learner.predict(fresh) == before
    x, y = samples(400)
    hit = np.array(learner.predict(x)) == np.array(y)
    assert abs(learner.predict_proba(x).max(1).mean() - hit.mean()) < 0.1


def test_unknown_classes_get_none_and_the_trade_off_is_told() -> None:
    learner = learned("ncm")
    x, y = samples(200)
    strange, names = samples(200, classes=5)
    found = learner.calibrate(np.concatenate([x, strange]), [*y, *names], accept=0.9)
    answered = [label is not None for label in learner.predict(x, unknown=True)]
    assert np.mean(answered) == pytest.approx(0.9, abs=0.05)
    rows = found.trade_off
    assert [row.answered for row in rows] == sorted((row.answered for row in rows), reverse=True)
    assert rows[0].answered == 1.0 and rows[0].accuracy <= rows[-1].accuracy
    assert all(a.rejected <= b.rejected for a, b in itertools.pairwise(rows))  # type: ignore[operator]
    assert None not in learner.predict(x)


def test_it_is_saved_and_logged_and_survives_steps(tmp_path: Path) -> None:
    learner = learned()
    learner.calibrate(*samples(50))
    learner.save(tmp_path / "saved")
    again = holdfast.Learner.load(tmp_path / "saved")
    assert again.calibration == learner.calibration and again.state_hash() == learner.state_hash()
    with holdfast.open(tmp_path / "mine", holdfast.mlp((6,)), "er", keep=2) as durable:
        durable.observe(*samples(50))
        durable.checkpoint()
        found = durable.calibrate(*samples(50))
        durable.observe(*samples(10))
        there, entries = durable.state_hash(), holdfast.kept(tmp_path / "mine")
        assert entries
        assert durable._folder is not None
        durable._folder.abandon()  # as a kill would: the log is repeated
        durable._folder = None
    assert holdfast.inspect(tmp_path / "mine").step == 2
    assert holdfast.verify(tmp_path / "mine", deep=True).ok
    with holdfast.open(tmp_path / "mine") as recovered:
        assert recovered.calibration == found and recovered.state_hash() == there


def test_without_calibration_nothing_changes_in_files(tmp_path: Path) -> None:
    learner = learned()
    before = learner.state_hash()
    x, y = samples(30)
    with pytest.raises(InputError, match="2 or more, not 0"):
        learner.calibrate(x, ["new"] * 30)
    with pytest.raises(InputError, match="accept"):
        learner.calibrate(x, y, accept=2.0)
    with pytest.raises(BatchError, match="30 samples but y has 2"):
        learner.calibrate(x, y[:2])
    with pytest.raises(InputError, match="calibrate"):
        learner.predict(x, unknown=True)
    with pytest.raises(NothingLearned):
        holdfast.Learner(holdfast.mlp((6,)), "er").calibrate(x, y)
    assert learner.state_hash() == before


@pytest.mark.parametrize("wrong", [{"temperature": -1.0}, {"threshold": float("nan")}, {"samples": 1.5}])
def test_what_a_file_says_is_checked(wrong: dict[str, float]) -> None:
    learner = learned()
    said = learner.calibrate(*samples(50)).pack()
    assert unpack(said) == learner.calibration
    with pytest.raises(InputError):
        unpack(said | wrong)


@pytest.mark.parametrize("method", ["er", "er-ace", "ncm", "scr"])
def test_where_scores_are_no_numbers_nothing_is_known(method: str) -> None:
    learner = learned(method)
    learner.calibrate(*samples(400))
    absurd = np.full((2, 6), -np.finfo(np.float32).max)
    assert learner.predict(absurd, unknown=True) == [None, None]
    assert np.allclose(learner.predict_proba(absurd), 1 / 3)
    if method == "er-ace":
        assert not np.isnan(learner.similarity(absurd)).any() and learner.predict(absurd, reject=0.2) == [None, None]


def test_an_absurd_sample_is_refused_before_it_ruins_a_calibration() -> None:
    learner = learned()
    x, y = samples(400)
    x[5, 2] = -9999
    with pytest.raises(BatchError, match="-9999"):
        learner.calibrate(x, y)
    assert learner.calibration is None
