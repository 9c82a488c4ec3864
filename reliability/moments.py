"""Bad moments: steps that fail while their exceptions live on, values out of all proportion, modes of the caller's."""

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import nn

from holdfast import ER, ERACE, ERAML, DERPlusPlus, ICaRL, Learner, Method, mlp
from holdfast.errors import HoldfastError
from holdfast.samples import Samples
from reliability.outcome import counted

FEATURES = 5
LARGEST = float(np.finfo(np.float32).max)
PROPORTION = 30  # of the largest value that has to be learned to those of sane batches, which are about 1
Batch = tuple[Samples, list[str]]


class Failure(Exception):
    pass


def batch(number: int, classes: int = 3) -> Batch:
    rng = np.random.default_rng(number)
    return rng.standard_normal((6, FEATURES)).astype(np.float32), [f"class {rng.integers(classes)}" for _ in range(6)]


def with_statistics() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(FEATURES, 8), nn.BatchNorm1d(8), nn.ReLU())


METHODS: tuple[Method, ...] = (ERACE(), DERPlusPlus(), ER(), ERAML(), ICaRL())
ENCODERS: tuple[Callable[[], nn.Module], ...] = (partial(mlp, (FEATURES,), width=8), with_statistics)
OPTIMIZERS: tuple[Any, ...] = (
    None,
    lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
    lambda parameters: torch.optim.Adam(parameters, lr=0.01),
)


def taught(method: Method, encoder: Callable[[], nn.Module], optimizer: Any = None) -> Learner:
    learner = Learner(encoder(), method, memory=12, optimizer=optimizer)
    for number in range(3):
        observe(learner, batch(number))
    return learner


def observe(learner: Learner, given: Batch) -> None:
    learner.observe(*given, task=0)


@contextmanager
def failing_forward(learner: Learner) -> Iterator[None]:
    with patch.object(learner.net.encoder.module, "forward", side_effect=Failure):
        yield


@contextmanager
def failing_backward(learner: Learner) -> Iterator[None]:
    def fail(_: object) -> None:
        raise Failure

    hook = next(learner.net.encoder.parameters()).register_hook(fail)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        hook.remove()


def failing(owner: Callable[[Learner], Any], name: str, *, done: bool) -> Callable[[Learner], Any]:
    """A part of a step that fails before it is done, or just after."""

    @contextmanager
    def during(learner: Learner) -> Iterator[None]:
        usual = getattr(owner(learner), name)

        def fail(*args: Any, **options: Any) -> None:
            if done:
                usual(*args, **options)
            raise Failure

        with patch.object(owner(learner), name, fail):
            yield

    during.__name__ = f"{name} {'done' if done else 'not done'}"
    return during


FAILURES: list[Callable[[Learner], AbstractContextManager[None]]] = [
    failing_forward,
    failing_backward,
    *(failing(lambda learner: learner.optimizer, "step", done=done) for done in (False, True)),
    *(failing(lambda learner: learner.memory, "add", done=done) for done in (False, True)),
    failing(lambda learner: learner, "_commit", done=True),
]

Fails = Callable[[], None]
GoesOn = Callable[[], None]


def kept(fails: Fails, goes_on: GoesOn) -> None:
    exceptions = []
    for _ in range(2):
        try:
            fails()
        except Failure as error:
            exceptions.append(error)
    goes_on()


def tried_again_inside_except(fails: Fails, goes_on: GoesOn) -> None:
    try:
        fails()
    except Failure:
        goes_on()


def kept_by_a_future(fails: Fails, goes_on: GoesOn) -> None:
    with ThreadPoolExecutor(1) as pool:
        future: Future[None] = pool.submit(fails)
        assert isinstance(future.exception(), Failure)
        goes_on()
        del future


def held_by_another_thread(fails: Fails, goes_on: GoesOn) -> None:
    """One that is still handling it."""
    failed, done = threading.Event(), threading.Event()

    def fail() -> None:
        try:
            fails()
        except Failure:
            failed.set()
            done.wait()

    thread = threading.Thread(target=fail, daemon=True)
    thread.start()
    failed.wait()
    try:
        goes_on()
    finally:
        done.set()
        thread.join()


LIVING_ON = (kept, tried_again_inside_except, kept_by_a_future, held_by_another_thread)


@contextmanager
def default_type(dtype: torch.dtype) -> Iterator[None]:
    usual = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(usual)


MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "no mode": nullcontext,
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "float64": lambda: default_type(torch.float64),
    "bfloat16": lambda: default_type(torch.bfloat16),
}


@counted
def steps_that_failed(effort: int) -> Iterator[str | None]:
    """The next batch is learned, and all is as if the step had never been tried."""
    rng, parts = random.Random(effort), list(product(METHODS, OPTIMIZERS, ENCODERS))
    for number, (failure, living_on, _) in enumerate(product(FAILURES, LIVING_ON, range(2 * effort - 1))):
        mode, (method, optimizer, encoder) = rng.choice(list(MODES)), rng.choice(parts)
        flaw = flaw_of_a_failure(partial(taught, method, encoder, optimizer), failure, living_on, MODES[mode])
        what = f"{method} number {number}, {failure.__name__}, {living_on.__name__}, {mode}"
        yield f"{what}: {flaw}" if flaw else None


def flaw_of_a_failure(make: Callable[[], Learner], failure: Any, living_on: Any, mode: Any) -> str | None:
    learner, undisturbed = make(), make()
    before = learner.state_hash()
    new_classes = batch(50)[0], [f"new {number}" for number in range(6)]
    changed: list[str] = []

    def fails() -> None:
        try:
            with mode(), failure(learner):
                observe(learner, new_classes)
        finally:
            if learner.state_hash() != before:
                changed.append("the failed step has changed it")

    def goes_on() -> None:
        for number in (10, 11):
            with mode():
                observe(learner, batch(number, classes=5))

    try:
        living_on(fails, goes_on)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]
    for number in (10, 11):
        observe(undisturbed, batch(number, classes=5))
    same = learner.state_hash() == undisturbed.state_hash()
    return next(iter(changed), None if same else "it is another learner than without the failed step")


@counted
def outliers(effort: int) -> Iterator[str | None]:
    """Refused without a trace or learned, and either way the sane batches after it are learned.

    Not promised is the second where a value is learned that is more than thirty times as large as all others.
    """
    sizes = [10.0**power for power in range(0, 39, max(1, 20 - 2 * effort))] + [LARGEST]
    for number, (method, encoder, size) in enumerate(product(METHODS, ENCODERS, sizes)):
        for where in WHERE if effort > 1 else [WHERE[number % len(WHERE)]]:
            flaw = flaw_of_an_outlier(taught(method, encoder), where, size)
            yield f"{method} number {number}, {where.__name__} of {size:.0e}: {flaw}" if flaw else None


def one_value(x: Any, size: float) -> None:
    x[2, 1] = size


def one_sample(x: Any, size: float) -> None:
    x[3] = -size


def one_feature(x: Any, size: float) -> None:
    x[:, 0] = size


def all_of_it(x: Any, size: float) -> None:
    x[:] = np.copysign(size, x)


WHERE = (one_value, one_sample, one_feature, all_of_it)


def flaw_of_an_outlier(learner: Learner, where: Callable[[Any, float], None], size: float) -> str | None:
    x, y = batch(20)
    where(x, size)
    before = learner.state_hash()
    try:
        observe(learner, (x, y))
        if size > PROPORTION:
            return None
    except HoldfastError:
        if learner.state_hash() != before:
            return "refused, but it changed"
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]
    try:
        for number in range(21, 27):
            observe(learner, batch(number))
        finite = np.isfinite(learner.predict_proba(batch(0)[0])).all()
    except Exception as error:
        return f"afterwards {type(error).__name__}: {error}"[:200]
    return None if finite else "its answers are no numbers"
