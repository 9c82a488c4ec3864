"""Pending from other threads while a learner learns, grows and forgets."""

import copy
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from itertools import count
from types import FrameType

import numpy as np
import torch
from torch import nn

from holdfast import ERACE, ICaRL, Learner, Method
from reliability.lines import EveryLine, place_of, text_of
from reliability.outcome import Measure, counted

X = np.random.default_rng(0).standard_normal((20, 6)).astype(np.float32)
THREADS = 3
GLANCE = 0.003  # seconds between two looks at what another thread does
NEW_CLASS, FORGETS = 10, 11  # changes that do more than learn
OTHER_THREAD = ThreadPoolExecutor(1)
METHODS: tuple[Method, ...] = (ERACE(), ICaRL())

Question = Callable[[Learner], object]


def probabilities(learner: Learner) -> object:
    return learner.predict_proba(X).tobytes()


def labels(learner: Learner) -> object:
    return tuple(learner.predict(X))


QUESTIONS: tuple[Question, ...] = (probabilities, labels)


def answer_of(learner: Learner, question: Question) -> object:
    """An error is an answer too, if a wrong one."""
    try:
        return question(learner)
    except Exception as error:
        return error


def new(method: Method) -> Learner:
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(6, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 16))
    return Learner(encoder, method, memory=50)


def change(learner: Learner, number: int) -> None:
    """Most are steps, every fifth brings a new class, and some classes are forgotten."""
    if number % 12 == 11:
        learner.forget(f"class {number // 12}")
        return
    rng = np.random.default_rng(number)
    known = range(number // 12, 1 + number // 5)
    labels = [f"class {rng.choice(known)}" for _ in range(6)]
    learner.observe(rng.standard_normal((6, 6)).astype(np.float32), labels, task=number // 5)


class Right:
    """What a learner answers after each change when nobody asks meanwhile."""

    def __init__(self, method: Method, question: Question) -> None:
        self._learner, self._question = new(method), question
        self._answers: list[object] = []

    def after(self, changes: int) -> list[object]:
        """The answers after 1, 2, ... changes."""
        for number in range(len(self._answers), changes):
            change(self._learner, number)
            self._answers.append(self._question(self._learner))
        return self._answers[:changes]

    def state(self, changes: int) -> str:
        self.after(changes)
        assert len(self._answers) == changes
        return self._learner.state_hash()


def each_case(trials: Callable[[Method, Question, int], Iterator[str | None]]) -> Measure:
    """A figure from the trials of all methods and questions."""

    @counted
    def measure(effort: int) -> Iterator[str | None]:
        for method in METHODS:
            for question in QUESTIONS:
                yield from trials(method, question, effort)

    return measure


@each_case
def asked_all_the_time(method: Method, question: Question, effort: int) -> Iterator[str | None]:
    """Each answer is, bit for bit, what the learner answers between two changes."""
    changes = 30 * effort
    learner, right = new(method), Right(method, question)
    change(learner, 0)
    found: list[object] = []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            found.append(answer_of(learner, question))

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(THREADS)]
    often, usual = 1e-5, sys.getswitchinterval()
    sys.setswitchinterval(often)
    for thread in threads:
        thread.start()
    try:
        for number in range(1, changes):
            change(learner, number)
            answered = len(found)
            while len(found) == answered and any(thread.is_alive() for thread in threads):
                time.sleep(0)
    finally:
        done.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(usual)
    expected = set(right.after(changes))
    yield from (None if each in expected else f"never answered alone: {each!r:.80}" for each in found)
    yield None if len(set(found)) > 5 else f"only {len(set(found))} different answers"
    yield None if learner.state_hash() == right.state(changes) else "questions changed what was learned"


@each_case
def asked_at_every_line_of_a_change(method: Method, question: Question, effort: int) -> Iterator[str | None]:
    """The answer is that before the change or that after it."""
    learner, right = new(method), Right(method, question)
    for number in (NEW_CLASS, FORGETS):
        make_all(range(learner.step, number), learner)
        possible = right.after(number + 1)[-2:]
        for line in count(1, max(1, 21 - 2 * effort)):
            twin = copy.deepcopy(learner)
            with Meanwhile(partial(answer_of, twin, question), line) as meanwhile:
                change(twin, number)
            if not meanwhile.done:
                break
            flaw = None if meanwhile.result in possible else "the answer is of no step"
            if flaw is None and question(twin) != possible[-1]:
                flaw = "the question changed what was learned"
            yield f"asked at {meanwhile.where} of change {number}: {flaw}" if flaw else None


@each_case
def changed_at_every_line_of_an_answer(method: Method, question: Question, effort: int) -> Iterator[str | None]:
    """The answer is that after one of the changes that were made while it was found."""
    learner, right = new(method), Right(method, question)
    changes = range(NEW_CLASS, FORGETS + 2)
    make_all(range(changes.start), learner)
    possible = right.after(changes.stop)[changes.start - 1 :]
    for line in count(1, max(1, 7 - effort)):
        twin = copy.deepcopy(learner)
        with Meanwhile(partial(make_all, changes, twin), line) as meanwhile:
            answer = answer_of(twin, question)
        if not meanwhile.done:
            break
        yield None if answer in possible else f"changed at {meanwhile.where}, an answer is of no step"


def make_all(changes: Iterable[int], learner: Learner) -> None:
    for number in changes:
        change(learner, number)


class Meanwhile(EveryLine):
    """At the line with this number, another thread does something before this one goes on.

    It goes on too when the other has to wait for it.
    """

    def __init__(self, what: Callable[[], object], at: int) -> None:
        super().__init__(self._count)
        self._what, self._at = what, at
        self._other = OTHER_THREAD.submit(threading.get_ident).result()
        self._lines = 0
        self.where = ""
        self.result: object = None

    @property
    def done(self) -> bool:
        """Whether there was such a line."""
        return bool(self.where)

    def __exit__(self, *how: object) -> None:
        super().__exit__(*how)
        if self.done:
            self.result = self._future.result()

    def _count(self, frame: FrameType) -> None:
        self._lines += 1
        if self._lines == self._at:
            self.where = place_of(frame)
            self._future = OTHER_THREAD.submit(self._what)
            self._done_or_waiting()

    def _done_or_waiting(self) -> None:
        """Returns when the other thread is done, or was seen twice in a row waiting for the same lock."""
        before = None
        while wait([self._future], GLANCE).not_done:
            lock = lock_awaited(sys._current_frames()[self._other])
            if lock and lock == before:
                return
            before = lock


def lock_awaited(frame: FrameType) -> tuple[int, int] | None:
    """Where a thread may be waiting for another."""
    return (id(frame), frame.f_lasti) if text_of(frame).startswith("with ") else None
