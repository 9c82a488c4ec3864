"""The Open Inference Protocol v2: answers for clients of KServe, Triton and MLServer."""

import json
import time
from typing import Any

import numpy as np
from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from holdfast import __version__
from holdfast.durable import DurableLearner
from holdfast.errors import HoldfastError
from holdfast.learner.answers import answers, tells_similarity
from holdfast.serve import tensors
from holdfast.serve.bodies import Tensor, infer_body
from holdfast.serve.decoding import of_tensor, shown
from holdfast.serve.metrics import Metrics
from holdfast.serve.refusals import Refused, documented, refusal
from holdfast.serve.roles import needs
from holdfast.serve.service import STOPPING, Service

EXTENSIONS = ["binary_tensor_data", "holdfast_learn"]


class ServerMetadata(BaseModel):
    name: str
    version: str
    extensions: list[str]


class ModelMetadata(BaseModel):
    """A version is a number of steps; the present one answers."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[Tensor]
    outputs: list[Tensor]


class InferResponse(BaseModel):
    """`parameters.classes` names the columns of `probability`."""

    model_name: str
    model_version: str
    outputs: list[Tensor]
    id: str | None = None
    parameters: dict[str, Any] | None = None


class Live(BaseModel):
    live: bool


class Ready(BaseModel):
    ready: bool
    name: str


def routes(service: Service, metrics: Metrics) -> APIRouter:
    router = APIRouter(prefix="/v2", tags=["Open Inference Protocol v2"])
    usual: dict[str, Any] = {"dependencies": [Depends(needs("answer"))], "responses": documented(404, 422)}

    @router.get("", dependencies=usual["dependencies"], responses=documented())
    async def server() -> ServerMetadata:
        return ServerMetadata(name="holdfast", version=__version__, extensions=EXTENSIONS)

    @router.get("/health/live", responses=documented())
    async def live() -> Live:
        return Live(live=True)

    @router.get("/health/ready", responses=documented())
    async def ready() -> Ready:
        if service.closing.is_set():
            raise Refused(503, STOPPING)
        return Ready(ready=True, name=service.name)

    @router.get("/models/{name}", response_model_exclude_none=True, **usual)
    async def model(name: str) -> ModelMetadata:
        return _described(service, _learner(service, name))

    @router.get("/models/{name}/versions/{version}", response_model_exclude_none=True, **usual)
    async def model_version(name: str, version: str) -> ModelMetadata:
        return _described(service, _learner(service, name, version))

    @router.get("/models/{name}/ready", **usual)
    async def model_ready(name: str) -> Ready:
        return _ready(_learner(service, name), name)

    @router.get("/models/{name}/versions/{version}/ready", **usual)
    async def model_version_ready(name: str, version: str) -> Ready:
        return _ready(_learner(service, name, version), name)

    binary = {"schema": {"type": "string", "format": "binary"}}
    answered = {200: {"model": InferResponse, "content": {"application/octet-stream": binary}}}
    usual = {**usual, "responses": {**answered, **documented(400, 404, 409, 422)}, "openapi_extra": infer_body()}

    @router.post("/models/{name}/infer", **usual)
    async def infer(request: Request, name: str) -> Response:
        """JSON, or tensors in binary behind it; so is the answer, if the request wants it."""
        return await inferred(request, name)

    @router.post("/models/{name}/versions/{version}/infer", **usual)
    async def infer_version(request: Request, name: str, version: str) -> Response:
        """As of the model, if it is at this step."""
        return await inferred(request, name, version)

    async def inferred(request: Request, name: str, version: str | None = None) -> Response:
        start, header = time.perf_counter(), request.headers.get(tensors.HEADER)
        try:
            body = await request.body()
            content, length = await run_in_threadpool(_inferred, service, name, version, body, header)
        except Exception:
            metrics.failed.labels(service.name).inc()
            raise
        metrics.answered.labels(service.name).inc()
        metrics.answering.labels(service.name).observe(time.perf_counter() - start)
        if length is None:
            return Response(content, media_type="application/json")
        return Response(content, media_type="application/octet-stream", headers={tensors.HEADER: str(length)})

    return router


def _described(service: Service, learner: DurableLearner) -> ModelMetadata:
    outputs = [Tensor(name="label", shape=[-1], datatype="BYTES")]
    outputs.append(Tensor(name="probability", shape=[-1, len(learner.classes)], datatype="FP32"))
    if tells_similarity(learner):
        outputs.append(Tensor(name="similarity", shape=[-1], datatype="FP32"))
    if learner.calibration is not None:
        outputs.append(Tensor(name="unknown", shape=[-1], datatype="BOOL"))
    kind = "FP32" if service.takes_floats else "UINT8"
    inputs = [Tensor(name="x", shape=[-1, *service.shape], datatype=kind)]
    versions = [str(learner.step)]
    return ModelMetadata(name=service.name, versions=versions, platform="holdfast", inputs=inputs, outputs=outputs)


def _inferred(
    service: Service, name: str, version: str | None, body: bytes, header: str | None
) -> tuple[bytes, int | None]:
    """The body of the answer, and how much of it is JSON if not all is."""
    learner = _learner(service, name, version)
    values, rest = tensors.split(body, header)
    found = tensors.inputs(values, rest)
    if len(found) != 1:
        raise Refused(400, "there must be one input, a tensor of samples")
    try:
        answered = answers(learner, of_tensor(next(iter(found.values())), service))
    except HoldfastError as error:
        refused = refusal(error)
        raise Refused(400 if refused.status == 422 else refused.status, refused.why) from None
    if version is not None and version != str(answered.step):
        raise Refused(404, f"version {answered.step} is the one that answers")
    labels = [str(shown(label)) for label in answered.labels]
    arrays: dict[str, Any] = {"label": labels, "probability": answered.probabilities}
    if answered.similarities is not None:
        arrays["similarity"] = answered.similarities
    if answered.unknown is not None:
        arrays["unknown"] = np.array(answered.unknown)
    parameters = values.get("parameters")
    binary = bool(parameters.get("binary_data_output")) if isinstance(parameters, dict) else False
    described, contents = tensors.outputs(arrays, values.get("outputs"), binary)
    head: dict[str, Any] = {"model_name": name, "model_version": str(answered.step), "outputs": described}
    head["parameters"] = {"classes": [shown(label) for label in answered.classes]}
    if isinstance(values.get("id"), str):
        head["id"] = values["id"]
    text = json.dumps(head).encode()
    return (text + b"".join(contents), len(text)) if contents else (text, None)


def _ready(learner: DurableLearner, name: str) -> Ready:
    if not learner.classes:
        raise Refused(503, "nothing has been learned yet")
    return Ready(ready=True, name=name)


def _learner(service: Service, name: str, version: str | None = None) -> DurableLearner:
    if name != service.name:
        raise Refused(404, f"there is one model, {service.name}")
    learner = service.learner
    if version is not None and version != str(learner.step):
        raise Refused(404, f"version {learner.step} is the one that answers")
    return learner
