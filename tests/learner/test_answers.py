"""All that is told of samples at once is of one step."""

import numpy as np

from holdfast import ERACE, SCR, Learner, mlp
from holdfast.learner.answers import answers
from tests.threads import repeating

X = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32)


def test_they_are_what_the_learner_answers() -> None:
    learner = Learner(mlp((3,), width=8), ERACE(), memory=20)
    learner.observe(X, list("abcdabcd"))
    learner.forget("b")
    found = answers(learner, X)
    assert found.step == 1 and found.classes == learner.classes
    assert np.array_equal(found.probabilities, learner.predict_proba(X))
    assert found.similarities is not None and np.array_equal(found.similarities, learner.similarity(X))
    linear = Learner(mlp((3,), width=8), SCR(), memory=20)
    linear.observe(X, list("abcdabcd"))
    assert answers(linear, X).similarities is None


def test_the_step_is_that_of_the_answer() -> None:
    learner = Learner(mlp((3,), width=8), ERACE(), memory=20)
    learner.observe(X, list("abababab"))
    after = {1: learner.predict_proba(X)}
    found = []
    with repeating(lambda: found.append(answers(learner, X))):
        for step in range(2, 60):
            learner.observe(X, list("abababab"))
            after[step] = learner.predict_proba(X)
    assert found and all(np.array_equal(each.probabilities, after[each.step]) for each in found)
