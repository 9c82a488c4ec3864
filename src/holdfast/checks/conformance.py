"""Each check is a function of a method that raises AssertionError when the method fails it."""

import contextlib
import functools
import random
import traceback
from collections.abc import Callable, Hashable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from holdfast.checks.faults import STAGES, Injected, bad_batches, fault, not_a_number
from holdfast.checks.fixtures import (
    BATCHES_A_TASK,
    CLASSES_A_TASK,
    TASKS,
    Step,
    assert_sound,
    feed,
    learner_for,
    same_tensors,
    stream,
)
from holdfast.errors import BatchError, LabelError, NonFiniteError
from holdfast.learner import Learner
from holdfast.learner.state import pack
from holdfast.measure.ledger import Ledger
from holdfast.methods.base import Method

Check = Callable[[Method], None]


def checked(check: Check) -> Check:
    """Whatever goes wrong in a check is an AssertionError that says what it was."""

    @functools.wraps(check)
    def check_and_explain(method: Method) -> None:
        try:
            check(method)
        except AssertionError:
            raise
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            what = f"{type(error).__name__}: {error} ({where.filename}, line {where.lineno})"
            raise AssertionError(what) from error

    return check_and_explain


@checked
def same_seed_same_future(method: Method) -> None:
    """The same batches twice give the same bits, whatever the global generators hold.

    Args:
        method: the method to check.

    Raises:
        AssertionError: if this does not hold, with a sentence that says why.
    """
    hashes = set()
    for number in range(2):
        random.seed(number)
        np.random.seed(number)
        torch.default_generator.manual_seed(number)
        hashes.add(feed(learner_for(method), stream()).state_hash())
    assert len(hashes) == 1, "the same seed and batches gave two different learners: randomness from elsewhere?"


@checked
def predicting_changes_nothing(method: Method) -> None:
    """A question changes neither the learner nor what it learns afterwards.

    Args:
        method: the method to check.

    Raises:
        AssertionError: if this does not hold, with a sentence that says why.
    """
    asked, unasked = learner_for(method), learner_for(method)
    steps = stream()
    for number, step in enumerate(steps):
        feed(asked, [step])
        feed(unasked, [step])
        if number % BATCHES_A_TASK == 1:
            before, generator = asked.state_hash(), torch.random.get_rng_state()
            first, again = asked.predict_proba(steps[0].x), asked.predict_proba(steps[0].x)
            assert np.array_equal(first, again), "two predictions in a row differ"
            assert asked.state_hash() == before, "predict changed the learner"
            assert torch.equal(torch.random.get_rng_state(), generator), "predict drew from torch's global generator"
    assert asked.state_hash() == unasked.state_hash(), "a learner that was asked learns differently afterwards"


@checked
def bad_batches_change_nothing(method: Method) -> None:
    """A wrong batch is refused with `BatchError` or `LabelError` and changes nothing.

    Args:
        method: the method to check.

    Raises:
        AssertionError: if this does not hold, with a sentence that says why.
    """
    learner = feed(learner_for(method), stream()[:6])
    before, task = learner.state_hash(), stream()[5].task
    for what, (x, y) in bad_batches(stream()[5].x, list(stream()[5].y)).items():
        try:
            learner.observe(x, y, task=task)
        except (BatchError, LabelError):
            pass
        else:
            raise AssertionError(f"{what} was accepted")
        assert learner.state_hash() == before, f"{what} was refused but changed the learner"
    feed(learner, stream()[6:7])


@checked
def failures_change_nothing(method: Method) -> None:
    """An exception before or after any stage of a step takes the whole step back; the stream can go on.

    Args:
        method: the method to check.

    Raises:
        AssertionError: if this does not hold, with a sentence that says why.
    """
    for stage in STAGES:
        for late in (False, True):
            learner = feed(learner_for(method), stream()[:BATCHES_A_TASK])
            before = learner.state_hash()
            step = stream()[BATCHES_A_TASK]  # a new task with new classes: everything happens in it
            with fault(learner, stage, late), contextlib.suppress(Injected):
                feed(learner, [step])
            when = f"an exception {'after' if late else 'before'} {stage}"
            if learner.step == BATCHES_A_TASK:
                assert learner.state_hash() == before, f"{when} left the learner changed"
            twin = feed(learner_for(method), stream()[: learner.step])
            rest = stream()[learner.step :]
            assert feed(learner, rest).state_hash() == feed(twin, rest).state_hash(), f"{when} changed the future"


@checked
def non_finite_losses_change_nothing(method: Method) -> None:
    """A loss that is not finite is refused before the update.

    Args:
        method: the method to check.

    Raises:
        AssertionError: if this does not hold, with a sentence that says why.
    """
    learner = feed(learner_for(method), stream()[:BATCHES_A_TASK])
    before = learner.state_hash()
    with not_a_number():
        try:
            feed(learner, stream()[BATCHES_A_TASK : BATCHES_A_TASK + 1])
        except NonFiniteError:
            assert learner.state_hash() == before, "a loss that is not finite was refused but changed the learner"
    feed(learner, stream()[learner.step :])
    assert_sound(learner)


@checked
def labels_are_only_names(method: Method) -> None:
    """Classes in any order, with labels of any type, give the same weights and the caller's own labels.

    Args:
        method: the method to check.

    Raises:
        AssertionError: if this does not hold, with a sentence that says why.
    """
    order = [3, 0, 5, 1, 4, 2]
    names: list[list[Hashable]] = [
        [f"class {c}" for c in range(6)],
        [(c, "x") for c in range(6)],
        [bytes([c]) for c in range(6)],
        [c + 0.5 for c in range(6)],
        [frozenset([c]) for c in range(6)],
    ]
    steps = [Step(s.x, [order[int(str(label))] for label in s.y], s.task) for s in stream()]
    plain = feed(learner_for(method), steps)
    for vocabulary in names:
        renamed = [Step(s.x, [vocabulary[int(str(label))] for label in s.y], s.task) for s in steps]
        learner = feed(learner_for(method), renamed)
        kind = type(vocabulary[0]).__name__
        assert same_tensors(learner, plain), f"with labels of type {kind} the weights differ"
        assert learner.classes == [vocabulary[int(str(c))] for c in plain.classes], f"{kind} labels came out changed"
    assert_sound(learner)
    x = steps[0].x
    assert learner.predict(x) == [names[-1][int(str(label))] for label in plain.predict(x)], "answers do not match"


@checked
def callers_arrays_stay_theirs(method: Method) -> None:
    """Arrays may be read-only or not contiguous; they are not changed, and may be changed afterwards.

    Args:
        method: the method to check.

    Raises:
        AssertionError: if this does not hold, with a sentence that says why.
    """
    ours, theirs = learner_for(method), learner_for(method)
    for step in stream():
        x, y = step.x.copy(), list(step.y)
        feed(ours, [Step(x, y, step.task)])
        assert np.array_equal(x, step.x) and y == step.y, "observe changed the arrays it was given"
        x[:] = 0
        y[:] = ["nonsense"] * len(y)
        feed(theirs, [Step(_read_only_and_strided(step.x), np.array(step.y), step.task)])
    assert ours.state_hash() == theirs.state_hash(), "it matters how the caller's arrays lie or what becomes of them"
    pending = stream()[0].x.copy()
    answers = ours.predict_proba(pending)
    assert np.array_equal(pending, stream()[0].x), "predict changed the array it was given"
    answers[:] = 0
    assert ours.predict_proba(pending).any(), "predict hands out an array that the learner still uses"


def _read_only_and_strided(x: NDArray[Any]) -> NDArray[Any]:
    wide = np.repeat(x, 2, axis=1)
    wide.setflags(write=False)
    return wide[:, ::2]


@checked
def saved_is_same(method: Method) -> None:
    """A learner that was saved and loaded has the same state and the same future.

    Args:
        method: the method to check.

    Raises:
        AssertionError: if this does not hold, with a sentence that says why.
    """
    learner = feed(learner_for(method), stream()[:6])
    with TemporaryDirectory() as folder:
        file = Path(folder) / "learner"
        learner.save(file)
        loaded = Learner.load(file, method=method)
    assert loaded.state_hash() == learner.state_hash(), "a loaded learner differs from the one that was saved"
    rest = stream()[6:]
    assert feed(learner, rest).state_hash() == feed(loaded, rest).state_hash(), "a loaded learner learns differently"
    x = rest[0].x
    assert np.array_equal(learner.predict_proba(x), loaded.predict_proba(x)), "a loaded learner answers differently"


@checked
def memory_keeps_its_budget(method: Method) -> None:
    """The memory never holds more than its capacity or its bytes.

    Args:
        method: the method to check.

    Raises:
        AssertionError: if this does not hold, with a sentence that says why.
    """
    budgets: list[dict[str, Any]] = [{"capacity": 7}, {"capacity": 0}, {"nbytes": 1000}]
    for budget in budgets:
        learner = learner_for(method, memory=method.memory_class(**budget))
        for step in stream():
            feed(learner, [step])
            size = len(learner.memory) if "capacity" in budget else learner.memory.nbytes
            assert size <= next(iter(budget.values())), f"the memory grew to {size} with a budget of {budget}"


@checked
def every_step_costs_the_same(method: Method) -> None:
    """Once the memory is full and all classes are known, a late step costs what an early one does.

    Args:
        method: the method to check.

    Raises:
        AssertionError: if this does not hold, with a sentence that says why.
    """
    learner, ledger, costs = feed(learner_for(method), stream()), Ledger(), []
    last = stream()[-1]
    for _ in range(60):
        before = ledger.train_macs
        with ledger.watch("training"):
            feed(learner, [last])
        costs.append(ledger.train_macs - before)
    early, late = sum(costs[10:30]), sum(costs[40:])
    assert late <= 1.1 * early, f"steps 40 to 60 cost {late / early:.2f} × what steps 10 to 30 do"
    sizes = {sum(t.numel() for t in pack(feed(learner, [last]))[0].values()) for _ in range(3)}
    assert len(sizes) == 1, "what the learner keeps grows from step to step"


@checked
def one_sample_at_a_time(method: Method) -> None:
    """Batches of a single sample are learned.

    Args:
        method: the method to check.

    Raises:
        AssertionError: if this does not hold, with a sentence that says why.
    """
    learner = feed(learner_for(method), stream(batch=1))
    assert_sound(learner)


@checked
def one_class_only(method: Method) -> None:
    """A stream of a single class is learned.

    Args:
        method: the method to check.

    Raises:
        AssertionError: if this does not hold, with a sentence that says why.
    """
    steps = [Step(s.x, ["only"] * len(s.y), 0) for s in stream()]
    learner = feed(learner_for(method), steps)
    assert_sound(learner)


@checked
def a_class_comes_back(method: Method) -> None:
    """A class that comes back in a later task is learned, and not counted twice.

    Args:
        method: the method to check.

    Raises:
        AssertionError: if this does not hold, with a sentence that says why.
    """
    first, *_ = steps = stream()
    back = [Step(first.x, first.y, steps[-1].task), Step(first.x, first.y, steps[-1].task + 1)]
    learner = feed(learner_for(method), [*steps, *back])
    assert len(learner.classes) == TASKS * CLASSES_A_TASK, "a class that came back was counted twice"
    assert_sound(learner)


@checked
def images_and_vectors(method: Method) -> None:
    """uint8 images and float vectors are learned.

    Args:
        method: the method to check.

    Raises:
        AssertionError: if this does not hold, with a sentence that says why.
    """
    for images in (True, False):
        learner = feed(learner_for(method, images=images), stream(images=images))
        assert_sound(learner)
