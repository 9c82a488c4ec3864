"""The protocol of Label Studio's ML backends: annotations are learned as they are made, answers are predictions."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from holdfast.durable import DurableLearner
from holdfast.errors import HoldfastError, NothingLearned
from holdfast.learner.answers import Answers, answers
from holdfast.learner.keys import LONGEST
from holdfast.serve.annotations import Annotations, Row, forget
from holdfast.serve.decoding import LARGEST, Array, Label, checked_labels, decoded, of_lists, shown
from holdfast.serve.label_config import LabelConfig
from holdfast.serve.pictures import Pictures
from holdfast.serve.refusals import Refused, documented
from holdfast.serve.roles import needs
from holdfast.serve.service import Service

MADE = "ANNOTATION_CREATED", "ANNOTATIONS_CREATED", "ANNOTATION_UPDATED"
MISSING = "missing: let the webhook send its payload"
DELETED, TASKS_DELETED = "ANNOTATIONS_DELETED", "TASKS_DELETED"

Values = dict[str, Any]


class Health(BaseModel):
    status: str


class ModelVersion(BaseModel):
    model_version: str


class ModelVersions(BaseModel):
    versions: list[str]


class Prediction(BaseModel):
    """Without a result where there is no answer: nothing is known, or the picture cannot be had."""

    model_version: str
    score: float
    result: list[dict[str, Any]]


class Predictions(BaseModel):
    results: list[Prediction]


class Noted(BaseModel):
    """`changed`: how many annotations were learned, corrected or forgotten."""

    model_version: str
    changed: int


def routes(service: Service, pictures: Pictures) -> APIRouter:
    router = APIRouter(tags=["Label Studio"])
    answer, teach = ([Depends(needs(role))] for role in ("answer", "teach"))
    refusals: dict[str, Any] = {"responses": documented(400, 422)}
    body = {"requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}}
    turn = asyncio.Semaphore()  # what was annotated first is learned first, although its picture may take longer
    waiting = 0

    def version() -> str:
        return str(service.learner.step)

    @router.get("/health", dependencies=answer, responses=documented())
    async def health() -> Health:
        return Health(status="UP")

    @router.post("/setup", dependencies=answer, openapi_extra=body, **refusals)
    async def setup(request: Request) -> ModelVersion:
        """Whether this learner fits the labelling interface of a project."""
        LabelConfig.read((await _object(request)).get("schema"))
        return ModelVersion(model_version=version())

    @router.get("/versions", dependencies=answer, responses=documented())
    async def versions() -> ModelVersions:
        return ModelVersions(versions=[version()])

    @router.post("/predict", dependencies=answer, openapi_extra=body, **refusals)
    async def predict(request: Request) -> Predictions:
        """A prediction for each task."""
        values = await _object(request)
        config, tasks = LabelConfig.read(values.get("label_config")), values.get("tasks")
        if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
            raise Refused(422, "tasks must be a list of tasks")
        if len(tasks) > service.limits.samples:
            raise Refused(413, f"there may be {service.limits.samples} tasks, not {len(tasks)}")
        return await run_in_threadpool(lambda: Predictions(results=[*_predicted(tasks, config, service, pictures)]))

    @router.post("/webhook", dependencies=teach, openapi_extra=body, **refusals)
    async def webhook(request: Request) -> Noted:
        """An annotation is learned when it is made; forgotten, and learned anew, when it is changed."""
        nonlocal waiting
        values = await _object(request)
        events = list(_events(values))
        if waiting >= service.limits.queue:
            raise Refused(429, f"{waiting} annotations are waiting already", Retry_After="1")
        waiting += 1
        try:
            async with turn:
                changed = [await _settle(event, service, pictures) for event in events]
        finally:
            waiting -= 1
        return Noted(model_version=version(), changed=sum(changed))

    return router


async def _object(request: Request) -> Values:
    try:
        values = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise Refused(400, "the body is not JSON") from None
    if not isinstance(values, dict):
        raise Refused(400, "the body must be a JSON object")
    return values


# ---- predictions


def _predicted(tasks: list[Values], config: LabelConfig, service: Service, pictures: Pictures) -> Iterator[Prediction]:
    for task in tasks:
        try:
            found = answers(service.learner, _sample(task.get("data"), config, service, pictures))
        except NothingLearned:
            yield Prediction(model_version="0", score=0.0, result=[])
        except (HoldfastError, Refused):
            yield Prediction(model_version=str(service.learner.step), score=0.0, result=[])
        else:
            yield _prediction(found, config)


def _prediction(found: Answers, config: LabelConfig) -> Prediction:
    """The most probable of the choices that the project has; what the learner knows beside them is no answer there."""
    shares = zip(found.classes, found.probabilities[0].tolist(), strict=True)
    fitting = [(share, str(shown(label))) for label, share in shares if config.has(str(shown(label)))]
    version = str(found.step)
    if not fitting:
        return Prediction(model_version=version, score=0.0, result=[])
    score, label = max(fitting)
    return Prediction(model_version=version, score=score, result=[config.result(label, score)])


def _sample(data: object, config: LabelConfig, service: Service, pictures: Pictures) -> Array:
    """A batch of one: a picture by its address, or a list of numbers."""
    value = config.value(data)
    if isinstance(value, list):
        return of_lists([value], service)
    if not isinstance(value, str):
        raise Refused(422, "a task must have the address of a picture, or a list of numbers")
    return decoded([pictures.get(value)], service)


# ---- annotations


@dataclass(frozen=True, slots=True)
class Event:
    """What has become of an annotation, or of all of a task. No label: it is gone, or does not say one."""

    annotation: int | None
    task: int
    label: Label | None = None
    data: object = None
    config: LabelConfig | None = None
    key: str | None = None


def _events(values: Values) -> Iterator[Event]:
    action = values.get("action")
    if action == DELETED:
        yield from (Event(_id(each.get("id")), 0) for each in _listed(values, "annotations"))
    if action == TASKS_DELETED:
        yield from (Event(None, _id(each.get("id"))) for each in _listed(values, "tasks"))
    if action not in MADE:
        return
    project = values.get("project")
    if not isinstance(project, dict):
        raise Refused(422, f"project is {MISSING}")
    config = LabelConfig.read(project.get("label_config"))
    data = {_id(task.get("id")): task.get("data") for task in _listed(values, "task")}
    for each in _listed(values, "annotation"):
        number, task = _id(each.get("id")), _id(each.get("task"))
        label = None if each.get("was_cancelled") else config.label(each.get("result"))
        key = f"label-studio/{number}/{each.get('updated_at')}"
        is_key = key.isascii() and key.isprintable() and len(key) <= LONGEST
        yield Event(number, task, label, data.get(task), config, key if is_key else None)


def _listed(values: Values, name: str) -> list[Values]:
    found = values.get(name)
    listed: list[Any] = found if isinstance(found, list) else [found]
    if not all(isinstance(each, dict) for each in listed):
        raise Refused(422, f"{name} is {MISSING}")
    return listed


def _id(found: object) -> int:
    if isinstance(found, bool) or not isinstance(found, int) or abs(found) > LARGEST:
        raise Refused(422, "the id of an annotation or a task must be an integer")
    return found


async def _settle(event: Event, service: Service, pictures: Pictures) -> bool:
    """Whether the learner has changed."""
    if event.label is None:
        return await service.change(lambda learner: _corrected(learner, service, event, None))
    labels = checked_labels([event.label], service.limits)
    assert event.config is not None
    x = await run_in_threadpool(_sample, event.data, event.config, service, pictures)
    changed = False

    def work(learner: DurableLearner) -> None:
        nonlocal changed
        changed = _corrected(learner, service, event, x)

    await service.learn(None, labels, work)
    return changed


def _corrected(learner: DurableLearner, service: Service, event: Event, x: Array | None) -> bool:
    """What the memory holds of the annotation as it was goes, and what it says now is learned."""
    now = None if x is None or event.label is None else Row.of(learner.as_samples(x), event.label)
    with Annotations.of(service.folder) as known:
        meant = known.of_task(event.task) if event.annotation is None else [event.annotation]
        before = {number: row for number in meant if (row := known.find(number)) is not None}
        if now is not None and now in before.values():
            return False
        if x is not None and now is not None and event.annotation is not None:
            _learn(learner, known, event, x, now)  # first: it may be refused
        for number, row in before.items():
            forget(learner, row)
            if now is None or number != event.annotation:
                known.remove(number)
    return now is not None or bool(before)


def _learn(learner: DurableLearner, known: Annotations, event: Event, x: Array, now: Row) -> None:
    assert event.annotation is not None
    before = known.find(event.annotation)
    known.note(event.annotation, event.task, now)  # first: what is learned can always be found again
    try:
        learner.observe(x, [event.label], key=event.key)
    except BaseException:
        known.remove(event.annotation)
        if before is not None:
            known.note(event.annotation, event.task, before)
        raise
