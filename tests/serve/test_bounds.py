"""What a request may cost."""

import struct
import threading
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from holdfast import DurableLearner
from tests.serve.served import PICTURES, X, Y, as_base64, as_npy, picture, served, teach


def test_bytes(tmp_path: Path) -> None:
    with served(tmp_path / "w", body=2000) as (client, _service):
        teach(client)
        assert client.post("/v1/learn", content=b" " * 2001).status_code == 413

        def in_parts() -> Iterator[bytes]:  # without a length
            for _ in range(100):
                yield b" " * 100

        assert client.post("/v1/learn", content=in_parts()).status_code == 413
        assert client.get("/v2/health/ready").status_code == 200


def test_bytes_of_all_requests_together(tmp_path: Path) -> None:
    with served(tmp_path / "w", body=2000, bodies=0) as (client, _):
        response = client.post("/v1/learn", json={"arrays": X, "labels": Y})
        assert response.status_code == 429 and response.headers["retry-after"] == "1"
        assert client.get("/v1/state").status_code == 200


def bomb(width: int, height: int) -> bytes:
    """A PNG that says it is this large."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0" * 10_000)) + chunk(b"IEND", b"")


def test_pixels(tmp_path: Path) -> None:
    with served(tmp_path / "w", PICTURES, pixels=1000) as (client, _service):
        for content in (picture((1, 1, 1), size=(40, 40)), bomb(60_000, 60_000), bomb(2**31 - 1, 2**31 - 1)):
            response = client.post("/v1/predict", json={"images": [as_base64(content)]})
            assert response.status_code == 413 and "1000 pixels" in response.text, response.text
        assert client.post("/v1/predict", json={"images": [as_base64(bomb(10, 10))]}).status_code in (200, 422)


def test_pixels_of_a_request_and_of_all_at_a_time(tmp_path: Path) -> None:
    large = as_base64(picture((1, 1, 1), "WEBP", size=(30, 30)))
    with served(tmp_path / "w", PICTURES, pixels=1000, pictures=4) as (client, service):
        assert client.post("/v1/predict", json={"images": [large] * 4}).status_code == 200
        response = client.post("/v1/predict", json={"images": [large] * 5})
        assert response.status_code == 413 and "4000 pixels together" in response.text
        with service.pixels.held(2000):  # by other requests
            assert client.post("/v1/predict", json={"images": [large] * 2}).status_code == 200
            response = client.post("/v1/predict", json={"images": [large] * 3})
            assert response.status_code == 429 and response.headers["retry-after"] == "1"
        broken = as_base64(bomb(30, 30)[:60])
        for _ in range(5):
            assert client.post("/v1/predict", json={"images": [broken]}).status_code == 422
        assert client.post("/v1/predict", json={"images": [large] * 4}).status_code == 200


def test_samples(tmp_path: Path) -> None:
    with served(tmp_path / "w", samples=3) as (client, _service):
        for sent in (
            {"json": {"arrays": X, "labels": Y}},
            {"content": as_npy(np.array(X)), "params": {"label": "abca"}},
        ):
            assert client.post("/v1/learn", **sent).status_code == 413
        files = [("f", picture((1, 1, 1)))] * 4
        assert client.post("/v1/learn", files=files, data={"label": "a"}).status_code in (400, 413)
        header = as_npy(np.zeros((2, 4)))[:-64].replace(b"(2, 4)", b"(9, 4)")
        assert client.post("/v1/predict", content=header).status_code == 422


def test_labels_and_classes(tmp_path: Path) -> None:
    with served(tmp_path / "w", label=5, classes=3) as (client, _service):
        long = {"arrays": X[:1], "labels": ["123456"]}
        assert client.post("/v1/learn", json=long).status_code == 422
        teach(client)
        fourth = {"arrays": X[:1], "labels": ["new"]}
        response = client.post("/v1/learn", json=fourth)
        assert response.status_code == 422 and "3 classes" in response.json()["error"]
        ticket = client.post("/v1/ask", json={"arrays": X[:1]}).json()["ticket"]
        assert client.post("/v1/tell", json={"ticket": ticket, "labels": ["new"]}).status_code == 422
        client.post("/v1/forget", json={"label": "b"})
        assert client.post("/v1/learn", json=fourth).status_code == 200


def test_a_full_queue_is_said_and_answers_go_on(tmp_path: Path) -> None:
    with served(tmp_path / "w", queue=1) as (client, service):
        teach(client)
        started, go_on = threading.Event(), threading.Event()

        def slow(learner: DurableLearner) -> None:
            started.set()
            go_on.wait(60)

        with ThreadPoolExecutor(1) as others:
            assert client.portal is not None
            first = client.portal.start_task_soon(service.change, slow)
            started.wait(60)
            second = others.submit(teach, client)
            while service.waiting == 0:
                threading.Event().wait(0.01)
            response = client.post("/v1/learn", json={"arrays": X, "labels": Y})
            assert response.status_code == 429 and response.headers["retry-after"] == "1"
            assert client.post("/v1/predict", json={"arrays": X}).json()["step"] == 1
            go_on.set()
            assert second.result()["step"] == 2
            first.result()


def test_what_waits_is_refused_when_the_service_stops_and_a_long_step_is_not_waited_for(tmp_path: Path) -> None:
    with served(tmp_path / "w") as (client, service), ThreadPoolExecutor(1) as others:
        started, go_on = threading.Event(), threading.Event()

        def slow(learner: DurableLearner) -> None:
            started.set()
            go_on.wait(60)

        assert client.portal is not None
        first = client.portal.start_task_soon(service.change, slow)
        started.wait(60)
        second = others.submit(client.post, "/v1/learn", json={"arrays": X, "labels": Y})
        while service.waiting == 0:
            threading.Event().wait(0.01)
        assert not service.close(0.01)
        assert second.result().status_code == 503 and "retry-after" in second.result().headers
        assert client.post("/v1/learn", json={"arrays": X, "labels": Y}).status_code == 503
        assert client.get("/v2/health/ready").status_code == 503
        go_on.set()
        first.result()
        while not service.close():
            threading.Event().wait(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/v1/nothing", "/page", "/v2/models/holdfast/versions/1/infer/more", "/v1/learn/"])
def test_what_is_not_there(tmp_path: Path, path: str) -> None:
    with served(tmp_path / "w") as (client, _service):
        response = client.get(path, follow_redirects=False)
        assert response.status_code in (404, 405) and set(response.json()) == {"error"}
