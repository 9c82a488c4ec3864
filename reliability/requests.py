"""Whatever is sent to `holdfast serve`: requests made from its own schema, right and wrong ones, and plain noise."""

import random
import resource
import socket
import threading
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import schemathesis
import torch
import uvicorn
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode

from holdfast.serve.app import make_app, schema
from holdfast.serve.connections import Connection
from holdfast.serve.limits import Limits
from holdfast.serve.service import Service
from reliability.outcome import counted
from reliability.services import batch, opened

ENDLESS = "/v1/events"  # a feed
PATIENCE = 0.5  # seconds for a request to arrive
MOST_MORE = 256 * 2**20  # bytes of memory
PLAIN = settings(
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
NAMES = ["Content-Type", "Content-Length", "Host", "Origin", "Authorization", "Idempotency-Key", "X-Request-ID"]
NAMES += ["Inference-Header-Content-Length", "Transfer-Encoding", "Expect", "Range", "Accept", "Cookie", "Upgrade"]
TYPES = [
    "application/json",
    "multipart/form-data; boundary=x",
    "multipart/form-data",
    "image/png",
    "text/html",
    "",
    "?",
]
PIECES = [b"{", b"}", b"[", b"]", b'"inputs"', b'"arrays":', b'"labels":', b"[[1,2,3,4,5,6,7,8]]", b'"\\ud800"', b"NaN"]
PIECES += [b"1e999", b"\x93NUMPY\x01\x00", b"\x89PNG\r\n\x1a\n", b"--x\r\n", b"\xff\xd8\xff", b"null", b",", b"\0" * 50]


class Watched:
    """A service whose learner is looked at after each request."""

    def __init__(self, service: Service, port: int) -> None:
        self.service, self.place = service, ("127.0.0.1", port)
        self._hash = service.learner.state_hash()
        self._memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def flaw(self, status: int, text: str, folder: Path) -> str | None:
        before, self._hash = self._hash, self.service.learner.state_hash()
        if status >= 500 and status != 503:
            return f"{status}: {text[:200]}"
        if status >= 400 and self._hash != before:
            return f"what was refused with {status} has changed the learner"
        if str(folder) in text or "Traceback" in text:
            return f"an answer tells too much: {text[:200]}"
        more = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - self._memory)
        return f"it takes {more} bytes more" if more > MOST_MORE else None


@contextmanager
def watched(folder: Path) -> Iterator[tuple[Watched, dict[str, Any]]]:
    service = Service(folder, lambda: opened(folder), Limits(seconds=PATIENCE), "holdfast")
    service.learner.observe(*batch(0))
    app = make_app(service)
    config = uvicorn.Config(
        app, port=0, http=Connection.within(PATIENCE), ws="none", log_config=None, log_level="critical"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Watched(service, port), schema(app)
    finally:
        server.should_exit = True
        thread.join()


@counted
def made_from_the_schema(effort: int) -> Iterator[str | None]:
    """No 500, nothing changed by what was refused, and no more memory."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as name, watched(Path(name) / "served") as (service, described):
        for operation in operations(described):
            for mode in GenerationMode:
                yield from cases(operation, mode, service, Path(name), 2 + 3 * effort * effort // 2)


def operations(described: dict[str, Any]) -> list[Any]:
    results: Any = schemathesis.openapi.from_dict(described).get_all_operations()
    found = (result.ok() for result in results)
    return [operation for operation in found if operation.path != ENDLESS]


def cases(operation: Any, mode: GenerationMode, service: Watched, folder: Path, examples: int) -> list[str | None]:
    flaws: list[str | None] = []

    @settings(PLAIN, max_examples=examples)
    @given(operation.as_strategy(generation_mode=mode))
    def send(case: Any) -> None:
        response = case.call(base_url=f"http://127.0.0.1:{service.place[1]}", timeout=30)
        flaw = service.flaw(response.status_code, response.content.decode("latin-1"), folder)
        flaws.append(f"{operation.label}, {mode.name}, {case.as_curl_command()[:500]}: {flaw}" if flaw else None)

    with warnings.catch_warnings(), suppress(Unsatisfiable):  # where nothing can be wrong
        warnings.simplefilter("ignore")
        send()
    return flaws


@counted
def noise(effort: int) -> Iterator[str | None]:
    """Bodies and headers of anything."""
    torch.set_num_threads(1)
    rng = random.Random(0)
    with TemporaryDirectory() as name, watched(Path(name) / "served") as (service, described):
        values = defaultdict(lambda: "1", name="holdfast")
        paths = [path.format_map(values) for path in described["paths"] if path != ENDLESS]
        for _ in range(150 * effort * effort):
            yield noisy(rng, paths, service, Path(name))


def noisy(rng: random.Random, paths: list[str], service: Watched, folder: Path) -> str | None:
    method, path = rng.choice(["POST", "POST", "POST", "GET", "PUT", "OPTIONS"]), rng.choice(paths)
    body = b"".join(rng.choice(PIECES) for _ in range(rng.randrange(12))) + rng.randbytes(rng.randrange(20))
    value = rng.choice([*TYPES, "0", "7", "-1", "9" * 30, "x" * 300, "\xff", "null", "[", "http://["])
    headers = {"Host": "localhost", "Content-Length": str(len(body)), rng.choice(NAMES): value, "Connection": "close"}
    head = "".join(
        [f"{method} {path} HTTP/1.1\r\n", *(f"{name}: {text}\r\n" for name, text in headers.items()), "\r\n"]
    )
    answer = b""
    with socket.create_connection(service.place, timeout=30) as connection, suppress(ConnectionError):
        connection.sendall(head.encode("latin-1") + body)
        while part := connection.recv(2**16):
            answer += part
    status = int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 400  # hung up: it was not HTTP
    flaw = service.flaw(status, answer.decode("latin-1"), folder)
    return f"{head!r} {body!r}: {flaw}" if flaw else None
