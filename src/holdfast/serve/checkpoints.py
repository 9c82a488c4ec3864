"""Checkpoints: to download, to keep and to go back to, under /v1."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel, StrictInt, StringConstraints

from holdfast.durable import DurableLearner
from holdfast.serve.plain_json import PlainJSON
from holdfast.serve.refusals import documented
from holdfast.serve.roles import needs
from holdfast.serve.service import Service

LONGEST_NAME = 40


class Checkpoint(BaseModel):
    """`name`: its step, or "20.2" for a second state with 20 steps.

    `time`: in seconds since 1970; `nbytes`: its size.
    """

    name: str
    step: int
    time: float
    nbytes: int


class Step(BaseModel):
    step: int


class RollBack(BaseModel):
    """`step`: of a kept checkpoint, or its name."""

    step: StrictInt | Annotated[str, StringConstraints(strict=True, max_length=LONGEST_NAME)]


def listed(service: Service) -> list[Checkpoint]:
    return [Checkpoint(name=each.name, step=each.step, time=each.time, nbytes=each.nbytes) for each in service.kept()]


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["checkpoints"], route_class=PlainJSON)
    answer, administer = ([Depends(needs(role))] for role in ("answer", "administer"))

    @router.get(
        "/checkpoint",
        dependencies=administer,
        response_class=Response,
        responses=documented(content="application/octet-stream"),
    )
    def checkpoint() -> Response:
        """The learner as a file that `holdfast.Learner.load` reads."""
        learner = service.learner
        step, content = learner.at_rest(lambda: (learner.step, learner.serialized()))
        named = f"attachment; filename=learner-{step}"
        return Response(content, media_type="application/octet-stream", headers={"Content-Disposition": named})

    @router.get("/checkpoints", dependencies=answer, responses=documented())
    def checkpoints() -> list[Checkpoint]:
        """Those that can be gone back to, the latest first."""
        return listed(service)

    @router.post("/checkpoints", dependencies=administer, responses=documented())
    async def keep() -> Step:
        """Writes one now, for which the oldest goes."""

        def write(learner: DurableLearner) -> int:
            learner.checkpoint()
            return learner.step

        return Step(step=await service.change(write))

    @router.post("/roll-back", dependencies=administer, responses=documented(404, 409, 422))
    async def roll_back(wanted: RollBack) -> Step:
        """All that was learned since is undone; a checkpoint of it is kept."""
        return Step(step=await service.roll_back(wanted.step))

    return router
