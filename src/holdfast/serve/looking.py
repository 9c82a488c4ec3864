"""Samples to look at: those that are held, open questions, the nearest to a sample; under /v1."""

import base64
import io
from typing import Annotated, Any

import numpy as np
import torch
from fastapi import APIRouter, Depends, Query, Request
from PIL import Image
from pydantic import BaseModel
from torch import Tensor

from holdfast.learner.memory_contents import images
from holdfast.samples import Features
from holdfast.serve.bodies import Label
from holdfast.serve.decoding import shown
from holdfast.serve.learning import Answer, answers_to
from holdfast.serve.refusals import documented
from holdfast.serve.roles import needs
from holdfast.serve.service import Service

MOST_TILES = 600  # of all classes
MOST_VALUES = 64  # of a sample
MOST_OPEN = 100  # samples of questions
NEIGHBOURS = 5
MOST_COMPARED = 10_000


class Sample(BaseModel):
    """`image`: PNG as base64, of a picture; else `values`: its first 64."""

    image: str | None = None
    values: list[float] | None = None


class HeldSample(Sample):
    """`age`: samples that came since."""

    age: int


class HeldSamples(BaseModel):
    label: Label
    count: int
    newest: list[HeldSample]


class Question(BaseModel):
    """`sureness`: the smallest probability of a best answer; 0 while nothing has been learned. `least_sure`: of which
    of the samples."""

    ticket: int
    sureness: float
    least_sure: int
    samples: list[Sample]
    answers: list[Answer]


class Neighbour(Sample):
    """`distance`: Euclidean, between samples."""

    label: Label
    distance: float


class Role(BaseModel):
    role: str


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["samples to look at"])
    answer, teach = ([Depends(needs(role))] for role in ("answer", "teach"))

    @router.get("/role", dependencies=answer, responses=documented())
    async def role(request: Request) -> Role:
        """What the token of the request may do."""
        return Role(role=request.state.role)

    @router.get("/memory/samples", dependencies=teach, responses=documented(422))
    def memory_samples(most: Annotated[int, Query(ge=1, le=50)] = 8) -> list[HeldSamples]:
        """The newest samples of each class that is held."""
        return held_samples(service, most)

    @router.get("/questions", dependencies=teach, responses=documented())
    def questions() -> list[Question]:
        """What was asked and not yet told, with the answers of now: the least sure first."""
        return open_questions(service)

    @router.get("/questions/{ticket}/neighbours", dependencies=teach, responses=documented(404, 422))
    def neighbours(ticket: int) -> list[list[Neighbour]]:
        """For each sample of a question the nearest that are held, among the newest ten thousand."""
        return nearest(service, service.learner.pending[ticket])

    return router


def held_samples(service: Service, most: int) -> list[HeldSamples]:
    learner = service.learner

    def read() -> list[tuple[Label, int, Tensor, list[int]]]:
        memory, found = learner.memory, []
        there = np.flatnonzero(memory.class_counts).tolist()
        tiles = min(most, max(1, MOST_TILES // max(1, len(there))))
        for index in there:
            members = memory.members(index)
            newest = members[np.argsort(-memory.arrivals[members])][:tiles]
            ages = (memory.offered - 1 - memory.arrivals[newest]).tolist()
            found.append((shown(learner.labels[index]), len(members), memory.at(newest).x, ages))
        return found

    return [
        HeldSamples(
            label=label,
            count=count,
            newest=[HeldSample(age=age, **each) for each, age in zip(_seen(x), ages, strict=True)],
        )
        for label, count, x, ages in learner.at_rest(read)
    ]


def open_questions(service: Service) -> list[Question]:
    """Of the newest only, where there are many. One that is larger than that is there when no other is."""
    learner, chosen, room = service.learner, list[tuple[int, Tensor]](), MOST_OPEN
    waiting = [*reversed(learner.pending.items())]
    for ticket, x in waiting:
        if len(x) <= room:
            chosen.append((ticket, x))
            room -= len(x)
    found = [_question(service, ticket, x) for ticket, x in chosen or waiting[:1]]
    return sorted(found, key=lambda each: each.sureness)


def _question(service: Service, ticket: int, x: Tensor) -> Question:
    _, answers = answers_to(service, x if service.learner.frozen_encoder is None else Features(x))
    sure = [each.probabilities[0].probability if each.probabilities else 0.0 for each in answers]
    samples = [Sample(**each) for each in _seen(x)]
    return Question(
        ticket=ticket, sureness=min(sure), least_sure=sure.index(min(sure)), samples=samples, answers=answers
    )


def nearest(service: Service, samples: Tensor) -> list[list[Neighbour]]:
    learner = service.learner

    def read() -> tuple[Tensor, list[Label]]:
        newest = np.argsort(-learner.memory.arrivals[: len(learner.memory)])[:MOST_COMPARED]
        batch = learner.memory.at(newest)
        return batch.x, [shown(learner.labels[index]) for index in batch.y.tolist()]

    if not len(learner.memory):
        return [[] for _ in samples]
    x, labels = learner.at_rest(read)
    found = []
    for distances in torch.cdist(samples.flatten(1).float(), x.flatten(1).float()):
        best = distances.argsort()[:NEIGHBOURS]
        found.append(
            [
                Neighbour(label=labels[place], distance=float(distances[place]), **each)
                for place, each in zip(best.tolist(), _seen(x[best]), strict=True)
            ]
        )
    return found


def _seen(x: Tensor) -> list[dict[str, Any]]:
    """As pictures or as values."""
    if x.ndim == 4 and x.shape[1] in (1, 3):
        return [{"image": _png(image)} for image in images(x)]
    return [{"values": [float(f"{value:.6g}") for value in each]} for each in x.flatten(1)[:, :MOST_VALUES].tolist()]


def _png(image: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> str:
    content = io.BytesIO()
    Image.fromarray(image).save(content, "png")
    return base64.b64encode(content.getvalue()).decode()
