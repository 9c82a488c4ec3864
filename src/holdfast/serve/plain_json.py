"""Bodies that are JSON, whatever they are said to be: `curl -d` calls everything a form."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

NAME = b"content-type"


class PlainJSON(APIRoute):
    """Of routes whose body is read by their type hints; the others look for themselves."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()
        if self.body_field is None:
            return handler

        async def handle(request: Request) -> Response:
            others = [(name, value) for name, value in request.scope["headers"] if name != NAME]
            scope = {**request.scope, "headers": [*others, (NAME, b"application/json")]}
            return await handler(Request(scope, request.receive))

        return handle
