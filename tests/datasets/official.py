"""Stands in for the server of the official archives."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from holdfast.datasets.get import ARCHIVES, Archive
from tests.threads import beside


@dataclass
class Server:
    """Serves one file, as badly as told."""

    content: bytes = b""
    knows_ranges: bool = True
    cut_after: list[int] = field(default_factory=list)
    requested: list[str | None] = field(default_factory=list)
    url: str = ""


@contextmanager
def running() -> Iterator[Server]:
    told = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers["Range"]
            told.requested.append(asked)
            start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and told.knows_ranges else 0
            if start and start >= len(told.content):
                self.send_error(416)
                return
            body = told.content[start:]
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: told.cut_after.pop(0)] if told.cut_after else body)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        told.url = f"http://127.0.0.1:{http.server_port}/cifar.tar.gz"
        with beside(lambda: http.serve_forever(poll_interval=0.01)):
            try:
                yield told
            finally:
                http.shutdown()


def official(monkeypatch: pytest.MonkeyPatch, url: str, content: bytes) -> None:
    monkeypatch.setitem(ARCHIVES, "cifar100", Archive(url, hashlib.md5(content).hexdigest()))
