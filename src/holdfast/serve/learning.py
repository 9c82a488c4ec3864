"""Asking and teaching, under /v1."""

import time
from collections.abc import Awaitable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Request
from pydantic import BaseModel, StrictInt
from starlette.concurrency import run_in_threadpool
from torch import Tensor

from holdfast.errors import NothingLearned
from holdfast.learner.answers import Answers, answers
from holdfast.learner.keys import LONGEST, check_key
from holdfast.samples import Features
from holdfast.serve.bodies import Label, samples_body
from holdfast.serve.decoding import Array, checked_labels, given, shown
from holdfast.serve.metrics import Metrics
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
    """The probabilities of the ten most probable classes, in order. No label while nothing has been learned."""

    label: Label | None
    probabilities: list[Share]
    similarity: float | None = None


class Predicted(BaseModel):
    step: int
    answers: list[Answer]


class Asked(BaseModel):
    ticket: int
    step: int
    answers: list[Answer]


class Tell(BaseModel):
    ticket: StrictInt
    labels: list[Label]


def routes(service: Service, metrics: Metrics) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["answers and learning"])
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
        key, batch = _checked(key), await given(request, service)
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

    @router.post("/ask", dependencies=teach, openapi_extra=samples_body(), **refusals)
    async def ask(request: Request) -> Asked:
        """Answers now, and keeps the samples until their labels are told."""
        batch = await given(request, service)

        def asked() -> Asked:
            ticket = service.learner.ask(batch.x)
            if ticket.details is None:
                return Asked(ticket=ticket.number, step=0, answers=unknown(len(batch.x)))
            return Asked(ticket=ticket.number, step=ticket.details.step, answers=listed(ticket.details))

        return await run_in_threadpool(asked)

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
        return learner.step, unknown(len(x.values if isinstance(x, Features) else x))
    return found.step, listed(found)


def unknown(samples: int) -> list[Answer]:
    return [Answer(label=None, probabilities=[]) for _ in range(samples)]


def listed(found: Answers) -> list[Answer]:
    listed = []
    for number, (label, row) in enumerate(zip(found.labels, found.probabilities, strict=True)):
        best = (-row).argsort(kind="stable")[:MOST_SHARES].tolist()
        shares = [Share(label=shown(found.classes[place]), probability=float(row[place])) for place in best]
        similarity = None if found.similarities is None else float(found.similarities[number])
        listed.append(Answer(label=shown(label), probabilities=shares, similarity=similarity))
    return listed


def _checked(key: str | None) -> str | None:
    return None if key is None else check_key(key)
