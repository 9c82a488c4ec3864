"""State and progress, once and as a feed of events, under /v1."""

import asyncio
import json
from collections.abc import AsyncIterator

from fastapi import APIRouter, Depends
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from holdfast.serve.bodies import Label
from holdfast.serve.checkpoints import Checkpoint, listed
from holdfast.serve.decoding import shown
from holdfast.serve.refusals import Refused, documented
from holdfast.serve.roles import needs
from holdfast.serve.service import Service

MOST_CONFUSED = 20
PAUSE = 1.0  # seconds between events


class MemoryUse(BaseModel):
    """`bytes`: of the samples that are held, with their labels."""

    held: int
    capacity: int
    bytes: int


class State(BaseModel):
    """`shape`: of one sample; `precision`: of the weights; `queue`: changes that wait."""

    name: str
    step: int
    classes: int
    shape: list[int]
    takes_floats: bool
    method: str
    precision: str
    memory: MemoryUse
    pending: int
    queue: int
    checkpoints: list[Checkpoint]


class ClassProgress(BaseModel):
    """`first`: how many samples had come before its first."""

    label: Label
    samples: int
    right: int
    first: int


class Confused(BaseModel):
    label: Label
    answer: Label
    count: int


class Point(BaseModel):
    """The accuracy of so many samples, of which `end` was the last."""

    end: int
    samples: int
    accuracy: float


class Progress(BaseModel):
    """How well labelled samples were answered before they were learned; `on` is false with `--progress 0`."""

    on: bool
    samples: int = 0
    accuracy: float | None = None
    recent_accuracy: float | None = None
    unknown: float | None = None
    rate: float = 0.0
    classes: list[ClassProgress] = []
    confused: list[Confused] = []
    curve: list[Point] = []


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["state and progress"], dependencies=[Depends(needs("answer"))])
    streams = asyncio.Semaphore(service.limits.streams)

    @router.get("/state", responses=documented())
    def state() -> State:
        return state_of(service)

    @router.get("/progress", responses=documented())
    def progress() -> Progress:
        return progress_of(service)

    @router.get("/events", response_class=StreamingResponse, responses=documented(content="text/event-stream"))
    async def events() -> StreamingResponse:
        """State and progress as server-sent events, at most one a second."""
        if streams.locked():
            raise Refused(429, "too many follow the events already", Retry_After="5")

        async def feed() -> AsyncIterator[str]:
            async with streams:
                seen: object = None
                while not service.closing.is_set():
                    learner = service.learner
                    if (now := (learner, learner.step)) != seen:
                        seen = now
                        yield f"data: {await run_in_threadpool(_event, service)}\n\n"
                    else:
                        yield ": nothing new\n\n"
                    await asyncio.sleep(PAUSE)

        return StreamingResponse(feed(), media_type="text/event-stream")

    return router


def state_of(service: Service) -> State:
    learner = service.learner
    held = learner.memory
    return State(
        name=service.name,
        step=learner.step,
        classes=len(learner.classes),
        shape=list(service.shape),
        takes_floats=service.takes_floats,
        method=type(learner.method).__name__,
        precision=str(learner.net.head.weight.dtype).removeprefix("torch."),
        memory=MemoryUse(held=len(held), capacity=held.capacity, bytes=held.nbytes),
        pending=len(learner.pending),
        queue=service.waiting,
        checkpoints=listed(service),
    )


def progress_of(service: Service) -> Progress:
    found = service.learner.progress
    if found is None:
        return Progress(on=False)
    return Progress(
        on=True,
        samples=found.samples,
        accuracy=found.accuracy,
        recent_accuracy=found.recent_accuracy,
        unknown=found.unknown,
        rate=found.rate,
        classes=[
            ClassProgress(label=shown(each.label), samples=each.samples, right=each.right, first=each.first)
            for each in found.classes
        ],
        confused=[
            Confused(label=shown(each.label), answer=shown(each.answer), count=each.count)
            for each in found.confused[:MOST_CONFUSED]
        ],
        curve=[Point(end=each.end, samples=each.samples, accuracy=each.accuracy) for each in found.curve],
    )


def _event(service: Service) -> str:
    return json.dumps({"state": state_of(service).model_dump(), "progress": progress_of(service).model_dump()})
