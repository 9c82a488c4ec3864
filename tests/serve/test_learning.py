"""Teaching over HTTP."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast
from tests.serve.served import PICTURES, X, Y, as_base64, as_npy, opened, picture, served, teach, tensor
from tests.threads import beside

RED, BLUE = (255, 0, 0), (0, 0, 255)


def hashed(folder: Path) -> str:
    with holdfast.open(folder) as learner:
        return learner.state_hash()


def test_what_is_learned_here_is_what_the_learner_would_learn(tmp_path: Path) -> None:
    with served(tmp_path / "w") as (client, _service):
        assert teach(client) == {"step": 1, "samples": 4, "repeated": False}
    with opened(tmp_path / "other") as learner:
        learner.observe(np.array(X, np.float32), Y)
        expected = learner.state_hash()
    assert hashed(tmp_path / "w") == expected


@pytest.mark.slow
def test_arrays_in_every_form_are_the_same_batch(tmp_path: Path) -> None:
    npy, labels = as_npy(np.array(X, np.float32)), ["a", "b", "c", "a"]
    tensors = [tensor(X), {"name": "label", "shape": [4], "datatype": "BYTES", "data": labels}]
    forms: list[dict[str, Any]] = [
        {"json": {"arrays": X, "labels": labels}},
        {"json": {"inputs": [tensor(X)], "labels": labels}},
        {"json": {"inputs": tensors}},
        {"content": npy, "params": {"label": labels}},
        {"files": {"file": ("x.npy", npy)}, "data": {"label": labels}},
        {"files": {"file": ("x.npy", npy)}, "data": {"labels": '["a", "b", "c", "a"]'}},
    ]
    hashes = set()
    for number, form in enumerate(forms):
        with served(tmp_path / str(number)) as (client, service):
            response = client.post("/v1/learn", **form)
            assert response.status_code == 200, response.text
            hashes.add(service.learner.state_hash())
    assert len(hashes) == 1


def test_pictures_in_every_form_are_the_same_batch(tmp_path: Path) -> None:
    forms: list[dict[str, Any]] = [
        {"json": {"images": [as_base64(picture(RED)), as_base64(picture(BLUE))], "labels": ["r", "b"]}},
        {"json": {"images": [f"data:image/webp;base64,{as_base64(picture(RED, 'WEBP'))}", as_base64(picture(BLUE))],
                  "labels": ["r", "b"]}},
        {"files": [("f", picture(RED)), ("f", picture(BLUE, size=(40, 20)))], "data": {"label": ["r", "b"]}},
    ]  # fmt: skip
    hashes = set()
    for number, form in enumerate(forms):
        with served(tmp_path / str(number), PICTURES) as (client, service):
            response = client.post("/v1/learn", **form)
            assert response.status_code == 200, response.text
            hashes.add(service.learner.state_hash())
    assert len(hashes) == 1
    with served(tmp_path / "one", PICTURES) as (client, service):
        headers = {"Content-Type": "image/jpeg"}
        sent: dict[str, Any] = {"content": picture(RED, "JPEG"), "params": {"label": "r"}, "headers": headers}
        assert client.post("/v1/learn", **sent).json()["step"] == 1
        for kind in ("image/jpeg", "application/octet-stream", "application/x-www-form-urlencoded"):  # curl's
            sent["headers"] = {"Content-Type": kind}
            assert client.post("/v1/predict", **sent).json()["answers"][0]["label"] == "r"
        sent["headers"] = {}
        for content in (picture(RED), picture(RED, "WEBP")):
            assert client.post("/v1/predict", **sent | {"content": content}).status_code == 200


def test_a_grey_learner_takes_colour_pictures(tmp_path: Path) -> None:
    with served(tmp_path / "w", (1, 8, 8)) as (client, service):
        body = {"images": [as_base64(picture(RED)), as_base64(picture((255, 255, 255)))], "labels": [1, 2]}
        assert client.post("/v1/learn", json=body).status_code == 200
        assert service.learner.memory.at(np.array([0])).x.shape == (1, 1, 8, 8)


def test_a_batch_that_is_sent_twice_is_learned_once_also_across_a_restart(tmp_path: Path) -> None:
    with served(tmp_path / "w") as (client, service):
        assert teach(client, **{"Idempotency-Key": "k"}) == {"step": 1, "samples": 4, "repeated": False}
        teach(client)
        assert teach(client, **{"Idempotency-Key": "k"}) == {"step": 1, "samples": 4, "repeated": True}
        before = service.learner.state_hash()
    with served(tmp_path / "w") as (client, service):
        assert teach(client, **{"Idempotency-Key": "k"})["repeated"]
        other = {"arrays": X, "labels": ["b"] * 4}
        assert client.post("/v1/learn", json=other, headers={"Idempotency-Key": "k"}).status_code == 422
        assert client.post("/v1/learn", json=other, headers={"Idempotency-Key": "k" * 256}).status_code == 422
        assert service.learner.state_hash() == before


def test_ask_and_tell(tmp_path: Path) -> None:
    with served(tmp_path / "w") as (client, service):
        unknown = client.post("/v1/ask", json={"arrays": X}).json()
        assert unknown == {
            "ticket": 0,
            "step": 0,
            "answers": [{"label": None, "probabilities": [], "similarity": None, "unknown": None}] * 4,
        }
        told = {"ticket": 0, "labels": Y}
        assert client.post("/v1/tell", json=told, headers={"Idempotency-Key": "t"}).json()["step"] == 1
        assert client.post("/v1/tell", json=told, headers={"Idempotency-Key": "t"}).json()["repeated"]
        assert client.post("/v1/tell", json=told).status_code == 404
        assert client.post("/v1/tell", json={"ticket": 9, "labels": ["a"]}).status_code == 404
        asked = client.post("/v1/ask", json={"arrays": X[:1]}).json()
        predicted = client.post("/v1/predict", json={"arrays": X[:1]}).json()
        assert asked["ticket"] == 1 and (asked["step"], asked["answers"]) == (1, predicted["answers"])
        best = predicted["answers"][0]["probabilities"]
        assert best[0]["label"] == predicted["answers"][0]["label"] == service.learner.predict(np.array(X[:1]))[0]
        assert sum(share["probability"] for share in best) == pytest.approx(1)


def test_answers_of_a_calibrated_learner_say_which_are_unknown(tmp_path: Path) -> None:
    x, labelled = np.array(X, np.float32), {"arrays": X, "labels": Y}
    with served(tmp_path / "w") as (client, service):
        assert client.post("/v1/calibrate", json=labelled).status_code == 409  # nothing was learned
        teach(client)
        answers = client.post("/v1/predict", json={"arrays": X}).json()["answers"]
        assert [each["unknown"] for each in answers] == [None] * 4
        assert client.post("/v1/calibrate?accept=1.5", json=labelled).status_code == 422
        found = client.post("/v1/calibrate?accept=0.5", json=labelled)
        calibration = service.learner.calibration
        assert calibration is not None and found.json()["threshold"] == calibration.threshold
        assert found.json()["trade_off"][0] == {**calibration.trade_off[0]._asdict()}
        expected = [label is None for label in service.learner.predict(x, unknown=True)]
        assert any(expected) and not all(expected)
        for route in ("/v1/predict", "/v1/ask"):
            answers = client.post(route, json={"arrays": X}).json()["answers"]
            assert [each["unknown"] for each in answers] == expected
            assert [each["label"] for each in answers] == service.learner.predict(x)  # the best, all the same
        (question,) = client.get("/v1/questions").json()
        assert [each["unknown"] for each in question["answers"]] == expected
    with served(tmp_path / "w") as (client, _service):
        answers = client.post("/v1/predict", json={"arrays": X}).json()["answers"]
        assert [each["unknown"] for each in answers] == expected


HOSTILE = ["<script>alert(1)</script>", "../../etc/passwd", "'; DROP TABLE x; --", "\u202eevil", "{{7*7}}", "a\nb"]


def test_class_names_are_text(tmp_path: Path) -> None:
    with served(tmp_path / "w") as (client, _service):
        for name in HOSTILE:
            assert client.post("/v1/learn", json={"arrays": X[:1], "labels": [name]}).status_code == 200
        assert [each["label"] for each in client.get("/v1/classes").json()] == HOSTILE
        answer = client.post("/v1/predict", json={"arrays": X[:1]})
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert client.post("/v1/forget", json={"label": HOSTILE[0]}).json() == {"samples": 1}


WRONG: list[Any] = [
    b"",
    b"null",
    {"labels": ["a"]},
    {"arrays": X},
    {"arrays": X, "labels": ["a"]},
    {"arrays": X, "labels": "abca"},
    {"arrays": X, "labels": [True, "a", "b", "c"]},
    {"arrays": X, "labels": [None, "a", "b", "c"]},
    {"arrays": X, "labels": [["a"], "a", "b", "c"]},
    {"arrays": X, "labels": ["", "a", "b", "c"]},
    {"arrays": X, "labels": ["\0", "a", "b", "c"]},
    {"arrays": X, "labels": [2**60, 1, 2, 3]},
    {"arrays": [[1.0], [2.0, 3.0]], "labels": ["a", "b"]},
    {"arrays": [["a"]], "labels": ["a"]},
    {"arrays": [], "labels": []},
    {"arrays": 3, "labels": []},
    {"arrays": [[1.0, 2.0]], "labels": ["a"]},
    {"images": ["AAAA"], "labels": ["a"]},
    {"images": "AAAA", "labels": ["a"]},
    b'{"arrays": [[NaN, 1, 1, 1]], "labels": ["a"]}',
    b'{"arrays": [[1e999, 1, 1, 1]], "labels": ["a"]}',
    b'{"arrays": [[1, 1, 1, 1]], "labels": ["\\ud800"]}',
    b"\x93NUMPY",
    as_npy(np.array(["a"])),
    as_npy(np.zeros((2, 4)))[:-3],
]


def test_a_label_that_is_missing_is_asked_for_in_the_words_of_the_request(tmp_path: Path) -> None:
    with served(tmp_path / "w", PICTURES) as (client, _service):
        for route in ("/v1/learn", "/v1/calibrate"):
            response = client.post(route, files=[("files", picture(RED))])
            assert response.status_code == 422
            assert "file needs one label, 1 came with 0: label=NAME in a form" in response.json()["error"]


def test_what_is_refused_changes_nothing(tmp_path: Path) -> None:
    with served(tmp_path / "w") as (client, service):
        teach(client)
        before = service.learner.state_hash()
        for body in WRONG:
            sent: dict[str, Any] = {"content": body} if isinstance(body, bytes) else {"json": body}
            for route in ("/v1/learn", "/v1/ask", "/v1/tell"):
                if route == "/v1/ask" and b"arrays" in client.build_request("POST", route, **sent).content:
                    continue  # labels are not looked at there
                response = client.post(route, **sent)
                assert response.status_code in (400, 404, 422), (route, body, response.text)
                assert "\n" not in response.json()["error"], body
        assert service.learner.state_hash() == before


def test_one_sample_is_a_batch_of_one(tmp_path: Path) -> None:
    with served(tmp_path / "w") as (client, _), served(tmp_path / "p", PICTURES) as (pictures, _):
        alone = as_npy(np.array(X[0], np.float32))
        learned = client.post("/v1/learn?label=a", content=alone, headers={"Content-Type": "application/octet-stream"})
        assert learned.json() == {"step": 1, "samples": 1, "repeated": False}
        assert client.post("/v1/learn", files={"files": alone}, data={"label": "b"}).json()["samples"] == 1
        assert client.post("/v1/predict", json={"arrays": X[0]}).json()["answers"][0]["label"] in ("a", "b")
        image = as_npy(np.zeros(PICTURES, np.uint8))
        assert pictures.post("/v1/learn?label=black", content=image).json()["samples"] == 1


def test_labels_in_an_address_are_text(tmp_path: Path) -> None:
    with served(tmp_path / "p", PICTURES) as (client, service):
        for wrong in ("%ff", "%fe"):
            refused = client.post(f"/v1/learn?label={wrong}", content=picture((9, 9, 9)))
            assert refused.status_code == 422 and "UTF-8" in refused.json()["error"]
        assert client.post("/v1/learn?label=M%C3%B6we", content=picture((9, 9, 9))).status_code == 200
        assert service.learner.classes == ["Möwe"]


@pytest.mark.filterwarnings("error")
def test_numbers_that_no_picture_has_are_refused_in_silence(tmp_path: Path) -> None:
    with served(tmp_path / "p", PICTURES) as (client, _):
        body = (
            b'{"arrays": ['
            + str(np.zeros(PICTURES).tolist()).replace("0.0", "Infinity", 1).encode()
            + b'], "labels": ["a"]}'
        )
        assert client.post("/v1/learn", content=body).status_code == 422


def test_a_question_beside_going_back_waits_its_turn(tmp_path: Path) -> None:
    with served(tmp_path / "w") as (client, _):
        teach(client)
        client.post("/v1/checkpoints")
        done = threading.Event()

        def back() -> None:
            for _ in range(10):
                client.post("/v1/roll-back", json={"step": "1"})
            done.set()

        with beside(back):
            while not done.is_set():
                assert client.post("/v1/ask", json={"arrays": X[:1]}).status_code == 200
