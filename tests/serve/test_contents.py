"""What the learner knows and holds, its state, and the way back."""

import json
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

import holdfast
from holdfast.durable import history
from holdfast.serve.service import Service
from tests.serve.served import PICTURES, X, Y, as_base64, picture, served, teach


def test_classes_and_memory(tmp_path: Path) -> None:
    with served(tmp_path / "w") as (client, _service):
        teach(client)
        listed = client.get("/v1/classes").json()
        assert listed == [{"label": "a", "in_memory": 2}, {"label": "b", "in_memory": 1}, {"label": 3, "in_memory": 1}]
        held = client.get("/v1/memory").json()
        assert held[0] == {"label": "a", "count": 2, "youngest": 0, "oldest": 3}
        assert client.get("/v1/memory/gallery").status_code == 422  # vectors are not pictures
        assert client.post("/v1/forget-samples", json={"arrays": X[1:2]}).json() == {"samples": 1}
        assert client.post("/v1/forget", json={"label": 3}).json() == {"samples": 1}
        assert client.post("/v1/forget", json={"label": 3}).status_code == 404
        assert client.post("/v1/forget", json={"label": "3"}).status_code == 404
        assert [each["label"] for each in client.get("/v1/classes").json()] == ["a", "b"]


def test_the_gallery_is_a_picture(tmp_path: Path) -> None:
    with served(tmp_path / "w", PICTURES) as (client, _service):
        client.post("/v1/learn", json={"images": [as_base64(picture((9, 9, 9)))], "labels": ["dark"]})
        response = client.get("/v1/memory/gallery")
        assert response.headers["content-type"] == "image/png" and response.content.startswith(b"\x89PNG")


def test_state_and_progress(tmp_path: Path) -> None:
    with served(tmp_path / "w") as (client, service):
        teach(client)
        teach(client)
        state = client.get("/v1/state").json()
        assert (state["step"], state["classes"], state["shape"], state["method"]) == (2, 3, [4], "ERACE")
        assert state["memory"]["held"] == 8 and state["precision"] == "float32"
        progress = client.get("/v1/progress").json()
        found = service.learner.progress
        assert found is not None and progress["on"] and progress["samples"] == 8
        assert progress["accuracy"] == found.accuracy and progress["unknown"] == 0.5
        assert [each["label"] for each in progress["classes"]] == ["a", "b", 3]


def test_events_carry_state_and_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.serve.watching.PAUSE", 0.01)
    with served(tmp_path / "w") as (client, service):
        teach(client)

        def end() -> None:
            service.closing.set()  # the test client hands out a feed when it has ended

        monkeypatch.setattr("holdfast.serve.watching._event", _then(end))
        lines = client.get("/v1/events").text.splitlines()
        event = json.loads(lines[0].removeprefix("data: "))
        assert event["state"]["step"] == 1 and event["progress"]["samples"] == 4


def _then(end: object) -> object:
    from holdfast.serve.watching import _event

    def event(service: Service) -> str:
        end()  # type: ignore[operator]
        return _event(service)

    return event


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", "", None])
def test_json_is_json_whatever_it_is_called_but_not_from_other_origins(tmp_path: Path, kind: str | None) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    with served(tmp_path / "w") as (client, service):
        teach(client)
        client.post("/v1/checkpoints")
        client.post("/v1/ask", json={"arrays": X[:1]})
        sent = {
            "/v1/tell": b'{"ticket": 0, "labels": ["b"]}',
            "/v1/roll-back": b'{"step": 1}',
            "/v1/forget": b'{"label": "b"}',
        }
        before = service.learner.state_hash()
        for route, body in sent.items():
            for origin in ("http://evil.example", "null"):
                response = client.post(route, content=body, headers={**headers, "Origin": origin})
                assert response.status_code == 403
            cut = client.post(route, content=body[:-2], headers=headers)
            assert cut.status_code == 422 and cut.json() == {"error": "the body is not JSON"}
            assert client.post(route, content=b"", headers=headers).status_code == 422
        assert service.learner.state_hash() == before
        for route, body in sent.items():
            response = client.post(route, content=body, headers=headers)
            assert response.status_code == 200, response.text
        assert client.get("/v1/state").json()["classes"] == 2


@pytest.mark.slow
def test_a_checkpoint_can_be_taken_home(tmp_path: Path) -> None:
    with served(tmp_path / "w") as (client, service):
        teach(client)
        response = client.get("/v1/checkpoint")
        assert response.headers["content-disposition"] == "attachment; filename=learner-1"
        (tmp_path / "file").write_bytes(response.content)
        assert holdfast.Learner.load(tmp_path / "file").state_hash() == service.learner.state_hash()


def _three_checkpoints(client: TestClient, service: Service) -> dict[int, str]:
    hashes = {}
    for step in (1, 2, 3):
        teach(client)
        assert client.post("/v1/checkpoints").json() == {"step": step}
        hashes[step] = service.learner.state_hash()
    return hashes


@pytest.mark.slow
def test_an_hour_of_wrong_labels_can_be_undone_and_that_as_well(tmp_path: Path) -> None:
    with served(tmp_path / "w") as (client, service):
        hashes = _three_checkpoints(client, service)
        assert [each["step"] for each in client.get("/v1/checkpoints").json()] == [3, 2, 1]
        teach(client)
        last = service.learner.state_hash()
        assert client.post("/v1/roll-back", json={"step": 1}).json() == {"step": 1}  # the next that would have gone
        assert service.learner.state_hash() == hashes[1] and client.get("/v1/state").json()["step"] == 1
        assert client.post("/v1/roll-back", json={"step": 4}).json() == {"step": 4}
        assert service.learner.state_hash() == last
        missing = client.post("/v1/roll-back", json={"step": 77})
        assert missing.status_code == 404
        assert missing.json() == {"error": "step 77 is not kept; kept are: 1, 4, 3"}
        teach(client)
        assert service.learner.step == 5


@pytest.mark.slow
def test_a_state_of_the_same_step_is_gone_back_to_and_late_labels_teach_no_other_sample(tmp_path: Path) -> None:
    """Calibrating changes answers, but takes no step; a question that is asked and undone keeps its number."""
    with served(tmp_path / "w") as (client, service):
        teach(client)
        client.post("/v1/checkpoints")
        before = service.learner.state_hash()
        assert client.post("/v1/calibrate", json={"arrays": X, "labels": Y[::-1]}).status_code == 200
        calibrated = service.learner.state_hash()
        assert client.post("/v1/roll-back", json={"step": 1}).json() == {"step": 1}
        assert service.learner.state_hash() == before != calibrated
        assert [each["name"] for each in client.get("/v1/checkpoints").json()] == ["1.2", "1", "0"]
        assert client.post("/v1/roll-back", json={"step": "1.2"}).json() == {"step": 1}
        assert service.learner.state_hash() == calibrated
        assert "give the name of one: '1" in client.post("/v1/roll-back", json={"step": 1}).json()["error"]
        undone = client.post("/v1/ask", json={"arrays": X[:1]}).json()["ticket"]
        assert client.post("/v1/roll-back", json={"step": "1"}).json() == {"step": 1}
        assert client.post("/v1/ask", json={"arrays": X[1:2]}).json()["ticket"] > undone
        assert client.post("/v1/tell", json={"ticket": undone, "labels": ["a"]}).status_code == 404


def test_a_damaged_checkpoint_leaves_all_as_it_was(tmp_path: Path) -> None:
    with served(tmp_path / "w") as (client, service):
        hashes = _three_checkpoints(client, service)
        kept = tmp_path / "w" / "kept" / "2"
        kept.write_bytes(kept.read_bytes()[:-100])
        response = client.post("/v1/roll-back", json={"step": 2})
        assert response.status_code == 409 and str(tmp_path) not in response.text
        assert service.learner.state_hash() == hashes[3]
        assert teach(client)["step"] == 4


def test_a_learner_that_cannot_be_opened_again_answers_and_learns_when_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(tmp_path / "w") as (client, service):
        _three_checkpoints(client, service)
        opened = service._opened
        failing = [True]

        def fails() -> holdfast.DurableLearner:
            if failing:
                raise holdfast.errors.WriteError(f"{tmp_path} is full")
            return opened()

        monkeypatch.setattr(service, "_opened", fails)
        response = client.post("/v1/roll-back", json={"step": 1})
        assert response.status_code == 503 and str(tmp_path) not in response.text
        assert client.post("/v1/predict", json={"arrays": X}).json()["step"] == 3
        assert client.post("/v1/learn", json={"arrays": X, "labels": ["a"] * 4}).status_code == 503
        failing.clear()
        assert teach(client)["step"] == 2
        assert history.kept(tmp_path / "w") and np.isfinite(service.learner.predict_proba(np.array(X))).all()
