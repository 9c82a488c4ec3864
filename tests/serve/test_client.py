"""`holdfast.Client`: the learner's methods, over HTTP."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

import holdfast
from holdfast import client as client_module
from holdfast.errors import BatchError, InputError, LabelError, NothingLearned, ServiceError, TicketError
from holdfast.serve.roles import Tokens
from holdfast.serve.service import Service
from tests.serve.served import PICTURES, X, Y, picture, served

ARRAY = np.array(X, np.float32)
PAUSE = client_module._pause


class Through(httpx.BaseTransport):
    """To the application in this process. Some answers can be lost on the way."""

    def __init__(self, to: Any) -> None:
        self.to, self.lost, self.refused, self.sent = to, 0, 0, 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.sent += 1
        if self.refused:
            self.refused -= 1
            return httpx.Response(429, headers={"Retry-After": "0"}, json={"error": "later"})
        url = request.url.raw_path.decode()
        response = self.to.request(request.method, url, content=request.read(), headers=dict(request.headers))
        if self.lost:
            self.lost -= 1
            raise httpx.ReadError("lost", request=request)
        headers = {k: v for k, v in response.headers.items() if k != "content-length"}
        return httpx.Response(response.status_code, headers=headers, content=response.content)


def connected(to: Any, **how: Any) -> tuple[holdfast.Client, Through]:
    client = holdfast.Client("http://localhost", **how)
    through = Through(to)
    client._http._transport = through
    client._http._mounts = {}
    return client, through


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_pause", lambda *_: None)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[tuple[holdfast.Client, Service, Through]]:
    with served(tmp_path / "w") as (to, service):
        client, through = connected(to)
        with client:
            yield client, service, through


def test_it_answers_as_the_learner_does(service: tuple[holdfast.Client, Service, Through]) -> None:
    client, behind, _ = service
    with pytest.raises(NothingLearned):
        client.predict(ARRAY)
    assert client.observe(ARRAY, Y) == 1 and client.step == 1
    assert client.classes == behind.learner.classes == ["a", "b", 3]
    assert client.predict(X) == behind.learner.predict(ARRAY)
    np.testing.assert_array_equal(client.predict_proba(ARRAY), behind.learner.predict_proba(ARRAY))
    np.testing.assert_array_equal(client.similarity(ARRAY), behind.learner.similarity(ARRAY))
    question = client.ask(ARRAY[:2])
    assert question.answers == behind.learner.predict(ARRAY[:2]) and question.step == 1
    assert client.tell(question, np.array(["a", "b"])) == 2
    with pytest.raises(TicketError):
        client.tell(question.number, ["a", "b"])
    assert client.forget(3) == 1 and client.forget_samples(ARRAY[1:2]) == 2
    assert client.progress["samples"] == 6 and client.memory_summary()[0]["label"] == "a"


def test_unknown_is_none_as_the_learner_has_it(service: tuple[holdfast.Client, Service, Through]) -> None:
    client, behind, _ = service
    with pytest.raises(NothingLearned):
        client.predict(ARRAY, unknown=True)
    with pytest.raises(NothingLearned):
        client.calibrate(ARRAY, Y)
    client.observe(ARRAY, Y)
    with pytest.raises(InputError, match="calibrate"):
        client.predict(ARRAY, unknown=True)
    found, calibration = client.calibrate(ARRAY, Y, accept=0.5), behind.learner.calibration
    assert calibration is not None and found["threshold"] == calibration.threshold
    answers = client.predict(ARRAY, unknown=True)
    assert None in answers and answers == behind.learner.predict(ARRAY, unknown=True)
    assert None not in client.predict(ARRAY)


def test_checkpoints(service: tuple[holdfast.Client, Service, Through], tmp_path: Path) -> None:
    client, behind, _ = service
    client.observe(ARRAY, Y)
    assert client.checkpoint() == 1 and client.kept() == ["1", "0"]
    client.save(tmp_path / "file")
    assert holdfast.Learner.load(tmp_path / "file").state_hash() == behind.learner.state_hash()
    client.observe(ARRAY, Y)
    assert client.roll_back(1) == 1 == client.step
    with pytest.raises(InputError, match="not kept"):
        client.roll_back(7)


def test_pictures(tmp_path: Path) -> None:
    (tmp_path / "red.png").write_bytes(picture((255, 0, 0)))
    with served(tmp_path / "w", PICTURES) as (to, behind):
        client, _ = connected(to)
        pictures: list[Any] = [tmp_path / "red.png", picture((0, 0, 255), "WEBP")]
        client.observe(pictures, ["red", "blue"])
        assert client.predict([picture((255, 0, 0))]) == client.predict([tmp_path / "red.png"])
        grey = Image.new("L", (9, 8), 130)
        asked: list[Any] = [Image.new("RGB", (8, 8), (255, 0, 0)), grey, str(tmp_path / "red.png")]
        np.testing.assert_array_equal(client.predict_proba(asked), behind.learner.predict_proba(asked))
        assert client.ask(asked).answers == behind.learner.predict(asked)
        client.memory_gallery(tmp_path / "gallery.png")
        assert (tmp_path / "gallery.png").read_bytes().startswith(b"\x89PNG")


def test_what_is_sent_again_is_learned_once(service: tuple[holdfast.Client, Service, Through]) -> None:
    client, behind, through = service
    through.lost, through.refused = 2, 2
    assert client.observe(ARRAY, Y) == 1
    assert through.sent == 5 and behind.learner.step == 1
    assert client.observe(ARRAY, Y) == 2  # another batch, although it is the same
    assert client.observe(ARRAY, Y, key="mine") == client.observe(ARRAY, Y, key="mine") == 3
    through.lost = 1
    with pytest.raises(ServiceError, match="does not answer"):
        client.forget("a")  # may have been done: that is for the caller to find out
    assert client.classes == ["b", 3]
    through.refused = 100
    with pytest.raises(ServiceError, match="later") as raised:
        client.observe(ARRAY, Y)
    assert raised.value.status == 429


def test_mistakes_are_those_of_the_learner(service: tuple[holdfast.Client, Service, Through], tmp_path: Path) -> None:
    client, _, _ = service
    client.observe(ARRAY, Y)
    wrong: list[tuple[Any, Any]] = [(ARRAY, ["a"]), (ARRAY[:, :2], Y)]
    for x, y in (*wrong, (ARRAY, [1.5] * 4), (["a"], ["a"]), ("text", ["a"]), ([], [])):
        with pytest.raises(InputError):
            client.observe(x, y)
    unreadable: list[list[Any]] = [["none.png"], [tmp_path / "none"], [tmp_path], [[1.0], [1.0, 2.0]], [ARRAY, "a"]]
    for x in unreadable:
        with pytest.raises(BatchError, match="x") as raised:
            client.predict(x)
        assert "\n" not in str(raised.value)
    with pytest.raises(LabelError, match="has seen no class 'heron'"):
        client.forget("heron")
    with served(tmp_path / "other", tokens=Tokens({"a-token-of-a-test": "answer"})) as (to, _):
        with pytest.raises(ServiceError, match="token") as refused:
            connected(to)[0].observe(ARRAY, Y)
        assert refused.value.status == 401
        assert connected(to, token="a-token-of-a-test")[0].classes == []


def test_nobody_there() -> None:
    with holdfast.Client("http://127.0.0.1:9", retries=1) as client, pytest.raises(ServiceError, match="not answer"):
        client.step  # noqa: B018


def test_by_default_a_killed_service_has_time_to_be_back(
    service: tuple[holdfast.Client, Service, Through], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, _, through = service
    slept: list[float] = []
    monkeypatch.setattr(client_module, "_pause", PAUSE)
    monkeypatch.setattr("holdfast.client.time.sleep", slept.append)
    handle = through.handle_request

    def later(request: httpx.Request) -> httpx.Response:
        return handle(request) if sum(slept) > 8 else _refuse(request)

    monkeypatch.setattr(through, "handle_request", later)
    assert client.observe(ARRAY, Y) == 1
    slept.clear()
    monkeypatch.setattr(through, "handle_request", _refuse)
    with pytest.raises(ServiceError, match="not answer"):
        client.observe(ARRAY, Y)
    assert 10 < sum(slept) < 22


def _refuse(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused", request=request)


def test_an_address_without_a_protocol_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_pause", lambda *_: pytest.fail("it waits"))
    with holdfast.Client("localhost:8080") as client, pytest.raises(ServiceError, match="protocol"):
        client.step  # noqa: B018


def test_holdfast_needs_no_httpx_until_a_client_is_wanted() -> None:
    program = "import sys; sys.modules['httpx'] = None; import holdfast; dir(holdfast); holdfast.Client"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "pip install 'holdfast[client]'" in ended.stderr


def test_a_model_of_any_name_is_found_without_it(tmp_path: Path) -> None:
    with served(tmp_path / "w", name="bearing") as (to, _):
        client, _ = connected(to)
        client.observe(ARRAY, Y)
        assert client.predict(ARRAY[:1])[0] in Y
        other, _ = connected(to, name="holdfast")
        with pytest.raises(ServiceError, match="there is one model, bearing"):
            other.predict(ARRAY[:1])


@pytest.mark.parametrize("labels", ["abba", b"abba"])
def test_one_label_is_no_list_of_labels(labels: Any, service: tuple[holdfast.Client, Service, Through]) -> None:
    client, behind, through = service
    with pytest.raises(LabelError, match=r"the label of one sample is \[label\]"):
        client.observe(ARRAY, labels)
    assert behind.learner.step == 0 and not through.sent


@pytest.mark.parametrize("key", ["", "é", " k", "a\nb", 5])
def test_a_key_that_cannot_be_sent_is_refused_at_once(
    key: Any, service: tuple[holdfast.Client, Service, Through]
) -> None:
    client, _, through = service
    with pytest.raises(InputError, match="key must be printable ASCII"):
        client.observe(ARRAY, Y, key=key)
    assert not through.sent
