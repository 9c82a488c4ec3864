"""What every request passes: its id, its token, its bounds, the log and the figures."""

import asyncio
import json
import logging
import re
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.errors import HoldfastError
from holdfast.serve import page
from holdfast.serve.limits import Limits
from holdfast.serve.metrics import Metrics
from holdfast.serve.refusals import Refused, refusal
from holdfast.serve.roles import Tokens
from holdfast.serve.service import STOPPING

LOG = logging.getLogger("holdfast.serve")
ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
OPEN = frozenset({"/v2/health/live", "/v2/health/ready", *page.FILES})  # whoever looks whether it is up; the page
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}


class Gone(Exception):
    """The client has left."""


class Gate:
    """`any_host`: where names other than loopback's are expected although there is no token."""

    def __init__(
        self, app: ASGIApp, *, tokens: Tokens, limits: Limits, metrics: Metrics, any_host: bool = False
    ) -> None:
        self._app, self._tokens, self._limits, self._any_host = app, tokens, limits, any_host
        self._metrics = metrics
        self._held = 0  # bytes of bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        given = headers.get("x-request-id", "")
        request = given if ID.fullmatch(given) else uuid.uuid4().hex
        start, status = time.perf_counter(), 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                there = {name.lower() for name, _ in message["headers"]}
                more = {**HEADERS, "X-Request-ID": request}
                message["headers"] = [*message["headers"]] + [
                    (name.lower().encode(), text.encode())
                    for name, text in more.items()
                    if name.lower().encode() not in there
                ]
            await send(message)

        error = None
        self._metrics.in_progress.inc()
        try:
            scope.setdefault("state", {})["role"] = self._role(scope, headers)
            async with self._whole(headers, receive) as whole:
                await self._app(scope, whole, answer)
        except Gone:
            status = 499
        except asyncio.CancelledError:  # the service stops, and waits no longer
            if status:
                raise
            await response(Refused(503, STOPPING, Retry_After="5"))(scope, receive, answer)
        except Exception as raised:
            refused = _as_refused(raised)
            error = raised if refused.status == 500 else None
            if status:
                raise  # half of an answer is out
            await response(refused)(scope, receive, answer)
        finally:
            self._metrics.in_progress.dec()
            self._note(scope, status, time.perf_counter() - start, request, error)

    def _role(self, scope: Scope, headers: dict[str, str]) -> str | None:
        host = headers.get("host", "")
        if (origin := headers.get("origin")) is not None and origin.partition("://")[2] != host:
            raise Refused(403, "requests from pages of other origins are refused")
        if not self._tokens and not self._any_host and _name(host) not in LOOPBACK:
            raise Refused(403, "without tokens this answers to localhost only")
        role = self._tokens.role(headers.get("authorization"))
        if role is None and scope["path"] not in OPEN:
            raise Refused(401, "a token is needed: Authorization: Bearer TOKEN", WWW_Authenticate="Bearer")
        return role

    @asynccontextmanager
    async def _whole(self, headers: dict[str, str], receive: Receive) -> AsyncIterator[Receive]:
        """The body, when all of it is there; it counts among those that are held until the answer is out."""
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdecimal()) or int(length[:20]) > self._limits.body:
            raise Refused(413, f"a request may have {self._limits.body} bytes")
        body = bytearray()
        try:
            await self._read(body, receive)
            messages = iter([{"type": "http.request", "body": bytes(body), "more_body": False}])

            async def replay() -> Message:
                return next(messages, None) or await receive()

            yield replay
        finally:
            self._held -= len(body)

    async def _read(self, body: bytearray, receive: Receive) -> None:
        more = True
        try:
            async with asyncio.timeout(self._limits.seconds):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Gone
                    part, more = message.get("body", b""), message.get("more_body", False)
                    self._held += len(part)
                    body += part
                    if len(body) > self._limits.body:
                        raise Refused(413, f"a request may have {self._limits.body} bytes")
                    if self._held > self._limits.bodies * self._limits.body:
                        raise Refused(429, "too much is being sent at once", Retry_After="1")
        except TimeoutError:
            raise Refused(408, f"a request must arrive within {self._limits.seconds:g} seconds") from None

    def _note(self, scope: Scope, status: int, seconds: float, request: str, error: Exception | None) -> None:
        path = getattr(scope.get("route"), "path", "other")  # the route, so that callers cannot make up names
        method = scope["method"] if scope["method"] in METHODS else "other"
        self._metrics.requests.labels(method, path, status).inc()
        self._metrics.request_seconds.labels(method, path, status).observe(seconds)
        role = scope.get("state", {}).get("role")
        fields = {"request_id": request, "method": method, "path": path, "status": status, "role": role}
        LOG.log(
            logging.ERROR if error else logging.INFO,
            "request",
            extra={"fields": {**fields, "seconds": round(seconds, 6)}},
            exc_info=error,
        )


def _name(host: str) -> str | None:
    """Without the port."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:  # not closed brackets
        return None


def _as_refused(error: Exception) -> Refused:
    if isinstance(error, HoldfastError):
        return refusal(error)
    return error if isinstance(error, Refused) else Refused(500, "something went wrong here")


def response(refused: Refused) -> JSONResponse:
    return JSONResponse({"error": refused.why}, refused.status, headers=refused.headers)


class JSONLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {"time": round(record.created, 3), "level": record.levelname, "message": record.getMessage()}
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line | getattr(record, "fields", {}))
