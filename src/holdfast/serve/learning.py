"""Asking and teaching, under /v1."""

import time
from collections.abc import Awaitable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request
from pydantic import BaseModel, ConfigDict, StrictInt
from starlette.concurrency import run_in_threadpool
from torch import Tensor

from holdfast.durable import DurableLearner
from holdfast.errors import NothingLearned, WriteError
from holdfast.learner.answers import Answers, answers
from holdfast.learner.keys import LONGEST, check_key
from holdfast.samples import Features
from holdfast.serve.bodies import Label, samples_body
from holdfast.serve.decoding import Array, checked_labels, given, labelled, shown
from holdfast.serve.metrics import Metrics
from holdfast.serve.plain_json import PlainJSON
from holdfast.serve.refusals import documented
from holdfast.serve.roles import needs
from holdfast.serve.service import Service

MOST_SHARES = 10
Key = Annotated[
    str | None,
    Header(alias="Idempotency-Key", description=f"1 to {LONGEST} characters; sent twice, the batch is learned once"),
]


class Learned(BaseModel):
    """`repeated`: it had been learned before, under the same key, and `step` is that of then."""

    step: int
    samples: int
    repeated: bool


class Share(BaseModel):
    label: Label
    probability: float


class Answer(BaseModel):
    """The probabilities of the ten most probable classes, in order. No label while nothing has been learned.

    `unknown`: whether the best one is below the threshold of the learner's calibration, if it has one.
    """

    label: Label | None
    probabilities: list[Share]
    similarity: float | None = None
    unknown: bool | None = None


class Predicted(BaseModel):
    step: int
    answers: list[Answer]


class Asked(BaseModel):
    ticket: int
    step: int
    answers: list[Answer]


class TradeOff(BaseModel):
    """What a threshold does: the shares of samples of known classes that are answered, of right ones among these
    answers, and of samples of unknown classes that are rejected, if there were any."""

    model_config = ConfigDict(from_attributes=True)
    threshold: float
    answered: float
    accuracy: float
    rejected: float | None


class Calibration(BaseModel):
    """What scores are divided by, the probability below which an answer is unknown, and from how many samples of known
    classes and at which step they are. Errors are the mean differences of confidence and accuracy."""

    model_config = ConfigDict(from_attributes=True)
    temperature: float
    threshold: float
    samples: int
    step: int
    error_before: float
    error: float
    trade_off: list[TradeOff]


class Tell(BaseModel):
    ticket: StrictInt
    labels: list[Label]


def routes(service: Service, metrics: Metrics) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["answers and learning"], route_class=PlainJSON)
    refusals: dict[str, Any] = {"responses": documented(400, 404, 422)}
    answer, teach = ([Depends(needs(role))] for role in ("answer", "teach"))

    async def learned(step: Awaitable[tuple[int, bool]], samples: int) -> Learned:
        start = time.perf_counter()
        at, repeated = await step
        metrics.learning.observe(time.perf_counter() - start)
        if not repeated:
            metrics.learned.inc(samples)
        return Learned(step=at, samples=samples, repeated=repeated)

    @router.post("/learn", dependencies=teach, openapi_extra=samples_body(labelled=True), **refusals)
    async def learn(request: Request, key: Key = None) -> Learned:
        """One step. The answer comes when it is safe on the disk."""
        key, batch = _checked(key), await labelled(request, service)
        step = service.learn(key, batch.labels, lambda learner: learner.observe(batch.x, batch.labels, key=key))
        return await learned(step, len(batch.x))

    @router.post("/predict", dependencies=answer, openapi_extra=samples_body(), **refusals)
    async def predict(request: Request) -> Predicted:
        """As /v2 answers, but samples may come in every form."""
        batch = await given(request, service)

        def found() -> Predicted:
            step, answered = answers_to(service, batch.x)
            return Predicted(step=step, answers=answered)

        return await run_in_threadpool(found)

    calibrated: dict[str, Any] = {"responses": documented(400, 409, 422)}

    @router.post("/calibrate", dependencies=teach, openapi_extra=samples_body(labelled=True), **calibrated)
    async def calibrate(request: Request, accept: Annotated[float, Query(gt=0, le=1)] = 0.95) -> Calibration:
        """From fresh labelled samples, the threshold that this share of those of known classes reaches."""
        batch = await labelled(request, service)
        found = await service.change(lambda learner: learner.calibrate(batch.x, batch.labels, accept=accept))
        return Calibration.model_validate(found)

    @router.post("/ask", dependencies=teach, openapi_extra=samples_body(), **refusals)
    async def ask(request: Request) -> Asked:
        """Answers now, and keeps the samples until their labels are told."""
        batch = await given(request, service)

        def asked(learner: DurableLearner) -> Asked:
            ticket = learner.ask(batch.x)
            if ticket.details is None:
                return Asked(ticket=ticket.number, step=0, answers=none(len(batch.x)))
            return Asked(ticket=ticket.number, step=ticket.details.step, answers=listed(ticket.details))

        try:
            return await run_in_threadpool(lambda: asked(service.learner))
        except WriteError:  # it may be going back to a checkpoint just now
            return await service.change(asked)

    @router.post("/tell", dependencies=teach, **refusals)
    async def tell(told: Tell, key: Key = None) -> Learned:
        """One step on the samples of a question, which closes it."""
        key, labels = _checked(key), checked_labels(told.labels, service.limits)
        step = service.learn(key, labels, lambda learner: learner.tell(told.ticket, labels, key=key))
        return await learned(step, len(labels))

    return router


def answers_to(service: Service, x: Array | Tensor | Features) -> tuple[int, list[Answer]]:
    learner = service.learner
    try:
        found = answers(learner, x)
    except NothingLearned:
        return learner.step, none(len(x.values if isinstance(x, Features) else x))
    return found.step, listed(found)


def none(samples: int) -> list[Answer]:
    return [Answer(label=None, probabilities=[]) for _ in range(samples)]


def listed(found: Answers) -> list[Answer]:
    listed = []
    for number, (label, row) in enumerate(zip(found.labels, found.probabilities, strict=True)):
        best = (-row).argsort(kind="stable")[:MOST_SHARES].tolist()
        shares = [Share(label=shown(found.classes[place]), probability=float(row[place])) for place in best]
        similarity = None if found.similarities is None else float(found.similarities[number])
        unknown = None if found.unknown is None else found.unknown[number]
        listed.append(Answer(label=shown(label), probabilities=shares, similarity=similarity, unknown=unknown))
    return listed


def _checked(key: str | None) -> str | None:
    return None if key is None else check_key(key)
