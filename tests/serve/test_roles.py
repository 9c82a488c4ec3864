"""Who may do what: every route, every role, no token."""

import base64
from pathlib import Path

import pytest

from holdfast.errors import InputError
from holdfast.serve.app import make_app
from holdfast.serve.limits import Limits
from holdfast.serve.roles import ROLES, Tokens
from holdfast.serve.service import Service
from tests.serve.served import HERE, opened, served

TOKENS = {role: f"{role}-token-of-a-test" for role in ROLES}
LEAST = {
    "GET /v2": "answer",
    "GET /v2/health/live": None,
    "GET /v2/health/ready": None,
    "GET /v2/models/{name}": "answer",
    "GET /v2/models/{name}/versions/{version}": "answer",
    "GET /v2/models/{name}/ready": "answer",
    "GET /v2/models/{name}/versions/{version}/ready": "answer",
    "POST /v2/models/{name}/infer": "answer",
    "POST /v2/models/{name}/versions/{version}/infer": "answer",
    "POST /v1/learn": "teach",
    "POST /v1/predict": "answer",
    "POST /v1/calibrate": "teach",
    "POST /v1/ask": "teach",
    "POST /v1/tell": "teach",
    "GET /v1/classes": "answer",
    "POST /v1/forget": "administer",
    "POST /v1/forget-samples": "administer",
    "GET /v1/memory": "teach",
    "GET /v1/memory/gallery": "teach",
    "GET /v1/memory/samples": "teach",
    "GET /v1/questions": "teach",
    "GET /v1/questions/{ticket}/neighbours": "teach",
    "GET /v1/role": "answer",
    "GET /v1/checkpoint": "administer",
    "GET /v1/checkpoints": "answer",
    "POST /v1/checkpoints": "administer",
    "POST /v1/roll-back": "administer",
    "GET /v1/state": "answer",
    "GET /v1/progress": "answer",
    "GET /v1/events": "answer",
    "GET /health": "answer",
    "GET /versions": "answer",
    "POST /setup": "answer",
    "POST /predict": "answer",
    "POST /webhook": "teach",
    "GET /metrics": "answer",
    "GET /openapi.json": "answer",
}
BODIES = {"/v1/tell": {"ticket": 0, "labels": ["a"]}, "/v1/forget": {"label": "a"}, "/v1/roll-back": {"step": 0}}


def tokens() -> Tokens:
    return Tokens({token: role for role, token in TOKENS.items()})


def test_every_route_with_every_role_and_without_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.serve.watching.PAUSE", 0.01)
    with served(tmp_path / "w", tokens=tokens()) as (client, service):
        paths = client.get("/openapi.json", auth=("", TOKENS["answer"])).json()["paths"]
        there = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
        assert there | {"GET /openapi.json"} == set(LEAST)
        for route, least in LEAST.items():
            method, path = route.split()
            if path == "/v1/events":
                service.closing.set()  # or it would not end
            for role in (None, "other", *ROLES):
                headers = {"Authorization": f"Bearer {TOKENS.get(role, 'x')}"} if role else {}
                response = client.request(
                    method,
                    path.format(name="holdfast", version="0", ticket="0"),
                    headers=headers,
                    json=BODIES.get(path),
                )
                allowed = least is None or (role in ROLES and ROLES.index(role) >= ROLES.index(least))
                refused = {401} if role not in ROLES else {403}
                assert (response.status_code not in (401, 403)) if allowed else response.status_code in refused, (
                    route,
                    role,
                    response.text,
                )
            service.closing.clear()


@pytest.mark.slow
def test_a_token_is_also_a_password(tmp_path: Path) -> None:
    with served(tmp_path / "w", tokens=tokens()) as (client, _service):
        assert client.get("/v1/state", auth=("anyone", TOKENS["answer"])).status_code == 200
        assert client.get("/v1/state", auth=("anyone", "wrong")).status_code == 401
        for header in ("Basic", "Basic ???", "Bearer", "Bearer é", f"Digest {TOKENS['answer']}"):
            response = client.get("/v1/state", headers={b"Authorization": header.encode("latin-1")})
            assert response.status_code == 401 and response.headers["www-authenticate"] == "Bearer"
        nobody = base64.b64encode(b"\xff\xfe").decode()
        assert client.get("/v1/state", headers={"Authorization": f"Basic {nobody}"}).status_code == 401


def test_without_tokens_only_loopback_and_no_other_origin(tmp_path: Path) -> None:
    with served(tmp_path / "w") as (client, _service):
        assert client.get("/v1/state").status_code == 200
        assert client.get("/v1/state", headers={"Host": "evil.example"}).status_code == 403  # a name made to lead here
        assert client.get("/v1/state", headers={"Origin": HERE}).status_code == 200
        for host in ("[", "a[b]", "localhost:8080[", "[::1"):
            assert client.get("/v1/state", headers={"Host": host}).status_code == 403
        for origin in ("http://evil.example", "null", "http://localhost.evil.example", "http://[", HERE + "["):
            response = client.get("/v1/state", headers={"Origin": origin})
            assert response.status_code == 403 and "access-control-allow-origin" not in response.headers
        asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
        assert client.options("/v1/learn", headers=asked).status_code == 403


def test_other_names_where_that_was_wanted(tmp_path: Path) -> None:
    from fastapi.testclient import TestClient

    service = Service(tmp_path / "w", lambda: opened(tmp_path / "w"), Limits(), "holdfast")
    with TestClient(make_app(service, any_host=True), base_url="http://learner.example") as client:
        assert client.get("/v1/state").status_code == 200


@pytest.mark.parametrize(
    "text", ["", "teach", "own abcdefghijklmnop", "teach short", "teach abcdefghijklmnoé", "teach abcdefghijklmnop x"]
)
def test_a_file_of_tokens_that_is_wrong(tmp_path: Path, text: str) -> None:
    (tmp_path / "tokens").write_text(text)
    with pytest.raises(InputError, match="a role"):
        Tokens.read(tmp_path / "tokens")


def test_a_file_of_tokens(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("# ours\n\nteach abcdefghijklmnop\nanswer qrstuvwxyz123456\n")
    read = Tokens.read(tmp_path / "tokens")
    assert read.role("Bearer abcdefghijklmnop") == "teach" and read.role("bearer qrstuvwxyz123456") == "answer"
    assert read.role("Bearer abcdefghijklmno") is None and read.role(None) is None
    with pytest.raises(InputError, match="cannot be read"):
        Tokens.read(tmp_path / "none")
