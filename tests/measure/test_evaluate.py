import numpy as np
import pytest

from holdfast import ERACE, Learner, mlp
from holdfast.errors import InputError
from holdfast.measure.evaluate import Evaluator, Schedule
from holdfast.streams import Stream


def taught(stream: Stream, steps: int) -> Learner:
    learner = Learner(mlp((8,), width=16), ERACE(), memory=30)
    for i in range(steps):
        x, y, _ = stream.batch(i)
        learner.observe(x, y)
    return learner


@pytest.mark.parametrize("slices", [1, 4])
def test_how_many_samples_it_looks_at_along_a_stream(stream: Stream, slices: int) -> None:
    evaluator = Evaluator(stream, Schedule(every=5, slices=slices), seed=0)
    learner = Learner(mlp((8,), width=16), ERACE(), memory=30)
    looked_at = 0
    for i in range(len(stream)):
        x, y, _ = stream.batch(i)
        learner.observe(x, y)
        if evaluator.due(i + 1):
            looked_at += sum(evaluator.evaluate(learner, evaluator.scores(learner), seen=0).total)
    assert evaluator.samples(anytime=True) == looked_at
    assert evaluator.samples(anytime=False) == len(stream.dataset.test_y)
    assert evaluator.seconds(learner) > 0


def test_the_slices_of_a_rotation_are_the_whole_test_set(stream: Stream) -> None:
    """With a model that stands still, K rotating evaluations add up to one exact evaluation."""
    learner = taught(stream, 12)
    exact = Evaluator(stream, Schedule(every=1), seed=0)
    rotating = Evaluator(stream, Schedule(every=1, slices=4), seed=0)
    whole = exact.evaluate(learner, exact.scores(learner), seen=0)
    parts = []
    for turn in range(12, 16):
        learner.versions.step = turn
        parts.append(rotating.evaluate(learner, rotating.scores(learner), seen=0))
    assert whole.total == (20, 20, 20, 20, 0, 0)
    assert all(part.total == (5, 5, 5, 5, 0, 0) for part in parts)
    assert np.sum([part.correct for part in parts], axis=0).tolist() == list(whole.correct)


def test_counts_are_those_of_predict(stream: Stream) -> None:
    learner = taught(stream, 24)
    evaluator = Evaluator(stream, Schedule(), seed=0)
    evaluation = evaluator.evaluate(learner, evaluator.scores(learner), seen=240)
    truth = stream.dataset.test_y
    right = np.array(learner.predict(stream.dataset.test_x)) == truth
    assert list(evaluation.correct) == [int(right[truth == label].sum()) for label in range(6)]
    assert evaluator.agreement(learner) == 1


def test_task_ends_are_exact_and_always_due(stream: Stream) -> None:
    evaluator = Evaluator(stream, Schedule(every=5, slices=4), seed=0)
    assert [step for step in range(1, 25) if evaluator.due(step)] == [5, 8, 10, 15, 16, 20, 24]
    learner = taught(stream, 8)
    assert evaluator.evaluate(learner, evaluator.scores(learner), seen=80).total == (20, 20, 0, 0, 0, 0)


def test_evaluating_changes_nothing(stream: Stream) -> None:
    learner = taught(stream, 10)
    before = learner.state_hash()
    evaluator = Evaluator(stream, Schedule(), seed=0)
    for _ in range(3):
        evaluator.evaluate(learner, evaluator.scores(learner), seen=100)
    assert learner.state_hash() == before


@pytest.mark.parametrize("mode", ["exactly", "rotating", "rotating:", "rotating:0", "rotating:x", "rotating:-1"])
def test_bad_modes(mode: str) -> None:
    with pytest.raises(InputError, match="exact or rotating:K"):
        Schedule.parse(10, mode)
    assert Schedule.parse(10, "rotating:20") == Schedule(10, 20)
