"""Pending while learning: every answer is the answer of one whole step, and nobody waits for the step under way."""

import copy
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch import nn

from holdfast import ERACE, SCR, GDumb, ICaRL, Learner, Method, mlp
from holdfast.errors import NonFiniteError
from tests.threads import beside, repeating

X = np.random.default_rng(0).standard_normal((20, 6)).astype(np.float32)


def batch(step: int) -> tuple[np.ndarray, list[str]]:
    rng = np.random.default_rng(step)
    return rng.standard_normal((6, 6)).astype(np.float32), [f"class {rng.integers(1 + step // 5)}" for _ in range(6)]


def conv_net() -> nn.Module:
    """With BatchNorm, whose statistics change in a forward of the learning net."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 16))


def waits_in_its_loss(method: type[Method]) -> Method:
    """Stops in the middle of a step."""

    class Waiting(method):  # type: ignore[misc, valid-type]
        def loss(self, *parts: Any, **replayed: Any) -> Any:
            loss = super().loss(*parts, **replayed)
            gates[0].set()
            assert gates[1].wait(20)
            return loss

    return Waiting()


gates = [threading.Event(), threading.Event()]


@pytest.fixture
def in_the_middle_of_a_step() -> "Callable[[Learner], AbstractContextManager[None]]":
    """A step is under way in another thread in the block, and done after it."""
    for gate in gates:
        gate.clear()

    @contextmanager
    def begin(learner: Learner) -> Iterator[None]:
        with beside(lambda: observe(learner, 9)) as (step,):
            try:
                assert gates[0].wait(20)
                yield
                assert step.is_alive()
            finally:
                gates[1].set()

    return begin


def observe(learner: Learner, step: int) -> None:
    learner.observe(*batch(step), task=step // 5)


def taught(method: Method) -> Learner:
    learner = Learner(conv_net(), method, memory=50)
    for step in range(9):
        observe(learner, step)
    return learner


@pytest.mark.parametrize("asked_before", [True, False])
@pytest.mark.parametrize("method", [ERACE, ICaRL, SCR])
def test_a_question_in_the_middle_of_a_step_is_answered_at_once_from_before_it(
    in_the_middle_of_a_step: Callable[[Learner], AbstractContextManager[None]], asked_before: bool, method: type[Method]
) -> None:
    learner = taught(method())
    learner.method = waits_in_its_loss(method)
    before = copy.deepcopy(learner)
    if asked_before:
        learner.predict(X)
    with in_the_middle_of_a_step(learner):
        assert np.array_equal(learner.predict_proba(X), before.predict_proba(X))
        ticket = learner.ask(X)
        assert ticket.answers == before.predict(X)
    assert not np.array_equal(learner.predict_proba(X), before.predict_proba(X))
    observe(before, 9)
    assert np.array_equal(learner.predict_proba(X), before.predict_proba(X))


@pytest.mark.slow
def test_r22_every_answer_is_that_of_one_published_step() -> None:
    steps = 120
    learner, reference = (Learner(conv_net(), ERACE(), memory=50) for _ in range(2))
    right: dict[int, set[bytes]] = {}
    for step in range(steps):
        learner_of_one_step = reference
        learner_of_one_step.observe(*batch(step))
        answer = reference.predict_proba(X)
        right.setdefault(answer.shape[1], set()).add(answer.tobytes())
    learner.observe(*batch(0))
    wrong: list[np.ndarray] = []
    seen: set[bytes] = set()

    def ask() -> None:
        answer = learner.predict_proba(X)
        seen.add(answer.tobytes())
        if answer.tobytes() not in right.get(answer.shape[1], set()):
            wrong.append(answer)

    with repeating(ask, threads=3):
        for step in range(1, steps):
            learner.observe(*batch(step))
    assert not wrong and len(seen) > 5
    assert learner.state_hash() == reference.state_hash()


def test_who_has_observed_sees_it_whoever_else_asks() -> None:
    """Each step of this learner is a new class that its thread must find in the very next answer."""
    learner = Learner(mlp((6,)), ERACE(), memory=10)
    learner.observe(X[:2], ["first"] * 2)
    with repeating(lambda: learner.predict(X)):
        for step in range(60):
            learner.observe(X[:2], [f"{step}"] * 2)
            assert learner.predict_proba(X[:1]).shape == (1, step + 2)


def test_several_learn_at_a_time_one_after_the_other() -> None:
    learner = Learner(mlp((6,)), ERACE(), memory=10)

    def learn() -> None:
        for _ in range(20):
            learner.observe(*batch(3))

    with beside(learn, learn, learn):
        pass
    reference = Learner(mlp((6,)), ERACE(), memory=10)
    for _ in range(60):
        reference.observe(*batch(3))
    assert learner.state_hash() == reference.state_hash()


def test_a_failed_step_is_never_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = Learner(conv_net(), ERACE(), memory=50)
    learner.observe(*batch(0))
    before = learner.predict_proba(X)
    monkeypatch.setattr(ERACE, "loss", lambda self, net, new, old=None: net(new.x).sum() * torch.inf)
    with pytest.raises(NonFiniteError):
        learner.observe(X[:2], ["new", "newer"])
    assert np.array_equal(learner.predict_proba(X), before)


def test_what_does_not_learn_is_not_copied() -> None:
    encoder = nn.Sequential(nn.Linear(6, 1000).requires_grad_(False), nn.ReLU(), nn.Linear(1000, 4))
    learner = Learner(encoder, ERACE(), memory=5)
    learner.observe(*batch(0))
    module: Any = learner.versions.read(lambda version: version.net.encoder.module)
    assert module[0].weight is encoder[0].weight
    assert module[2].weight is not encoder[2].weight


def test_the_copy_of_a_memory_is_not_kept() -> None:
    learner = taught(ICaRL())
    learner.predict(X)
    assert learner.versions.read(lambda version: version.memory, memory=True) is learner.memory


def test_a_copied_learner_answers_from_its_own_net_and_memory() -> None:
    learner = taught(ICaRL())
    right = learner.predict_proba(X)
    twin = copy.deepcopy(learner)
    for step in range(9, 14):
        observe(learner, step)
        learner.predict(X)
    assert np.array_equal(twin.predict_proba(X), right)
    observe(twin, 9)
    assert not np.array_equal(twin.predict_proba(X), right)


def test_a_net_trained_to_answer_is_trained_once_a_step() -> None:
    learner = Learner(mlp((6,)), GDumb(rounds=2), memory=20)
    observe(learner, 0)
    answers: list[np.ndarray] = []
    training = patch.object(GDumb, "answering_net", autospec=True, side_effect=GDumb.answering_net)
    with training as trained, beside(*[lambda: answers.append(learner.predict_proba(X))] * 3):
        pass
    assert trained.call_count == 1
    assert all(np.array_equal(answer, answers[0]) for answer in answers)


def test_tensors_are_used_again_and_not_piled_up() -> None:
    learner = Learner(mlp((6,)), ERACE(), memory=10)
    for _ in range(20):
        learner.observe(*batch(0))
        learner.predict(X)
    assert len(learner.versions._all) <= 3
