"""Real signals at random moments, while other threads learn from and ask the same learner."""

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Self

import torch

import holdfast
from holdfast import ERACE, ICaRL, Method, mlp
from holdfast.durable import DurableLearner
from holdfast.errors import LabelError, TicketError
from holdfast.learner import answers
from reliability import durable_learner
from reliability.interrupts import LONG, in_another_thread, seen
from reliability.outcome import counted
from reliability.signals import Interrupt, unreported

METHODS: tuple[Method, ...] = (ERACE(), ICaRL())  # the second answers from its memory
OPERATIONS = 60  # in the life of a learner
LATEST, AGAIN = 0.006, 0.0003  # seconds in which a signal comes, and in which a second one follows
PAUSE = 0.01  # seconds that other threads may rest


class Strikes:
    """Inside, what the main thread does may be interrupted by a timer."""

    def __init__(self, rng: random.Random) -> None:
        self.struck = 0
        self._rng = rng
        self._left = 0

    def __enter__(self) -> Self:
        self._handler = signal.signal(signal.SIGALRM, self._strike)
        return self

    def __exit__(self, *how: object) -> None:
        signal.signal(signal.SIGALRM, self._handler)

    def during(self, operation: Callable[[], object]) -> bool:
        """Whether it was done to its end, and nothing speaks against it."""
        self._left = self._rng.choice((1, 2))
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, self._rng.uniform(1e-5, LATEST), AGAIN)
                operation()
                return True
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except Interrupt:
            self.struck += 1
        except (LabelError, TicketError):
            pass
        return False

    def _strike(self, number: int, frame: FrameType | None) -> None:
        self._left -= 1
        if self._left >= 0:
            raise Interrupt


class Others:
    """Inside, other threads use a learner."""

    def __init__(self, learner: DurableLearner) -> None:
        self.steps = 0
        self.errors: list[Exception] = []
        self._learner = learner
        self._stopped = False
        works = self._learn, lambda rng: learner.ask(one(rng)[0]), lambda rng: learner.predict(one(rng)[0])
        self._threads = [threading.Thread(target=self._go_on, args=(work,), daemon=True) for work in works]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *how: object) -> None:
        self._stopped = True
        for thread in self._threads:
            thread.join(LONG)

    def flaw(self) -> str | None:
        """Of what they did, when they have stopped."""
        if any(thread.is_alive() for thread in self._threads):
            return "another thread waits for ever"
        return f"another thread had {self.errors[0]!r}" if self.errors else None

    def _go_on(self, work: Callable[[random.Random], object]) -> None:
        rng = random.Random(0)
        try:
            while not self._stopped:
                work(rng)
                time.sleep(rng.uniform(0, PAUSE))
        except Exception as error:
            self.errors.append(error)

    def _learn(self, rng: random.Random) -> None:
        self._learner.observe(*one(rng), task=0)
        self.steps += 1


def one(rng: random.Random) -> tuple[holdfast.samples.Samples, list[str]]:
    return durable_learner.batch(rng.randrange(20))


def deed_of(learner: DurableLearner, rng: random.Random) -> tuple[Callable[[], object], bool]:
    """Something to be done, and whether it is a step."""
    x, y = one(rng)
    steps: list[Callable[[], object]] = [
        partial(learner.observe, x, y, task=0),
        lambda: learner.tell(learner.pending.asked - 1, y, task=0),
    ]
    others: list[Callable[[], object]] = [
        partial(learner.ask, x),
        partial(learner.forget, y[2]),
        partial(learner.forget_samples, x),
        partial(learner.predict, x),
        learner.checkpoint,
        *([] if learner.method.stored_extras else [partial(learner.remember, x, y)]),
    ]
    is_step = rng.random() < 0.4
    return rng.choice(steps if is_step else others), is_step


@counted
def struck_at_random(effort: int) -> Iterator[str | None]:
    """Nobody waits for ever, nobody else has an error, no answer is stale, and on the disk is what is in memory."""
    rng = random.Random(effort)
    for life in range(4 * effort - 2):
        with TemporaryDirectory() as name, unreported():
            method = METHODS[life % len(METHODS)]
            open_it = partial(holdfast.open, name, mlp((3,), width=4), method, memory=5, pending=3)
            yield from flaws_of_a_life(open_it, rng)


def flaws_of_a_life(open_it: Callable[..., DurableLearner], rng: random.Random) -> Iterator[str | None]:
    learner = open_it(checkpoint_every=7)
    learner.observe(*durable_learner.batch(0), task=0)
    steps = 1
    with Others(learner) as others, Strikes(rng) as strikes:
        for _ in range(OPERATIONS):
            operation, is_step = deed_of(learner, rng)
            done = strikes.during(operation)
            steps += done and is_step
            yield in_another_thread(lambda: flaw_of_answers(learner))
    yield others.flaw()
    if not 0 <= learner.step - steps - others.steps <= strikes.struck:
        yield f"{steps + others.steps} steps acknowledged, {strikes.struck} interrupts, {learner.step} steps done"
    right = seen(learner)
    durable_learner.kill(learner)
    with open_it() as again:
        yield None if seen(again) == right else "opened again, it is another one"


def flaw_of_answers(learner: DurableLearner) -> str | None:
    """What it answers must be what its net and memory say now."""

    @torch.inference_mode()
    def compare() -> str | None:
        x = torch.from_numpy(durable_learner.batch(0)[0])
        found, _ = answers.scores(learner, x)
        right = learner.method.predictor(learner.net, learner.memory)(x)
        right[:, list(learner.labels.forgotten)] = -torch.inf
        return None if torch.equal(found, right) else "an answer is stale"

    return learner.at_rest(compare)
