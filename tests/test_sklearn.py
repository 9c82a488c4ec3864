"""The scikit-learn adapter: scikit-learn's own checks, and what a user relies on."""

import copy
import doctest
import io
import math
import pickle
import pickletools
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import joblib
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from holdfast import ERACE, Learner, Reservoir, mlp, sklearn
from holdfast.adapters.portable import PortableLearner
from holdfast.errors import BatchError, InputError, NonFiniteError
from holdfast.nets import recipe
from holdfast.sklearn import OnlineClassifier
from reliability.signals import EveryMoment, Interrupt

Array = NDArray[Any]


@pytest.mark.slow
@parametrize_with_checks([OnlineClassifier(), OnlineClassifier(standardise=True, updates=2, average=0.9)])  # type: ignore[untyped-decorator]
def test_scikit_learns_own_checks(estimator: OnlineClassifier, check: Callable[[OnlineClassifier], None]) -> None:
    check(estimator)


def stream(start: int, stop: int, shape: tuple[int, ...] = (4,)) -> tuple[Array, Array]:
    """Samples of a stream in which a label appears every twenty samples; the labels are not sorted."""
    rng = np.random.default_rng(0)
    names = np.array(["pear", "fig", "apple", "quince", "lime", "date"])
    kinds = np.array([rng.integers(0, 1 + i // 20) for i in range(stop)])
    centres = 2 * rng.standard_normal((len(names), *shape))
    return (centres[kinds] + rng.standard_normal((stop, *shape)))[start:], names[kinds][start:]


def taught(samples: int = 60, **parameters: Any) -> OnlineClassifier:
    return OnlineClassifier(**{"width": 16, "memory": 30, **parameters}).partial_fit(*stream(0, samples))


def state(model: OnlineClassifier) -> Any:
    rest = {name: value for name, value in vars(model).items() if name != "learner_"}
    return repr(rest), model.learner_.state_hash() if hasattr(model, "learner_") else None


@pytest.fixture(scope="module")
def digits() -> list[Array]:
    x, y = load_digits(return_X_y=True)
    return train_test_split(x / 8 - 1, y, random_state=0, stratify=y)  # type: ignore[no-any-return]


def test_a_class_may_appear_at_any_time() -> None:
    model = taught(20)
    assert model.classes_.tolist() == ["pear"]
    model.partial_fit(*stream(20, 60))
    assert model.classes_.tolist() == ["apple", "fig", "pear"]
    assert model.learner_.classes == ["pear", "fig", "apple"]
    x, y = stream(60, 100)
    shares = model.predict_proba(x)
    theirs = dict(zip(model.learner_.classes, model.learner_.predict_proba(x.astype(np.float32)).T, strict=True))
    assert np.allclose(shares, np.stack([theirs[label] for label in model.classes_], axis=1))
    assert model.predict(x).tolist() == model.classes_[shares.argmax(1)].tolist()
    assert model.partial_fit(x, y).score(x, y) > 0.6


@pytest.mark.parametrize("labels", [[3, 1, 2], [True, False], [2.0, 1.0], ["b", "a"], np.array(["b", "a"], object)])
def test_labels_of_any_kind(labels: Any) -> None:
    x, y = np.eye(len(labels)).repeat(10, 0), np.repeat(labels, 10)
    model = OnlineClassifier(width=16).fit(x, y)
    assert model.classes_.tolist() == sorted(labels)
    assert model.predict(x).tolist() == y.tolist()


def test_announced_classes() -> None:
    x, y = stream(0, 40)
    model = OnlineClassifier(width=16).partial_fit(x, y, classes=["pear", "fig", "lime"])
    assert model.classes_.tolist() == ["fig", "lime", "pear"]
    assert (model.predict_proba(x)[:, 1] == 0).all()
    model.partial_fit(x, y).partial_fit(x, y, classes=["lime", "fig", "pear"])
    before = state(model)
    for labels, classes in ((["kiwi"], None), (["fig"], ["fig", "pear"]), (["fig"], ["fig", "kiwi", "lime", "pear"])):
        with pytest.raises(ValueError, match="classes="):
            model.partial_fit(x[:1], labels, classes=classes)
    assert state(model) == before


def test_classes_can_be_announced_later_but_not_without_those_seen() -> None:
    model = taught(40)
    with pytest.raises(InputError, match="'fig'"):
        model.partial_fit(*stream(0, 10), classes=["pear", "lime"])
    model.partial_fit(*stream(0, 10), classes=["pear", "fig", "lime"])
    with pytest.raises(InputError, match="'apple'"):
        model.partial_fit(*stream(40, 80))


def test_announced_classes_change_no_weight_unless_the_method_looks_ahead() -> None:
    x, y = stream(0, 40)
    announced = OnlineClassifier(width=16, memory=30).partial_fit(x, y, classes=["pear", "fig", "lime"])
    assert announced.learner_.state_hash() == taught(40).learner_.state_hash()
    ahead = OnlineClassifier("er-ace:compete=batch+unseen", width=16)
    with pytest.raises(InputError, match="classes still to come"):
        ahead.partial_fit(x, y)
    assert ahead.partial_fit(x, y, classes=["pear", "fig", "lime"]).learner_.net.rows == 3
    assert ahead.fit(x, y).learner_.net.rows == 2


def test_a_class_that_the_learner_forgets_has_no_probability_until_it_comes_back() -> None:
    model, x = taught(), stream(0, 60)[0]
    model.learner_.forget("fig")
    assert model.classes_.tolist() == ["apple", "fig", "pear"]
    assert (model.predict_proba(x)[:, 1] == 0).all()
    assert (model.partial_fit(*stream(0, 60)).predict_proba(x)[:, 1] > 0).all()


def test_strings_and_numbers_are_not_mixed() -> None:
    model = taught()
    before = state(model)
    with pytest.raises(ValueError, match="string and number"):
        model.partial_fit(np.zeros((1, 4)), [1])
    assert state(model) == before


def test_the_bits_are_those_of_the_learner_however_the_stream_is_cut() -> None:
    x, y = stream(0, 55)
    learner = Learner(mlp((4,), width=16), ERACE(), memory=30)
    pieces = OnlineClassifier(width=16, memory=30)
    for start in range(0, 55, 10):
        learner.observe(x[start : start + 10], y[start : start + 10])
        pieces.partial_fit(x[start : start + 10], y[start : start + 10])
    assert taught(55).learner_.state_hash() == pieces.learner_.state_hash() == learner.state_hash()


def test_fit_starts_anew_and_is_the_same_every_time() -> None:
    x, y = stream(0, 60)
    model = OnlineClassifier(width=16, epochs=2).fit(x, y)
    assert model.learner_.step == 12
    first = model.learner_.state_hash()
    model.partial_fit(*stream(60, 100))
    assert model.fit(x, y).learner_.state_hash() == first
    assert model.set_params(random_state=1).fit(x, y).learner_.state_hash() != first
    drawn = {model.set_params(random_state=state).fit(x, y).learner_.seed for state in (None, None)}
    assert len(drawn) == 2
    same = {model.set_params(random_state=np.random.RandomState(5)).fit(x, y).learner_.seed for _ in range(2)}
    assert len(same) == 1


@pytest.mark.parametrize("copied", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy, "joblib"])
@pytest.mark.parametrize("encoder", [None, nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU())])
def test_a_copy_has_the_same_bits_and_goes_on_the_same_way(copied: Any, encoder: nn.Module | None) -> None:
    model = taught(encoder=encoder, width=None)
    if copied == "joblib":
        file = io.BytesIO()
        joblib.dump(model, file)
        twin = joblib.load(file)
    else:
        twin = copied(model)
    assert twin.learner_.state_hash() == model.learner_.state_hash()
    assert np.array_equal(twin.predict_proba(stream(0, 60)[0]), model.predict_proba(stream(0, 60)[0]))
    before = state(twin)
    model.partial_fit(*stream(60, 100))
    assert state(twin) == before
    assert twin.partial_fit(*stream(60, 100)).learner_.state_hash() == model.learner_.state_hash()


def test_no_tensor_is_pickled() -> None:
    names = [str(name) for _, name, _ in pickletools.genops(pickle.dumps(taught())) if isinstance(name, str)]
    assert "holdfast.adapters.portable" in names
    assert not [name for name in names if name.startswith("torch")]


def test_clones_share_nothing() -> None:
    encoder, memory = nn.Linear(4, 8), Reservoir(20)
    weights = encoder.weight.detach().clone()
    model = taught(encoder=encoder, width=None, memory=memory)
    twin = clone(model)
    assert not hasattr(twin, "learner_")
    twin.partial_fit(*stream(0, 60))
    assert twin.learner_.state_hash() == model.learner_.state_hash()
    before = state(model)
    twin.partial_fit(*stream(60, 100))
    assert state(model) == before
    assert torch.equal(encoder.weight, weights) and len(memory) == 0


@pytest.mark.parametrize("samples", [31, 101])
def test_a_last_batch_of_one_image(samples: int, digits: list[Array]) -> None:
    x, y = digits[0][:samples], digits[2][:samples]
    model = OnlineClassifier(shape=(1, 8, 8), epochs=1, memory=1, width=8).fit(x, y)
    assert model.learner_.step == samples // 10 + 1
    assert model.partial_fit(x[:1], y[:1]).predict(x).shape == (samples,)


def test_masked_values_are_refused() -> None:
    x, y = np.eye(4), np.array([1, 2, 1, 2])
    hidden = np.ma.array(x, mask=x > 0), np.ma.masked_array(y, [False, False, False, True])
    for samples, labels in ((hidden[0], y), (x, hidden[1])):
        with pytest.raises(InputError, match="masked values"):
            OnlineClassifier().fit(samples, labels)
    model = OnlineClassifier(width=8).fit(np.ma.array(x), np.ma.array(y))
    with pytest.raises(InputError, match="masked values"):
        model.predict(hidden[0])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"method": ERACE}, "method must be a name such as 'er-ace' or a Method"),
        ({"encoder": 5}, "unknown encoder '5'"),
        ({"shape": 4}, "shape must be that of one sample"),
        ({"lr": "fast"}, "lr must be a number"),
        ({"memory": True}, "memory"),
        ({"random_state": 2**63}, "seed"),
    ],
)
def test_parameters_of_the_wrong_kind(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        OnlineClassifier(**wrong).fit(np.eye(4), [1, 2, 1, 2])


@pytest.mark.slow
def test_pipeline_grid_search_and_cross_validation(digits: list[Array]) -> None:
    x, _, y, _ = (part[:150] for part in digits)
    pipeline = make_pipeline(StandardScaler(), OnlineClassifier(epochs=5, width=64))
    grid = {"onlineclassifier__method": ["er", "er-ace:head=cosine"], "onlineclassifier__lr": np.array([0.03, 0.1])}
    search = GridSearchCV(pipeline, grid, cv=2).fit(x, y)
    assert set(search.best_params_) == set(grid)
    assert search.score(x, y) > 0.9
    assert len(set(search.cv_results_["mean_test_score"])) > 1
    assert cross_val_score(pipeline, x, y, cv=2).mean() > 0.7


@pytest.mark.slow
def test_several_passes_are_better_than_a_linear_model(digits: list[Array]) -> None:
    x, test_x, y, test_y = digits
    linear = SGDClassifier(random_state=0).fit(x, y).score(test_x, test_y)
    assert OnlineClassifier(epochs=5).fit(x, y).score(test_x, test_y) > max(linear, 0.95)


@pytest.mark.slow
def test_classes_one_after_another_are_not_forgotten(digits: list[Array]) -> None:
    x, test_x, y, test_y = digits
    order = np.argsort(y, kind="stable")
    ours, theirs = OnlineClassifier(), SGDClassifier(random_state=0)
    for rows in np.array_split(order, len(order) // 10):
        ours.partial_fit(x[rows], y[rows])
        theirs.partial_fit(x[rows], y[rows], classes=np.arange(10))
    assert ours.score(test_x, test_y) > theirs.score(test_x, test_y) + 0.5


def test_images_as_they_are_or_flat() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (20, 1, 8, 8), np.uint8), rng.integers(0, 3, 20)
    model = OnlineClassifier(memory=10).partial_fit(x, y)
    flat = OnlineClassifier(memory=10, shape=(1, 8, 8)).partial_fit(x.reshape(20, 64), y)
    made = recipe(model.learner_.net.encoder.module)
    assert made is not None and made["name"] == "small-cnn"
    assert model.learner_.state_hash() == flat.learner_.state_hash()
    assert np.array_equal(model.predict(x), flat.predict(x.reshape(20, 64)))
    assert model.learner_.memory.at(np.arange(2)).x.dtype == torch.uint8
    floats = OnlineClassifier(memory=10).fit(x / 255, y)
    assert floats.predict(x / 255).shape == (20,)
    with pytest.raises(ValueError, match="uint8"):
        model.predict(x / 255)
    with pytest.raises(InputError, match="does not fit shape"):
        OnlineClassifier(shape=(1, 8, 9)).fit(x, y)


def test_vectors_of_bytes_are_numbers_not_images() -> None:
    x, y = np.random.default_rng(0).integers(0, 256, (20, 4)).astype(np.uint8), np.arange(20) % 2
    models = [OnlineClassifier(width=16).fit(x.astype(kind), y) for kind in (int, float, np.uint8)]
    assert len({model.learner_.state_hash() for model in models}) == 1


def test_an_answer_does_not_depend_on_what_else_is_asked() -> None:
    model, x = taught(), stream(0, 60)[0]
    alone = np.concatenate([model.predict_proba(row[None]) for row in x])
    assert np.allclose(model.predict_proba(x), alone, rtol=1e-6, atol=1e-6)
    assert np.allclose(alone.sum(1), 1, rtol=0, atol=1e-15)


X, Y = stream(0, 20)
BAD: dict[str, tuple[Any, Any]] = {
    "NaN in a later mini-batch": (np.vstack([X, [[np.nan] * 4]]), [*Y, "fig"]),
    "infinite": (np.where(X > 0, np.inf, X), Y),
    "too large for float32": (X * 1e300, Y),
    "another number of features": (X[:, :3], Y),
    "no feature": (X[:, :0], Y),
    "no sample": (X[:0], Y[:0]),
    "a vector": (X[0], Y),
    "words": ([["a"] * 4] * 20, Y),
    "more samples than labels": (X, Y[:19]),
    "no labels": (X, None),
    "a missing label": (X, [*Y[:19], None]),
    "a label that is no class": (X, np.linspace(0, 1, 20)),
    "two labels a sample": (X, np.zeros((20, 2), int)),
}


@pytest.mark.parametrize("learn", ["partial_fit", "fit"])
@pytest.mark.parametrize(("x", "y"), BAD.values(), ids=BAD)
def test_bad_input_changes_nothing(learn: str, x: Any, y: Any) -> None:
    if learn == "fit" and np.shape(x) == (20, 3):
        pytest.skip("another number of features is fine when starting anew")
    model, fresh = taught(), OnlineClassifier()
    before = state(model)
    with pytest.raises(ValueError):
        getattr(model, learn)(x, y)
    assert state(model) == before
    if np.shape(x) != (20, 3):
        with pytest.raises(ValueError):
            getattr(fresh, learn)(x, y)
        assert vars(fresh) == vars(OnlineClassifier())


@pytest.mark.parametrize(("clip", "error"), [(None, BatchError), (math.inf, NonFiniteError)])
@pytest.mark.parametrize("learn", ["partial_fit", "fit"])
def test_a_step_that_fails_takes_back_those_before_it(learn: str, clip: float | None, error: type[Exception]) -> None:
    model, twin = taught(method="er", clip_samples=clip), taught(method="er", clip_samples=clip)
    x, y = stream(60, 100)
    x[15] = 3e38  # finite, but the second loss or the third is not
    before = state(model)
    with pytest.raises(error):
        getattr(model, learn)(x, np.where(y == "pear", "new", y))
    assert state(model) == before
    more = stream(60, 100)
    assert model.partial_fit(*more).learner_.state_hash() == twin.partial_fit(*more).learner_.state_hash()


def test_several_steps_are_taken_back_without_a_copy_of_the_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which would cost what the memory holds, at every call."""
    model = taught()
    monkeypatch.setattr(PortableLearner, "serialized", lambda self: pytest.fail("the whole learner was serialised"))
    model.partial_fit(*stream(60, 100))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "mir"}, "task ids"),
        ({"method": "icarl"}, "task ids"),
        ({"method": "iid"}, "shuffled"),
        ({"method": "er-acr"}, "did you mean 'er-ace'"),
        ({"method": "er-ace:heat=linear"}, "did you mean 'head'"),
        ({"encoder": "mpl"}, "did you mean 'mlp'"),
        ({"encoder": nn.Linear(4, 2), "width": 8}, "built-in"),
        ({"width": 0}, "width must be"),
        ({"batch": 0}, "batch must be"),
        ({"batch": 2.5}, "batch must be"),
        ({"epochs": 0}, "epochs must be"),
        ({"lr": 0}, "lr must be"),
        ({"memory": -1}, "memory"),
        ({"shape": (2, 3)}, "does not fit shape"),
        ({"updates": 0}, "updates"),
        ({"standardise": "yes"}, "standardise"),
        ({"average": 1.5}, "average"),
    ],
)
def test_bad_parameters(parameters: dict[str, Any], message: str) -> None:
    model = OnlineClassifier(**parameters)
    with pytest.raises(InputError, match=message):
        model.fit(*stream(0, 20))
    with pytest.raises(NotFittedError):
        model.predict(stream(0, 20)[0])


@pytest.mark.parametrize("method", ["er", "er-aml", "der++", "gdumb:rounds=2", "a-gem", "scr", ERACE(head="linear")])
def test_other_methods(method: Any) -> None:
    assert taught(method=method).predict(stream(0, 60)[0]).shape == (60,)


def test_columns_in_different_units() -> None:
    rng = np.random.default_rng(0)
    tells = rng.standard_normal(400)
    x, y = np.c_[1e4 * rng.standard_normal(400), 1e-2 * tells].astype(np.float32), tells > 0
    model = OnlineClassifier(standardise=True, updates=2, average=0.9).partial_fit(x[:300], y[:300])
    assert model.score(x[300:], y[300:]) > 0.85
    assert model.learner_.settings.items() >= {"standardise": True, "updates": 2, "average": 0.9}.items()
    assert pickle.loads(pickle.dumps(model)).predict(x).tolist() == model.predict(x).tolist()


def test_what_parameters_give_by_default_stays_as_it_was() -> None:
    usual = taught().learner_.settings
    assert (usual["standardise"], usual["updates"], usual["average"]) == (False, 1, 0)


def test_the_example_in_the_docstring() -> None:
    assert doctest.testmod(sklearn) == doctest.TestResults(failed=0, attempted=3)


def test_what_is_said_when_scikit_learn_is_missing() -> None:
    script = "import sys; sys.modules['sklearn'] = None; import holdfast.sklearn"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        "ImportError: holdfast.sklearn needs scikit-learn 1.6 or later: pip install 'holdfast[sklearn]'"
    )


@pytest.mark.slow
def test_interrupted_anywhere_classes_and_learner_go_together() -> None:
    """Between what the learner has learned and what the estimator knows of it, too."""

    def before() -> OnlineClassifier:
        return OnlineClassifier(width=4, memory=5).partial_fit(*stream(0, 10))

    def known(model: OnlineClassifier) -> tuple[list[str], str]:
        return model.classes_.tolist(), model.learner_.state_hash()

    model, more = before(), stream(20, 40)
    allowed = [known(model)]
    with EveryMoment() as undisturbed:
        model.partial_fit(*more)
    allowed.append(known(model))
    last = len(undisturbed.noticed)
    for moment in [*range(1, last, last // 15), *range(last - 15, last + 1)]:
        model = before()
        with suppress(Interrupt), EveryMoment(moment):
            model.partial_fit(*more)
        assert known(model) in allowed
        assert model.predict_proba(more[0]).shape == (20, len(model.classes_))
