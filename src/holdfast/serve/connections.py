"""Connections that are bounded in number, and in the time until a request has begun: uvicorn alone would wait for ever
for the end of a header."""

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol


class Connection(H11Protocol):
    """The gate watches how long a body takes; here it is what comes before."""

    seconds = 30.0
    most = 512  # at a time
    silent: ClassVar[dict["Connection", None]] = {}  # the longest first
    _deadline: asyncio.TimerHandle | None = None

    @classmethod
    def within(cls, seconds: float, most: int = 512) -> type["Connection"]:
        return type(cls.__name__, (cls,), {"seconds": seconds, "most": most, "silent": {}})

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()
        if len(self.connections) > self.most:
            next(iter(self.silent), self).end()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watching()
        super().connection_lost(exc)

    def end(self) -> None:
        """At once, to make room: whoever only connects does not keep others out."""
        self._stop_watching()
        self.connections.discard(self)
        self.transport.abort()

    def _watch(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_watching()
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(self.seconds, self.transport.close)
            self.silent[self] = None

    def _stop_watching(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
            self.silent.pop(self, None)
