"""A small learner behind the service."""

import base64
import io
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from fastapi.testclient import TestClient
from PIL import Image

import holdfast
from holdfast import ERACE, DurableLearner, mlp, small_cnn
from holdfast.serve.app import make_app
from holdfast.serve.connections import Connection
from holdfast.serve.limits import Limits
from holdfast.serve.roles import Tokens
from holdfast.serve.service import Service
from tests.threads import beside

PICTURES = (3, 8, 8)
HERE = "http://localhost"


def opened(folder: Path, shape: tuple[int, ...] = (4,)) -> DurableLearner:
    net = mlp(shape, width=8) if len(shape) == 1 else small_cnn(shape, width=2)
    return holdfast.open(folder, net, ERACE(), memory=50, keep=3, progress=100)


@contextmanager
def served(
    folder: Path, shape: tuple[int, ...] = (4,), tokens: Tokens | None = None, name: str = "holdfast", **limits: Any
) -> Iterator[tuple[TestClient, Service]]:
    service = Service(folder, lambda: opened(folder, shape), Limits(**limits), name)
    with TestClient(make_app(service, tokens), base_url=HERE, raise_server_exceptions=False) as client:
        yield client, service


@contextmanager
def listening(folder: Path, learner: Callable[[], DurableLearner]) -> Iterator[str]:
    """The address of a real server, in a thread."""
    app = make_app(Service(folder, learner, Limits(), "holdfast"))
    server = uvicorn.Server(uvicorn.Config(app, port=0, http=Connection, ws="none", log_config=None))
    with beside(server.run) as (thread,):
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        finally:
            server.should_exit = True


def picture(colour: tuple[int, int, int], kind: str = "PNG", size: tuple[int, int] = (8, 8)) -> bytes:
    content = io.BytesIO()
    Image.new("RGB", size, colour).save(content, kind, **({"lossless": True} if kind == "WEBP" else {}))
    return content.getvalue()


def as_base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def as_npy(array: Any) -> bytes:
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def tensor(array: Any, name: str = "x", kind: str = "FP32") -> dict[str, Any]:
    array = np.asarray(array)
    return {"name": name, "shape": list(array.shape), "datatype": kind, "data": array.ravel().tolist()}


X = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0]]
Y = ["a", "b", 3, "a"]


def teach(client: TestClient, **headers: str) -> dict[str, Any]:
    response = client.post("/v1/learn", json={"arrays": X, "labels": Y}, headers=headers)
    assert response.status_code == 200, response.text
    learned: dict[str, Any] = response.json()
    return learned
