"""State and progress, once and as a feed of events, under /v1."""

import asyncio
import json
import time
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
STALE = 10.0  # seconds after which an event is made anew: rates change although nothing happens


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


class Feed:
    """Events are made once for all who follow, at most one a second, and in at most a hundredth of the time."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._turn = asyncio.Lock()
        self._of: object = None
        self._event = ""
        self._next = self._stale = 0.0  # earliest time of another, and of one although nothing has changed

    async def latest(self) -> str:
        async with self._turn:
            learner, start = self._service.learner, time.monotonic()
            now = (learner, learner.step, len(learner.pending), self._service.waiting, self._service.kept())
            if (now != self._of or start >= self._stale) and start >= self._next:
                self._event, self._of = await run_in_threadpool(_event, self._service), now
                self._next = start + max(PAUSE, 100 * (time.monotonic() - start))
                self._stale = start + STALE
            return self._event


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["state and progress"], dependencies=[Depends(needs("answer"))])
    streams, feed = asyncio.Semaphore(service.limits.streams), Feed(service)

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
            raise Refused(429, "too many clients follow the events already", Retry_After="5")

        async def follow() -> AsyncIterator[str]:
            async with streams:
                seen = ""
                while not service.closing.is_set():
                    event = await feed.latest()
                    yield ": nothing new\n\n" if event == seen else f"data: {event}\n\n"
                    seen = event
                    await asyncio.sleep(PAUSE)

        return StreamingResponse(follow(), media_type="text/event-stream")

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
