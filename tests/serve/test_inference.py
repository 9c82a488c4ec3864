"""The Open Inference Protocol v2."""

import json
import struct
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi.testclient import TestClient

from tests.serve.served import PICTURES, X, Y, as_base64, listening, opened, picture, served, teach, tensor

INFER = "/v2/models/holdfast/infer"


def test_metadata_and_health(tmp_path: Path) -> None:
    with served(tmp_path / "w") as (client, _service):
        assert client.get("/v2").json()["extensions"] == ["binary_tensor_data", "holdfast_learn"]
        assert client.get("/v2/health/live").json() == {"live": True}
        assert client.get("/v2/health/ready").status_code == 200
        assert client.get("/v2/models/holdfast/ready").status_code == 503  # there is no class yet
        teach(client)
        assert client.get("/v2/models/holdfast/ready").json() == {"ready": True, "name": "holdfast"}
        model = client.get("/v2/models/holdfast").json()
        assert model["versions"] == ["1"] and model["inputs"] == [{"name": "x", "shape": [-1, 4], "datatype": "FP32"}]
        assert [output["name"] for output in model["outputs"]] == ["label", "probability", "similarity"]
        assert client.get("/v2/models/holdfast/versions/1").json() == model
        assert client.get("/v2/models/holdfast/versions/1/ready").status_code == 200
        assert client.get("/v2/models/holdfast/versions/7").status_code == 404
        assert client.get("/v2/models/other").status_code == 404


def test_answers_are_those_of_the_learner_and_name_its_step(tmp_path: Path) -> None:
    with served(tmp_path / "w") as (client, service):
        assert client.post(INFER, json={"inputs": [tensor(X)]}).status_code == 409  # nothing learned
        teach(client)
        answer = client.post(INFER, json={"id": "q1", "inputs": [tensor(X)]}).json()
        outputs = {each["name"]: each for each in answer["outputs"]}
        x = np.array(X, np.float32)
        assert answer["model_version"] == "1" and answer["id"] == "q1"
        assert outputs["label"]["data"] == [str(label) for label in service.learner.predict(x)]
        probabilities = np.array(outputs["probability"]["data"]).reshape(outputs["probability"]["shape"])
        np.testing.assert_allclose(probabilities, service.learner.predict_proba(x), rtol=1e-5)
        np.testing.assert_allclose(outputs["similarity"]["data"], service.learner.similarity(x), rtol=1e-5)
        assert answer["parameters"]["classes"] == ["a", "b", 3]
        assert client.post("/v2/models/holdfast/versions/1/infer", json={"inputs": [tensor(X)]}).status_code == 200
        assert client.post("/v2/models/holdfast/versions/0/infer", json={"inputs": [tensor(X)]}).status_code == 404
        wanted = {"inputs": [tensor(X)], "outputs": [{"name": "label"}]}
        assert [each["name"] for each in client.post(INFER, json=wanted).json()["outputs"]] == ["label"]


def test_tensors_in_binary(tmp_path: Path) -> None:
    with served(tmp_path / "w") as (client, service):
        teach(client)
        content = np.array(X, "<f4").tobytes()
        described = {"name": "x", "shape": [4, 4], "datatype": "FP32", "parameters": {"binary_data_size": len(content)}}
        head = json.dumps({"inputs": [described], "parameters": {"binary_data_output": True}}).encode()
        headers = {"Inference-Header-Content-Length": str(len(head)), "Content-Type": "application/octet-stream"}
        response = client.post(INFER, content=head + content, headers=headers)
        length = int(response.headers["Inference-Header-Content-Length"])
        outputs, rest = json.loads(response.content[:length])["outputs"], response.content[length:]
        found: dict[str, bytes] = {}
        for output in outputs:
            size = output["parameters"]["binary_data_size"]
            found[output["name"]], rest = rest[:size], rest[size:]
        assert not rest
        x = np.array(X, np.float32)
        expected = b"".join(struct.pack("<I", len(str(y))) + str(y).encode() for y in service.learner.predict(x))
        assert found["label"] == expected
        probabilities = np.frombuffer(found["probability"], "<f4").reshape(4, 3)
        np.testing.assert_allclose(probabilities, service.learner.predict_proba(x), rtol=1e-6)


def test_pictures_as_bytes(tmp_path: Path) -> None:
    with served(tmp_path / "w", PICTURES) as (client, _service):
        red, blue = picture((255, 0, 0)), picture((0, 0, 255))
        images = {"images": [as_base64(red), as_base64(blue)], "labels": ["red", "blue"]}
        assert client.post("/v1/learn", json=images).status_code == 200
        as_text = {"name": "x", "shape": [1], "datatype": "BYTES", "data": [as_base64(red)]}
        first = client.post(INFER, json={"inputs": [as_text]}).json()
        packed = struct.pack("<I", len(red)) + red
        described = {"name": "x", "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": len(packed)}}
        head = json.dumps({"inputs": [described]}).encode()
        headers = {"Inference-Header-Content-Length": str(len(head))}
        assert client.post(INFER, content=head + packed, headers=headers).json() == first
        array = np.broadcast_to(np.array([255, 0, 0], np.uint8).reshape(1, 3, 1, 1), (1, 3, 8, 8))
        assert client.post(INFER, json={"inputs": [tensor(array, kind="UINT8")]}).json() == first


WRONG: list[Any] = [
    b"",
    b"[]",
    b"{",
    b"[" * 100_000,
    {},
    {"inputs": []},
    {"inputs": {}},
    {"inputs": [tensor(X), tensor(X, "more")]},
    {"inputs": [tensor(X), tensor(X)]},
    {"inputs": [{"name": "x"}]},
    {"inputs": [tensor(X) | {"shape": [4, 5]}]},
    {"inputs": [tensor(X) | {"shape": [-1, 4]}]},
    {"inputs": [tensor(X) | {"shape": [2**31, 2**31]}]},
    {"inputs": [tensor(X) | {"datatype": "FP7"}]},
    {"inputs": [tensor(X) | {"datatype": "UINT8", "data": [300] * 16}]},
    {"inputs": [tensor(X) | {"data": ["a"] * 16}]},
    {"inputs": [tensor(X) | {"data": [10**400] * 16}]},
    {"inputs": [tensor(X) | {"data": None}]},
    {"inputs": [tensor(X) | {"parameters": {"binary_data_size": 64}}]},
    {"inputs": [tensor([[1.0, 2.0]])]},
    {"inputs": [tensor(X)], "outputs": [{"name": "other"}]},
    {"inputs": [tensor(X)], "outputs": 3},
    {"inputs": [{"name": "x", "shape": [1], "datatype": "BYTES", "data": ["no picture"]}]},
]


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with served(tmp_path_factory.mktemp("inference") / "w") as (client, _service):
        teach(client)
        yield client


@pytest.mark.parametrize("body", WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_said_in_one_line(taught: TestClient, body: Any) -> None:
    sent: dict[str, Any] = {"content": body} if isinstance(body, bytes) else {"json": body}
    response = taught.post(INFER, **sent)
    assert response.status_code in (400, 422), response.text
    assert "\n" not in response.json()["error"] and set(response.json()) == {"error"}


@pytest.mark.parametrize("length", ["x", "-1", "1e3", "99999999999999999999", "²"])
def test_a_wrong_length_of_the_json(taught: TestClient, length: str) -> None:
    body = json.dumps({"inputs": [tensor(X)]})
    headers = {b"Inference-Header-Content-Length": length.encode()}
    assert taught.post(INFER, content=body, headers=headers).status_code == 400


@pytest.mark.filterwarnings("ignore")  # of gevent
def test_clients_of_triton_work_unchanged(tmp_path: Path) -> None:
    from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput
    from tritonclient.utils import InferenceServerException

    with listening(tmp_path / "w", lambda: opened(tmp_path / "w")) as address:
        httpx.post(f"{address}/v1/learn", json={"arrays": X, "labels": Y}).raise_for_status()
        predicted = httpx.post(f"{address}/v1/predict", json={"arrays": X}).json()
        answers = [str(each["label"]) for each in predicted["answers"]]
        with InferenceServerClient(address.removeprefix("http://")) as client:
            assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("holdfast")
            assert client.get_server_metadata()["name"] == "holdfast"
            assert client.get_model_metadata("holdfast")["versions"] == ["1"]
            found = []
            for binary in (False, True):
                given = InferInput("x", [4, 4], "FP32")
                given.set_data_from_numpy(np.array(X, np.float32), binary_data=binary)
                names = ("label", "probability", "similarity")
                wanted = [InferRequestedOutput(name, binary_data=binary) for name in names]
                for outputs in (wanted, None):  # nothing said: all of them, in binary
                    answer = client.infer("holdfast", [given], outputs=outputs)
                    found.append([answer.as_numpy(name) for name in names])
                    assert answer.get_response()["model_version"] == "1"
            for labels, probabilities, similarities in found:
                assert [y.decode() if isinstance(y, bytes) else y for y in labels] == answers
                np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
                np.testing.assert_allclose(probabilities, found[0][1], rtol=1e-5)
                assert similarities.shape == (4,)
            with pytest.raises(InferenceServerException, match="there is one model, holdfast"):
                client.infer("other", [given])


@pytest.mark.parametrize("binary", [False, True])
def test_answers_of_a_calibrated_learner_say_which_are_unknown(binary: bool, tmp_path: Path) -> None:
    with listening(tmp_path / "w", lambda: opened(tmp_path / "w")) as address:
        with httpx.Client(base_url=address) as client:
            client.post("/v1/learn", json={"arrays": X, "labels": Y})
            client.post("/v1/calibrate", params={"accept": 0.5}, json={"arrays": X, "labels": Y})
            described = client.get("/v2/models/holdfast").json()["outputs"][-1]
            assert described["name"] == "unknown" and described["datatype"] == "BOOL"
            expected = [each["unknown"] for each in client.post("/v1/predict", json={"arrays": X}).json()["answers"]]
        from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput

        triton = InferenceServerClient(address.removeprefix("http://"))
        x = InferInput("x", [4, 4], "FP32")
        x.set_data_from_numpy(np.array(X, np.float32), binary_data=binary)
        wanted = InferRequestedOutput("unknown", binary_data=binary)
        answer = triton.infer("holdfast", [x], outputs=[wanted]).as_numpy("unknown")
        assert set(expected) == {True, False} and answer.tolist() == expected
