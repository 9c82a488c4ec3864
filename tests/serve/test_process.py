"""`holdfast serve` as a process: it starts, says where it is, stops when it is told to, and refuses what is unsafe."""

import json
import shutil
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

import holdfast
from holdfast.commands.main import main
from tests.serve.process import TINY, started
from tests.serve.served import X, Y, picture

pytestmark = pytest.mark.slow
COLOURS = """
import holdfast, torch

def encoder():
    return holdfast.pretrained(torch.nn.Sequential(torch.nn.AvgPool2d(8), torch.nn.Flatten()), size=8)
"""


def test_it_serves_a_folder_and_stops_cleanly(tmp_path: Path) -> None:
    with started(tmp_path / "w", tmp_path / "log", *TINY) as process, httpx.Client(base_url=process.address) as client:
        headers = {"Idempotency-Key": "k", "X-Request-ID": "mine-1"}
        response = client.post("/v1/learn", json={"arrays": X, "labels": Y}, headers=headers)
        assert response.json()["step"] == 1 and response.headers["x-request-id"] == "mine-1"
        assert "server" not in response.headers
        assert process.end() == 0  # although a connection is open
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    (line,) = [line for line in lines if line.get("request_id") == "mine-1"]
    assert line["path"] == "/v1/learn" and line["status"] == 200 and line["role"] == "administer"
    found = holdfast.verify(tmp_path / "w")
    assert found.ok and found.step == 1 and not found.notes  # sealed: nothing to recover
    with started(tmp_path / "w", tmp_path / "log", *TINY) as process, httpx.Client(base_url=process.address) as client:
        again = client.post("/v1/learn", json={"arrays": X, "labels": Y}, headers={"Idempotency-Key": "k"})
        assert again.json() == {"step": 1, "samples": 4, "repeated": True}


def test_tls_and_tokens(tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    made += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    subprocess.run(made, check=True, capture_output=True)
    (tmp_path / "tokens").write_text("answer abcdefghijklmnop\n")
    safe = ["--tls-cert", str(certificate), "--tls-key", str(key), "--token-file", str(tmp_path / "tokens")]
    with started(tmp_path / "w", tmp_path / "log", *TINY, *safe, "--host", "0.0.0.0", "--timeout", "1") as process:
        assert process.address.startswith("https://localhost:")
        port = int(process.address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=30) as silent:  # no handshake
            assert silent.recv(1) == b""
        with httpx.Client(
            base_url=process.address, verify=ssl.create_default_context(cafile=str(certificate))
        ) as client:
            assert client.get("/v1/state").status_code == 401
            client.headers["Authorization"] = "Bearer abcdefghijklmnop"
            assert client.get("/v1/state").status_code == 200
            assert client.post("/v1/learn", json={"arrays": X, "labels": Y}).status_code == 403
    assert "abcdefghijklmnop" not in (tmp_path / "log").read_text()


def test_without_a_folder_it_is_a_demonstration(tmp_path: Path) -> None:
    with started(None, tmp_path / "log") as process:
        with httpx.Client(base_url=process.address) as client:
            assert client.get("/v1/state").json()["shape"] == [1, 28, 28]
            while not client.get("/v1/questions").json():  # something to teach
                time.sleep(0.1)
            known = {each["label"] for each in client.get("/v1/classes").json()}
            assert known == {"Trouser", "T-shirt/top"}
        assert process.end() == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "0.0.0.0"], "--token-file FILE, or --insecure"),
        (["--host", "::"], "--token-file FILE, or --insecure"),
        (["--token-file", "none"], "cannot be read"),
        (["--tls-cert", "none"], "go together"),
        (["--tls-cert", "none", "--tls-key", "none"], "cannot be used"),
        (["--max-classes", "0"], "--max-classes"),
        (["--timeout", "nan"], "--timeout"),
        (["--net", "resnet"], "did you mean"),
        (["--method", "icarl"], "needs to know where tasks end"),
        (["--method", "iid"], "wants the whole stream shuffled"),
        (["--port", "99999"], "cannot listen"),
        (["--keep", "-1"], "keep"),
        (["--shape", "32x32x3"], "channels come first, so pictures are 3x32x32"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    tmp_path: Path, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", str(tmp_path / "w"), "--port", "0", *options]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert not (tmp_path / "w").exists()


def test_other_settings_than_the_learner_has_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    holdfast.open(tmp_path / "w", holdfast.mlp((4,)), holdfast.ERACE(), memory=50).close()
    for options in (["--memory", "60"], ["--shape", "5"], ["--method", "er"], ["--lr", "0.5"]):
        assert main(["serve", str(tmp_path / "w"), "--port", "0", *options]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_a_shape_or_net_that_the_learner_does_not_have_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "w")
    holdfast.open(folder, holdfast.small_cnn((3, 48, 48), width=2), holdfast.ERACE(), memory=50).close()
    for options, said in (
        (["--shape", "3x32x32"], "--shape 3x32x32 is not that of the learner in {}, which has 3x48x48"),
        (["--net", "mlp"], "--net mlp is not that of the learner in {}, which has small-cnn"),
        (["--shape", "3x48x48", "--net", "small-cnn", "--memory", "60"], "memory does not fit the learner"),
    ):
        assert main(["serve", folder, "--port", "0", *options]) == 2
        assert said.format(folder) in capsys.readouterr().err


def test_a_pretrained_encoder_is_served_and_found_again_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "colours.py").write_text(COLOURS)
    net = ("--net", f"{tmp_path / 'colours.py'}:encoder")
    pictures = [("files", ("one.png", picture(colour), "image/png")) for colour in ((250, 0, 0), (0, 0, 250))]
    with started(tmp_path / "w", tmp_path / "log", *net, "--method", "ncm") as process:
        learned = httpx.post(f"{process.address}/v1/learn", files=pictures, data={"label": ["red", "blue"]})
        assert learned.status_code == 200, learned.text
        assert process.end() == 0
    with started(tmp_path / "w", tmp_path / "log", *net) as process:
        answered = httpx.post(f"{process.address}/v1/predict", files=pictures[:1]).json()
        assert answered["answers"][0]["label"] == "red"


def test_it_says_which_packages_it_needs(tmp_path: Path) -> None:
    program = "import sys; sys.modules['uvicorn'] = None; from holdfast.commands.main import main; main(['serve'])"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.stderr == "holdfast: holdfast serve needs more packages: pip install 'holdfast[serve]'\n"


def test_who_only_connects_keeps_nobody_out_and_fills_no_log(tmp_path: Path) -> None:
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300)); "
    run = limited + "from holdfast.commands.main import main; sys.exit(main(sys.argv[1:]))"
    with started(tmp_path / "w", tmp_path / "log", *TINY, run=("-c", run)) as process:
        where = httpx.URL(process.address)
        idle = [socket.create_connection((where.host, where.port or 0), timeout=5) for _ in range(400)]
        for _ in range(5):
            with httpx.Client(base_url=process.address) as client:
                assert client.get("/v2/health/ready").status_code == 200
                assert client.post("/v1/learn", json={"arrays": X, "labels": Y}).status_code == 200
        for each in idle:
            each.close()
        assert process.end() == 0
    assert "Too many open files" not in (tmp_path / "log").read_text()
