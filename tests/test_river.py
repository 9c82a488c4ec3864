"""The River adapter: River's own checks, and what a user relies on."""

import copy
import doctest
import math
import pickle
import pickletools
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from river import checks, datasets, evaluate, linear_model, metrics, preprocessing
from river.base import Classifier

from holdfast import ERACE, Learner, Reservoir, mlp, river
from holdfast.adapters import named_features
from holdfast.errors import BatchError, InputError, LabelError, NonFiniteError
from holdfast.river import OnlineClassifier

MODELS = [OnlineClassifier(**parameters) for parameters in OnlineClassifier._unit_test_params()]
MODELS += [OnlineClassifier(standardise=True, updates=2, average=0.9)]
CHECKS = [(model, check) for model in MODELS for check in checks.yield_checks(model)]
Sample = dict[Any, Any]


@pytest.mark.slow
@pytest.mark.parametrize(("model", "check"), CHECKS, ids=lambda value: getattr(value, "__name__", None))
def test_rivers_own_checks(model: OnlineClassifier, check: Callable[[Classifier], None]) -> None:
    assert model._unit_test_skips() == set()
    check(model.clone())


def stream(start: int, stop: int) -> tuple[list[Sample], list[str]]:
    """Samples of a stream in which a label appears every twenty samples, and a feature every forty."""
    rng = np.random.default_rng(0)
    samples, labels = [], []
    for i in range(stop):
        kind = int(rng.integers(0, 1 + i // 20))
        numbers = (rng.standard_normal(8) + 2 * np.eye(8)[kind]).tolist()
        samples.append(dict(zip("abcdefgh"[: 4 + i // 40], numbers, strict=False)))
        labels.append(["pear", "fig", "apple", "quince", "lime", "date"][kind])
    return samples[start:], labels[start:]


def teach(model: OnlineClassifier, start: int, stop: int) -> OnlineClassifier:
    for x, y in zip(*stream(start, stop), strict=True):
        model.learn_one(x, y)
    return model


def taught(samples: int = 60, **parameters: Any) -> OnlineClassifier:
    return teach(OnlineClassifier(**{"width": 16, "memory": 30, **parameters}), 0, samples)


def state(model: OnlineClassifier) -> Any:
    rest = {name: value for name, value in vars(model).items() if name != "learner"}
    return repr(rest), None if model.learner is None else model.learner.state_hash()


def room_in(model: OnlineClassifier) -> int:
    assert model.learner is not None
    return named_features.room(model.learner)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dataset", "better_by"),
    [(datasets.Phishing, -0.04), (datasets.ImageSegments, 0.03)],  # two classes that a line parts, seven it does not
)
def test_accuracy_on_real_streams_beside_a_linear_model(dataset: Any, better_by: float) -> None:
    def accuracy(model: Any) -> float:
        scaled = preprocessing.StandardScaler() | model
        return float(evaluate.progressive_val_score(dataset().take(1200), scaled, metrics.Accuracy()).get())

    assert accuracy(OnlineClassifier()) > accuracy(linear_model.SoftmaxRegression()) + better_by


@pytest.mark.slow
def test_classes_one_after_another_are_not_forgotten() -> None:
    scaler = preprocessing.StandardScaler()
    for x, _ in datasets.ImageSegments():
        scaler.learn_one(x)
    rows = sorted(((scaler.transform_one(x), y) for x, y in datasets.ImageSegments()), key=lambda row: str(row[1]))

    def accuracy(model: Classifier) -> float:
        for x, y in rows:
            model.learn_one(x, y)
        return float(np.mean([model.predict_one(x) == y for x, y in rows[::10]]))

    assert accuracy(OnlineClassifier()) > accuracy(linear_model.SoftmaxRegression()) + 0.2


def test_the_bits_are_those_of_the_learner() -> None:
    xs, ys = stream(0, 40)
    learner = Learner(mlp((4,), width=16), ERACE(), memory=30)
    for start in range(0, 40, 10):
        rows = [[x[name] for name in "abcd"] for x in xs[start : start + 10]]
        learner.observe(np.array(rows), ys[start : start + 10])
    model = taught(40)
    assert model.learner is not None
    assert model.learner.state_hash() == learner.state_hash()


@pytest.mark.parametrize("cuts", [(10, 20, 30, 105), (1, 4, 38, 39, 105), (105,)])
def test_one_by_one_or_many_at_once_is_the_same(cuts: tuple[int, ...]) -> None:
    model, start = OnlineClassifier(width=16, memory=30), 0
    for stop in cuts:
        xs, ys = stream(start, stop)
        model.learn_many(pd.DataFrame(xs), pd.Series(ys))
        start = stop
    assert state(model) == state(taught(105))


def test_answers_before_and_between_steps() -> None:
    model = OnlineClassifier(batch=4, width=16)
    frame = pd.DataFrame([{"a": 1.0}, {"a": 2.0}], index=[7, 9])
    assert model.predict_proba_one({"a": 1.0}) == {}
    assert model.predict_one({"a": 1.0}) is None
    assert model.predict_proba_many(frame).shape == (2, 0)
    assert model.predict_many(frame).tolist() == [None, None]
    for label in ("fig", "pear", "pear"):
        model.learn_one({"a": 1.0}, label)
    assert model.predict_proba_one({"a": 1.0}) == {"fig": 1 / 3, "pear": 2 / 3}
    assert model.predict_many(frame).to_dict() == {7: "pear", 9: "pear"}
    model.learn_one({"a": 1.0}, "pear")
    model.learn_one({"a": 1.0}, "lime")
    shares = model.predict_proba_many(frame)
    assert list(shares.columns) == ["fig", "pear", "lime"] and list(shares.index) == [7, 9]
    assert (shares["lime"] == 0).all()
    assert shares.loc[7].to_dict() == model.predict_proba_one({"a": 1.0})


def test_a_feature_that_appears_changes_no_answer_for_samples_without_it() -> None:
    model = taught(40)
    assert model.learner is not None
    pending = stream(0, 40)[0]
    before = [model.predict_proba_one(x) for x in pending]
    assert [model.predict_proba_one({**x, "new": 5.0}) for x in pending] == before
    wider = named_features.with_room(9, model.learner)
    assert wider.step == model.learner.step and wider.classes == model.learner.classes
    rows = named_features.as_rows([named_features.as_sample(x) for x in pending], model._columns, 4)
    padded = np.pad(rows, ((0, 0), (0, 5)))
    assert np.allclose(wider.probabilities(padded), model.learner.probabilities(rows), rtol=1e-5, atol=1e-6)
    assert not np.allclose(wider.probabilities(padded + 1), model.learner.probabilities(rows + 1), atol=1e-3)


def test_a_feature_that_appears_is_learned() -> None:
    model, rng = OnlineClassifier(width=16), np.random.default_rng(0)
    for i in range(600):
        y = bool(rng.integers(2))
        noise: Sample = {"noise": float(rng.standard_normal())}
        model.learn_one(noise if i < 300 else {**noise, "tell": 1.0 if y else -1.0}, y)
        if i == 299:
            assert room_in(model) == 1
    assert room_in(model) == 2
    assert model.predict_one({"tell": 1.0}) is True
    assert model.predict_one({"tell": -1.0}) is False


def test_room_for_features_doubles() -> None:
    model, sizes = OnlineClassifier(width=8, batch=1), []
    for i in range(20):
        model.learn_one({i: 1.0}, i % 2)
        sizes.append(room_in(model))
    assert sorted(set(sizes)) == [1, 2, 4, 8, 16, 32]


def test_missing_features_count_zero_however_they_are_missing() -> None:
    hashes = set()
    ways: list[Sample] = [{}, {"c": None}, {"c": float("nan")}, {"c": 0}]
    for missing in ways:
        model = OnlineClassifier(width=8, batch=2)
        model.learn_one({"a": True, "b": np.float32(2), "c": 1}, "x")
        model.learn_one({"a": np.bool_(False), "b": 1.5, **missing}, "y")
        hashes.add(model.learner.state_hash() if model.learner else None)
        assert model.predict_one({"a": 0.0, "b": 1.5, **missing}) in {"x", "y"}
    assert len(hashes) == 1
    OnlineClassifier(batch=1).learn_one({}, "nothing at all")


@pytest.mark.parametrize(
    ("x", "y", "error", "message"),
    [
        ({"a": "red"}, "fig", InputError, "'a' is 'red'.*OneHotEncoder"),
        ({"a": float("inf")}, "fig", InputError, "infinite"),
        ({"a": 1e300}, "fig", InputError, "too large"),
        ({"a": 1.0}, None, LabelError, "not a label"),
        ({"a": 1.0}, ["fig"], LabelError, "not hashable"),
    ],
)
@pytest.mark.parametrize("samples", [0, 9, 15, 59])
def test_bad_input_changes_nothing(samples: int, x: Sample, y: Any, error: Any, message: str) -> None:
    model = taught(samples)
    before = state(model)
    with pytest.raises(error, match=message):
        model.learn_one(x, y)
    with pytest.raises(error, match=message):
        model.learn_many(pd.DataFrame([{"a": 1.0}] * 25 + [x]), pd.Series([*["fig"] * 25, y]))
    assert state(model) == before


def test_labels_that_equal_each_other_are_refused_when_they_come() -> None:
    model = OnlineClassifier(batch=3)
    model.learn_one({"a": 1.0}, True)
    with pytest.raises(LabelError, match="one type"):
        model.learn_one({"a": 1.0}, 1)
    model.learn_many(pd.DataFrame([{"a": 1.0}]), pd.Series([False]))
    model.learn_one({"a": 1.0}, True)
    assert list(model.predict_proba_one({"a": 1.0})) == [True, False]


def test_as_many_labels_as_samples() -> None:
    with pytest.raises(BatchError, match="2 samples but 1 labels"):
        OnlineClassifier().learn_many(pd.DataFrame([{"a": 1.0}] * 2), pd.Series(["fig"]))


@pytest.mark.parametrize(("clip", "error"), [(None, BatchError), (math.inf, NonFiniteError)])
def test_a_step_that_fails_takes_back_those_before_it(clip: float | None, error: type[Exception]) -> None:
    model, twin = (taught(65, method="er", clip_samples=clip) for _ in range(2))
    xs, ys = stream(65, 120)
    xs[25] = dict.fromkeys("abcdefgh", 3e38)
    before = state(model)
    with pytest.raises(error):
        model.learn_many(pd.DataFrame(xs), pd.Series(ys))
    assert state(model) == before
    assert state(teach(model, 65, 120)) == state(teach(twin, 65, 120))


@pytest.mark.parametrize("place", [0, 1, 5, 9, 14, 33])
def test_an_outlier_does_not_wait_for_a_step_that_it_would_make_fail(place: int) -> None:
    """Among the first two samples nobody can know; it is left out when the third comes."""
    model, without_it, refused = OnlineClassifier(), OnlineClassifier(), 0
    for number, (x, y) in enumerate(zip(*stream(0, 40), strict=True)):
        try:
            model.learn_one({**x, "a": -9999.0} if number == place else x, y)
        except BatchError:
            refused += 1
            if number != place:
                model.learn_one(x, y)
        if number != place:
            without_it.learn_one(x, y)
    assert refused == 1 and state(model) == state(without_it)


@pytest.mark.parametrize("copied", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy, "with attributes"])
def test_a_copy_has_the_same_bits_and_goes_on_the_same_way(copied: Any) -> None:
    model = taught(65)
    twin = model.clone(include_attributes=True) if copied == "with attributes" else copied(model)
    before = state(model)
    assert state(twin) == before
    teach(model, 65, 120)
    assert state(twin) == before
    assert state(teach(twin, 65, 120)) == state(model)


def test_no_tensor_is_pickled() -> None:
    names = [str(name) for _, name, _ in pickletools.genops(pickle.dumps(taught())) if isinstance(name, str)]
    assert "holdfast.adapters.portable" in names
    assert not [name for name in names if name.startswith("torch")]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "ss-il"}, "task ids"),
        ({"method": "iid++"}, "shuffled"),
        ({"method": "er-acr"}, "did you mean 'er-ace'"),
        ({"batch": 0}, "batch must be"),
        ({"width": 0}, "width must be"),
        ({"lr": -1.0}, "lr must be"),
        ({"memory": Reservoir(nbytes=1000)}, "memory must be"),
        ({"method": ERACE}, "method must be a name"),
        ({"lr": "fast"}, "lr must be a number"),
        ({"updates": 0}, "updates"),
        ({"standardise": "yes"}, "standardise"),
        ({"average": 1.5}, "average"),
    ],
)
def test_bad_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        taught(20, **parameters)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["er", "er-aml", "der++", "gdumb:rounds=2", "a-gem", "scr", ERACE(head="linear")])
def test_other_methods_learn_features_that_appear(method: Any) -> None:
    model = taught(100, method=method)
    assert room_in(model) == 8
    assert sum(model.predict_proba_one(stream(99, 100)[0][0]).values()) == pytest.approx(1)


@pytest.mark.parametrize("settings", [{"average": 0.9}, {"standardise": True}, {"method": "holdfast"}], ids=str)
def test_features_that_appear_change_no_answer_whatever_the_settings(settings: dict[str, Any]) -> None:
    model = taught(40, **settings)
    assert model.learner is not None
    rows = named_features.as_rows([named_features.as_sample(x) for x in stream(0, 40)[0]], model._columns, 4)
    wider, padded = named_features.with_room(9, model.learner), np.pad(rows, ((0, 0), (0, 5)))
    assert np.allclose(wider.probabilities(padded), model.learner.probabilities(rows), rtol=1e-5, atol=1e-6)
    assert wider.settings == model.learner.settings
    wider.observe(padded[:5] + 1, stream(0, 5)[1])
    assert room_in(teach(model, 40, 100)) == 8


def test_columns_in_different_units() -> None:
    def accuracy(**settings: Any) -> float:
        rng, right = np.random.default_rng(0), 0
        model = OnlineClassifier(lr=0.05, **settings)
        for i in range(500):
            tells = rng.standard_normal()
            x: Sample = {"pressure": 1e4 * rng.standard_normal(), "strain": 1e-2 * tells}
            y = "up" if tells > 0 else "down"
            right += i >= 300 and model.predict_one(x) == y
            model.learn_one(x, y)
        return right / 200

    assert accuracy(standardise=True, updates=2, average=0.9) > 0.85


def test_the_example_in_the_docstring() -> None:
    assert doctest.testmod(river) == doctest.TestResults(failed=0, attempted=4)


def test_what_is_said_when_river_is_missing() -> None:
    script = "import sys; sys.modules['river'] = None; import holdfast.river"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == "ImportError: holdfast.river needs river: pip install 'holdfast[river]'"


@pytest.mark.parametrize(
    "wrong",
    [{"method": "foo"}, {"method": "mir"}, {"memory": -4}, {"lr": -1.0}, {"seed": -1}, {"width": 0}, {"batch": 0}],
)
def test_parameters_that_cannot_be_are_refused_with_the_first_sample(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        OnlineClassifier(**wrong).learn_one({"x": 1.0}, "a")
