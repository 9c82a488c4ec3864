"""Figures for Prometheus, and the log."""

import json
import logging
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdfast.serve.gate import JSONLines
from tests.serve.served import X, served, teach, tensor


def test_metrics_have_the_names_that_mlserver_has(tmp_path: Path) -> None:
    with served(tmp_path / "w") as (client, _):
        teach(client)
        client.post("/v2/models/holdfast/infer", json={"inputs": [tensor(X)]})
        client.post("/v2/models/holdfast/infer", json={})
        client.get("/v1/made-up-by-somebody")
        text = client.get("/metrics").text
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        found = {sample.name: sample.value for sample in samples}
        assert found["model_infer_request_success_total"] == found["model_infer_request_failure_total"] == 1
        assert found["model_infer_request_duration_count"] == 1 and found["parallel_request_queue"] == 0
        assert found["rest_server_requests_in_progress"] == 1  # this one
        assert found["holdfast_step"] == 1 and found["holdfast_classes"] == 3 and found["holdfast_memory_samples"] == 4
        assert found["holdfast_learned_samples_total"] == 4 and found["holdfast_learn_duration_seconds_count"] == 1
        requests = {tuple(s.labels.values()): s.value for s in samples if s.name == "rest_server_requests_total"}
        assert requests["POST", "/v1/learn", "200"] == 1
        assert requests["POST", "/v2/models/{name}/infer", "400"] == 1
        assert requests["GET", "other", "404"] == 1 and "made-up" not in text
        assert "rest_server_request_duration_seconds_count" in found


def test_the_log_is_json_with_request_ids_and_a_failure_is_only_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError(f"something in {tmp_path}")

    with served(tmp_path / "w") as (client, _), caplog.at_level(logging.INFO, "holdfast.serve"):
        monkeypatch.setattr("holdfast.serve.watching.state_of", fail)
        response = client.get("/v1/state", headers={"X-Request-ID": "an id\twith what does not belong"})
        assert response.status_code == 500 and response.json() == {"error": "something went wrong here"}
    line = json.loads(JSONLines().format(caplog.records[-1]))
    assert line["request_id"] == response.headers["x-request-id"] and " " not in line["request_id"]
    assert line["level"] == "ERROR" and line["status"] == 500 and str(tmp_path) in line["error"]
