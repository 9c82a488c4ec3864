"""Nearest class mean and streaming LDA against plain float64 statistics of everything that came."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import holdfast
from holdfast import NCM, SLDA, Learner, Method, pretrained, raw, small_cnn
from holdfast.errors import CheckpointError, InputError
from holdfast.nets.statistics import LDAHead
from holdfast.storage import checkpoint

RNG = np.random.default_rng(0)
CLASSES, WIDTH = 4, 6
MIXING = RNG.standard_normal((WIDTH, WIDTH))
CENTRES = 2 * RNG.standard_normal((CLASSES, WIDTH)) + 50  # far from the origin, where float32 has few digits left
Y = RNG.integers(0, CLASSES, 200)
X = (CENTRES[Y] + RNG.standard_normal((200, WIDTH)) @ MIXING).astype(np.float32)
QUESTIONS = (CENTRES[RNG.integers(0, CLASSES, 50)] + RNG.standard_normal((50, WIDTH)) @ MIXING).astype(np.float32)
both = pytest.mark.parametrize("method", [NCM(), SLDA()], ids=lambda m: type(m).__name__)


def taught(method: Method, order: NDArray[np.int64], batch: int = 7) -> Learner:
    learner = Learner(raw((WIDTH,)), method, memory=0)
    for start in range(0, len(order), batch):
        rows = order[start : start + batch]
        learner.observe(X[rows], Y[rows])
    return learner


def reference(classes: list[int], shrinkage: float | None) -> NDArray[np.float64]:
    """The probabilities that the definitions give, sample by sample."""
    x, means = X.astype(np.float64), {c: X[c == Y].astype(np.float64).mean(0) for c in classes}
    within = sum(np.outer(s - means[c], s - means[c]) for s, c in zip(x, Y.tolist(), strict=True)) / len(x)
    if shrinkage is None:
        inverse = 2 * np.eye(WIDTH)
    else:
        inverse = np.linalg.inv((1 - shrinkage) * within + shrinkage * np.trace(within) / WIDTH * np.eye(WIDTH))
    rows = []
    for q in QUESTIONS.astype(np.float64):
        scores = np.array([-(q - means[c]) @ inverse @ (q - means[c]) / 2 for c in classes])
        rows.append(np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum())
    return np.array(rows)


@pytest.mark.parametrize("shrinkage", [None, 0.01, 0.5])
@pytest.mark.parametrize("order", [np.arange(200), np.argsort(Y, kind="stable")], ids=["shuffled", "class by class"])
def test_answers_are_those_of_all_samples_at_once(shrinkage: float | None, order: NDArray[np.int64]) -> None:
    learner = taught(NCM() if shrinkage is None else SLDA(shrinkage=shrinkage), order)
    classes = [int(str(label)) for label in learner.classes]
    np.testing.assert_allclose(learner.predict_proba(QUESTIONS), reference(classes, shrinkage), atol=2e-3)


def test_lda_knows_which_directions_vary() -> None:
    truth = RNG.integers(0, CLASSES, 400)
    x = (CENTRES[truth] + RNG.standard_normal((400, WIDTH)) @ MIXING).astype(np.float32)
    right = {type(m): np.mean(np.array(taught(m, np.arange(200)).predict(x)) == truth) for m in (NCM(), SLDA())}
    assert right[SLDA] > right[NCM] + 0.03


@both
def test_the_order_and_the_cut_into_batches_do_not_matter(method: Method) -> None:
    one, other = taught(method, np.arange(200)), taught(method, np.arange(200)[::-1], batch=1)
    index = [other.classes.index(label) for label in one.classes]
    np.testing.assert_allclose(
        one.predict_proba(QUESTIONS), other.predict_proba(QUESTIONS)[:, index], atol=2e-3, rtol=0
    )


@both
def test_the_encoder_stays_as_it_is(method: Method) -> None:
    encoder = small_cnn((1, 16, 16), width=4)
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    Learner(encoder, method).observe(RNG.integers(0, 256, (6, 1, 16, 16), dtype=np.uint8), list("aabbcc"))
    assert all(torch.equal(tensor, before[name]) for name, tensor in encoder.state_dict().items())


@both
def test_one_sample_is_enough_to_answer(method: Method) -> None:
    learner = Learner(raw((WIDTH,)), method)
    learner.observe(X[:1], ["a"])
    learner.remember(X[1:2], ["b"])  # held, but nothing is known of it
    assert learner.predict(QUESTIONS) == ["a"] * len(QUESTIONS)
    assert np.isfinite(learner.predict_proba(QUESTIONS)).all()


@both
def test_forgetting_a_class(method: Method) -> None:
    learner = taught(method, np.arange(200))
    gone = learner.predict(QUESTIONS)[0]
    learner.forget(gone)
    assert gone not in learner.predict(QUESTIONS)
    assert bool((learner.net.head.weight == 0).all(1).any())
    mine = np.array([label == gone for label in Y.tolist()])
    learner.observe(X[mine], [gone] * int(mine.sum()))
    assert learner.predict(QUESTIONS)[0] == gone


@both
def test_a_folder_keeps_what_was_learned(method: Method, tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "learner", raw((WIDTH,)), method, checkpoint_every=3) as learner:
        for start in range(0, 50, 10):
            learner.observe(X[start : start + 10], Y[start : start + 10].tolist())
        state = learner.state_hash()
    with holdfast.open(tmp_path / "learner") as learner:
        assert learner.state_hash() == state


@both
def test_on_features_of_a_frozen_encoder(method: Method, tmp_path: Path) -> None:
    encoder = pretrained(torch.nn.Linear(WIDTH, 3))
    learner = Learner(encoder, method)
    learner.observe(X, Y.tolist())
    learner.save(tmp_path / "learner")
    loaded = Learner.load(tmp_path / "learner", encoder=encoder)
    assert loaded.predict(QUESTIONS) == learner.predict(QUESTIONS)


def test_a_step_that_fails_leaves_no_trace() -> None:
    learner = taught(SLDA(), np.arange(50))
    before = learner.state_hash()
    learner._commit = lambda *what: 1 / 0  # type: ignore[method-assign, assignment]
    with pytest.raises(ZeroDivisionError):
        learner.observe(X[:4], ["new", "newer", "new", "newer"])
    del learner._commit
    assert learner.state_hash() == before
    learner.observe(X[:4], ["new", "newer", "new", "newer"])


def test_what_they_cannot_do() -> None:
    with pytest.raises(InputError, match="averages already"):
        Learner(raw((WIDTH,)), NCM(), average=0.9)
    with pytest.raises(InputError, match="shrinkage"):
        SLDA(shrinkage=0)


def test_a_forged_covariance_costs_no_memory(tmp_path: Path) -> None:
    learner = taught(SLDA(), np.arange(20))
    learner.save(tmp_path / "learner")
    tensors, manifest = checkpoint.read(tmp_path / "learner")
    del manifest["format"]
    wide = tensors | {"net/head.weight": torch.zeros(CLASSES, 2**20)}
    (tmp_path / "wide").write_bytes(checkpoint.pack(wide, manifest))
    with pytest.raises(CheckpointError, match="not as wide as its means"):
        Learner.load(tmp_path / "wide")
    odd = tensors | {"net/head.scatter": -tensors["net/head.scatter"]}
    (tmp_path / "odd").write_bytes(checkpoint.pack(odd, manifest))
    assert np.isfinite(Learner.load(tmp_path / "odd").predict_proba(QUESTIONS)).all()
    assert isinstance(learner.net.head, LDAHead)
