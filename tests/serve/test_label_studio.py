"""Label Studio's side of the protocol, as its version 1.23 speaks it."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from holdfast.errors import InputError
from holdfast.serve.label_config import LabelConfig
from holdfast.serve.limits import Limits
from holdfast.serve.pictures import Pictures
from holdfast.serve.refusals import Refused
from holdfast.serve.roles import Tokens
from holdfast.serve.service import Service
from tests.serve.served import PICTURES, as_base64, picture, served

CONFIG = (
    '<View><Image name="image" value="$photo"/><Choices name="kind" toName="image" choice="single">'
    '<Choice value="red"/><Choice value="sea" alias="blue"/></Choices></View>'
)
RED, BLUE = ("data:image/png;base64," + as_base64(picture(each)) for each in ((250, 5, 5), (5, 5, 250)))


TIMES = count(1)


def event(action: str, number: int, task: int, photo: str, choices: list[str]) -> dict[str, Any]:
    result = [{"from_name": "kind", "to_name": "image", "type": "choices", "value": {"choices": choices}}]
    return {
        "action": f"ANNOTATION_{action}",
        "annotation": {
            "id": number,
            "task": task,
            "result": result,
            "was_cancelled": False,
            "updated_at": str(next(TIMES)),
        },
        "task": {"id": task, "data": {"photo": photo}},
        "project": {"id": 1, "label_config": CONFIG},
    }


def changed(client: TestClient, sent: dict[str, Any]) -> int:
    answer = client.post("/webhook", json=sent)
    assert answer.status_code == 200, answer.text
    number: int = answer.json()["changed"]
    return number


def held(service: Service) -> dict[str, int]:
    memory, labels = service.learner.memory, service.learner.classes
    return {str(label): len(memory.members(index)) for index, label in enumerate(labels)}


def test_an_annotation_is_learned_at_once_and_the_version_rises(tmp_path: Path) -> None:
    with served(tmp_path / "l", PICTURES) as (client, _):
        assert client.get("/health").json() == {"status": "UP"}
        asked = {"label_config": CONFIG, "tasks": [{"id": 1, "data": {"photo": RED}}, {"id": 2, "data": {}}]}
        assert client.post("/predict", json=asked).json()["results"][0]["result"] == []
        assert client.post("/setup", json={"schema": CONFIG}).json() == {"model_version": "0"}
        assert changed(client, event("CREATED", 7, 1, RED, ["red"])) == 1
        assert changed(client, event("CREATED", 8, 2, BLUE, ["blue"])) == 1
        assert changed(client, event("CREATED", 8, 2, BLUE, ["blue"])) == 0  # sent again
        assert client.post("/setup", json={"schema": CONFIG}).json() == {"model_version": "2"}
        assert client.get("/versions").json() == {"versions": ["2"]}
        first, second = client.post("/predict", json=asked).json()["results"]
    assert first["model_version"] == "2" and 0 < first["score"] <= 1
    (result,) = first["result"]
    assert (result["from_name"], result["to_name"], result["type"]) == ("kind", "image", "choices")
    assert result["value"]["choices"][0] in ("red", "blue")
    assert second["result"] == []  # a task without a picture takes nothing from the others


def test_a_changed_annotation_is_forgotten_and_learned_anew(tmp_path: Path) -> None:
    with served(tmp_path / "l", PICTURES) as (client, service):
        changed(client, event("CREATED", 7, 1, RED, ["red"]))
        changed(client, event("CREATED", 8, 1, RED, ["red"]))  # somebody else's, of the same picture
        changed(client, event("UPDATED", 7, 1, RED, ["blue"]))
        assert held(service) == {"red": 1, "blue": 1} and service.learner.step == 3
        changed(client, event("UPDATED", 7, 1, RED, ["red"]))
        assert held(service) == {"red": 2, "blue": 0}
        changed(client, event("UPDATED", 7, 1, RED, ["red", "blue"]))  # not one choice: nothing to learn
        assert held(service) == {"red": 1, "blue": 0}


def test_a_deleted_annotation_or_task_is_forgotten_also_after_a_restart(tmp_path: Path) -> None:
    with served(tmp_path / "l", PICTURES) as (client, _):
        for number, task in ((7, 1), (8, 2), (9, 2)):
            changed(client, event("CREATED", number, task, (RED, BLUE)[task - 1], ["red"]))
    with served(tmp_path / "l", PICTURES) as (client, service):
        assert changed(client, {"action": "ANNOTATIONS_DELETED", "annotations": [{"id": 7}, {"id": 99}]}) == 1
        assert held(service) == {"red": 2}
        assert changed(client, {"action": "TASKS_DELETED", "tasks": [{"id": 2}]}) == 1
        assert held(service) == {"red": 0}
        assert changed(client, {"action": "PROJECT_UPDATED", "project": {"id": 1}}) == 0


def test_what_is_refused_changes_nothing(tmp_path: Path) -> None:
    flaws: list[Any] = [{"task": None}, {"project": {}}, {"annotation": {"id": "x"}}, {"annotation": [1]}]
    flaws += [{"task": {"id": 1, "data": {"photo": address}}} for address in ("data:,x", "http://h/a.png", 3)]
    with served(tmp_path / "l", PICTURES, classes=1) as (client, service):
        changed(client, event("CREATED", 7, 1, RED, ["red"]))
        before = service.learner.state_hash()
        for flaw in flaws:
            answer = client.post("/webhook", json=event("CREATED", 8, 1, RED, ["red"]) | flaw)
            assert answer.status_code == 422, (flaw, answer.text)
        assert client.post("/webhook", json=event("CREATED", 8, 1, RED, ["blue"])).status_code == 422  # --max-classes
        without = client.post("/webhook", json={"action": "ANNOTATION_CREATED"})
        assert without.status_code == 422 and "payload" in without.text
        assert client.post("/webhook", content=b"[" * 10**5).status_code == 400
        assert service.learner.state_hash() == before and held(service) == {"red": 1}
        assert changed(client, event("CREATED", 8, 1, RED, ["red"])) == 1  # what was refused is not taken for known


def test_a_correction_that_is_refused_leaves_the_annotation_as_it_was(tmp_path: Path) -> None:
    """And all kept checkpoints."""
    with served(tmp_path / "l", PICTURES) as (client, service):
        first, again = event("CREATED", 7, 1, RED, ["red"]), event("UPDATED", 7, 1, RED, ["blue"])
        changed(client, first)
        client.post("/v1/checkpoints")
        before, there = service.learner.state_hash(), service.kept()
        again["annotation"]["updated_at"] = first["annotation"]["updated_at"]
        refused = client.post("/webhook", json=again)  # its key is that of another batch
        assert refused.status_code in (409, 422), refused.text
        assert service.learner.state_hash() == before and service.kept() == there
        changed(client, event("UPDATED", 7, 1, RED, ["blue"]))
        assert held(service) == {"red": 0, "blue": 1}


def test_roles(tmp_path: Path) -> None:
    tokens = Tokens({"a" * 16: "answer", "t" * 16: "teach"})
    with served(tmp_path / "l", PICTURES, tokens) as (client, _):
        sent = event("CREATED", 7, 1, RED, ["red"])
        assert client.get("/health").status_code == 401
        assert client.get("/health", auth=("any", "a" * 16)).status_code == 200
        assert client.post("/webhook", json=sent, auth=("any", "a" * 16)).status_code == 403
        assert client.post("/webhook", json=sent, auth=("any", "t" * 16)).status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        None,
        "<View/>",
        "<View",
        '<View><Choices name="a" toName="b"/></View>',
        '<!DOCTYPE v [<!ENTITY a "b">]><View><Image name="b" value="$x"/><Choices name="a" toName="b"/></View>',
        "<v>" * 80_000,
    ],
)
def test_labelling_interfaces_that_do_not_fit_say_what_would(text: str | None) -> None:
    with pytest.raises(Refused, match="<Choices>"):
        LabelConfig.read(text)


class Studio(BaseHTTPRequestHandler):
    """Gives a picture to whoever has a pass, which a personal token gets."""

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(200, b'{"access": "pass"}' if b"a.b.c" in asked else b"{}")

    def do_GET(self) -> None:
        if self.path == "/elsewhere":
            self.send_response(302)
            self.send_header("Location", "http://localhost:1/")
            self.end_headers()
        elif self.headers["Authorization"] != "Bearer pass":
            self._answer(401, b"")
        else:
            self._answer(200, bytes(2**20) if self.path == "/large" else b"picture")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *what: object) -> None:
        pass


@pytest.fixture
def studio() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Studio) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_pictures_come_from_label_studio_and_from_nowhere_else(studio: str) -> None:
    pictures = Pictures(Limits(body=2**16), studio + "/", "a.b.c")
    assert pictures.get("/data/a.png") == pictures.get(f"{studio}/a.png") == b"picture"
    host = studio.removeprefix("http://")
    for address in (
        "http://localhost:1/a",
        f"https://{host}/a",
        f"http://{host}@evil/",
        "//evil/a",
        "file:///etc/passwd",
    ):
        with pytest.raises(Refused, match="not on the server"):
            pictures.get(address)
    with pytest.raises(Refused, match="302"):
        pictures.get("/elsewhere")
    with pytest.raises(Refused, match="65536 bytes"):
        pictures.get("/large")
    with pytest.raises(Refused, match="401"):
        Pictures(Limits(), studio, "legacy").get("/a.png")
    with pytest.raises(Refused, match="does not give"):
        Pictures(Limits(), studio, "x.y.z").get("/a.png")


def test_a_server_needs_an_address() -> None:
    for server, token in (("localhost:8081", None), (None, "x")):
        with pytest.raises(InputError, match="--label-studio"):
            Pictures(Limits(), server, token)
