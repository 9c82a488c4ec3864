"""What the learner knows and holds, and how it is made to forget, under /v1."""

import tempfile
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel

from holdfast.durable import DurableLearner
from holdfast.learner.memory_contents import memory_gallery, memory_summary
from holdfast.serve.bodies import Label, samples_body
from holdfast.serve.decoding import checked_labels, given, shown
from holdfast.serve.plain_json import PlainJSON
from holdfast.serve.refusals import Refused, documented
from holdfast.serve.roles import needs
from holdfast.serve.service import Service


class Class(BaseModel):
    label: Label
    in_memory: int


class Forget(BaseModel):
    label: Label


class Forgotten(BaseModel):
    """How many samples were held."""

    samples: int


class Held(BaseModel):
    """An age is a number of samples that came since."""

    label: Label
    count: int
    youngest: int
    oldest: int


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["classes and memory"], route_class=PlainJSON)
    refusals: dict[str, Any] = {"responses": documented(400, 404, 422)}
    answer, teach, administer = ([Depends(needs(role))] for role in ("answer", "teach", "administer"))

    @router.get("/classes", dependencies=answer, responses=documented())
    def classes() -> list[Class]:
        """In the order of their first appearance."""
        learner = service.learner
        held = {each.label: each.count for each in memory_summary(learner)}
        return [Class(label=shown(label), in_memory=held.get(label, 0)) for label in learner.classes]

    @router.post("/forget", dependencies=administer, **refusals)
    async def forget(wanted: Forget) -> Forgotten:
        """Erases a class: its samples, its row of the head, its name, and all kept checkpoints."""
        (label,) = checked_labels([wanted.label], service.limits)

        def erase(learner: DurableLearner) -> int:
            if label not in learner.classes:
                raise Refused(404, f"the learner has seen no class {label!r}")
            return learner.forget(label)

        return Forgotten(samples=await service.change(erase))

    @router.post("/forget-samples", dependencies=administer, openapi_extra=samples_body(), **refusals)
    async def forget_samples(request: Request) -> Forgotten:
        """Erases samples that equal one of these, and all kept checkpoints."""
        batch = await given(request, service)
        return Forgotten(samples=await service.change(lambda learner: learner.forget_samples(batch.x)))

    @router.get("/memory", dependencies=teach, responses=documented())
    def memory() -> list[Held]:
        """One entry for each class that is held, the largest first."""
        held = memory_summary(service.learner)
        return [Held(label=shown(h.label), count=h.count, youngest=h.youngest, oldest=h.oldest) for h in held]

    @router.get(
        "/memory/gallery",
        dependencies=teach,
        response_class=Response,
        responses=documented(422, content="image/png"),
    )
    def gallery() -> Response:
        """A picture with a row for each class: its name, its number of samples, and the newest of them."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "gallery.png"
            memory_gallery(service.learner, file)
            return Response(file.read_bytes(), media_type="image/png")

    return router
