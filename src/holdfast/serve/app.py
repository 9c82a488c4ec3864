"""The service as an ASGI application."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from holdfast import __version__
from holdfast.errors import HoldfastError
from holdfast.serve import (
    bodies,
    checkpoints,
    contents,
    inference,
    label_studio,
    learning,
    looking,
    metrics,
    page,
    watching,
)
from holdfast.serve.gate import Gate, response
from holdfast.serve.metrics import Metrics
from holdfast.serve.pictures import Pictures
from holdfast.serve.refusals import Refused, refusal
from holdfast.serve.roles import Tokens, needs
from holdfast.serve.service import Service

TITLE = "A learner that answers and learns"

REQUEST_ID = {
    "in": "header",
    "name": "X-Request-ID",
    "schema": {"type": "string"},
    "description": "for the log, 1 to 64 letters, digits, dots, dashes and underscores; the answer has it too",
}


def make_app(
    service: Service,
    tokens: Tokens | None = None,
    *,
    any_host: bool = False,
    pictures: Pictures | None = None,
    beside: Callable[[Service], Coroutine[Any, Any, None]] | None = None,
) -> FastAPI:
    """Closes the service when it ends.

    `any_host`: without tokens, answer to other names than localhost, too. `pictures`: those of Label
    Studio's tasks. `beside`: what goes on beside requests.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        task = None if beside is None else asyncio.create_task(beside(service))
        yield
        if task is not None:
            task.cancel()
        await asyncio.to_thread(service.close)

    figures = Metrics(service)
    app = FastAPI(
        title=TITLE,
        version=__version__,
        lifespan=lifespan,
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    app.include_router(inference.routes(service, figures))
    app.include_router(learning.routes(service, figures))
    app.include_router(contents.routes(service))
    app.include_router(checkpoints.routes(service))
    app.include_router(looking.routes(service))
    app.include_router(watching.routes(service))
    app.include_router(label_studio.routes(service, pictures or Pictures(service.limits)))
    app.include_router(page.routes())
    app.include_router(metrics.routes(figures))

    @app.get("/openapi.json", dependencies=[Depends(needs("answer"))], include_in_schema=False)
    def openapi() -> JSONResponse:
        return JSONResponse(schema(app))

    for kind in (Refused, HoldfastError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _refused)
    app.add_middleware(Gate, tokens=tokens or Tokens(), limits=service.limits, metrics=figures, any_host=any_host)
    return app


def schema(app: FastAPI) -> dict[str, Any]:
    """Of OpenAPI, with the bodies that are read by hand and with tokens."""
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=app.version, routes=app.routes)
        parts = made["components"]
        parts["schemas"] |= bodies.defined()
        parts["parameters"] = {"RequestID": REQUEST_ID}
        for operation in (each for methods in made["paths"].values() for each in methods.values()):
            operation.setdefault("parameters", []).append({"$ref": "#/components/parameters/RequestID"})
        parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        made["security"] = [{}, {"token": []}]
        app.openapi_schema = made
    return app.openapi_schema


async def _refused(request: Request, error: Exception) -> Response:
    if isinstance(error, HoldfastError):
        error = refusal(error)
    elif isinstance(error, RequestValidationError):
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])[:100]
        why = "the body is not JSON" if first["type"] == "json_invalid" else f"{where}: {first['msg']}"
        error = Refused(422, why.encode(errors="replace").decode())
    elif isinstance(error, HTTPException):
        error = Refused(error.status_code, str(error.detail), **(error.headers or {}))
    assert isinstance(error, Refused)
    return response(error)
