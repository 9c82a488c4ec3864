"""`holdfast serve` that is killed, whose disk is full, whose folder vanishes, and whose clients die or dawdle."""

import errno
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from fastapi.testclient import TestClient

import holdfast
from holdfast import ERACE, DurableLearner, mlp
from holdfast.errors import ServiceError
from holdfast.serve.app import make_app
from holdfast.serve.limits import Limits
from holdfast.serve.service import Service
from reliability.disk import Fault, FaultyDisk
from reliability.outcome import counted

CLIENTS = 16
SHAPE = (8,)
SETTINGS: dict[str, Any] = {"memory": 40, "progress": 100}
OPTIONS = (
    "--net",
    "mlp",
    "--shape",
    "8",
    "--method",
    "er-ace",
    "--memory",
    "40",
    "--progress",
    "100",
    "--checkpoint-every",
    "50",
)
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}  # bits depend on how many threads add them up
COMMAND = "import sys; from holdfast.commands.main import main; sys.exit(main(sys.argv[1:]))"


def batch(number: int) -> tuple[np.ndarray[Any, np.dtype[np.float32]], list[str]]:
    rng = np.random.default_rng(number)
    y = rng.integers(0, 5, 4)
    return (np.eye(8)[y] + 0.3 * rng.standard_normal((4, 8))).astype(np.float32), [f"class {each}" for each in y]


@dataclass
class Load:
    """What clients send, each one batch after the other, and what they were told."""

    address: str
    batches: int  # of each
    acknowledged: dict[int, int] = field(default_factory=dict)  # the step of each batch
    wrong: list[str] = field(default_factory=list)

    def run(self) -> None:
        with ThreadPoolExecutor(CLIENTS) as clients:
            for each in clients.map(self._teach, range(CLIENTS)):
                self.acknowledged.update(each)

    def _teach(self, client: int) -> dict[int, int]:
        told = {}
        with holdfast.Client(self.address, timeout=10, retries=100) as service:
            for number in range(client, CLIENTS * self.batches, CLIENTS):
                x, y = batch(number)
                told[number] = service.observe(x, y, key=f"batch {number}")
                answers = service.predict_proba(x)
                if not np.allclose(answers.sum(1), 1, atol=1e-4):
                    self.wrong.append(f"probabilities {answers.sum(1)}")
                if number % 7 == 0 and service.observe(x, y, key=f"batch {number}") != told[number]:
                    self.wrong.append(f"batch {number} was learned twice")
        return told


class Server:
    """A process that begins again at the same port when it was killed."""

    def __init__(self, folder: Path, *options: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        words = ["serve", str(folder), "--port", str(self.port), *OPTIONS, *options]
        self._command = [sys.executable, "-c", COMMAND, *words]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=ONE_THREAD
        )
        assert process.stdout is not None
        if not re.match("holdfast: open http", process.stdout.readline()):
            with process:  # whose pipe is closed, too
                process.kill()
            raise AssertionError("it did not start")
        return process


@contextmanager
def running(server: Server) -> Iterator["subprocess.Popen[str]"]:
    process = server.start()
    try:
        yield process
    finally:
        process.kill()
        with process:
            pass


def opened(folder: Path) -> DurableLearner:
    return holdfast.open(folder, mlp(SHAPE), ERACE(), keep=5, **SETTINGS)


@counted
def killed_under_load(effort: int) -> Iterator[str | None]:
    """kill -9 while 16 clients teach and ask: every batch that was acknowledged was learned once, in that order."""
    torch.set_num_threads(1)
    rng = random.Random(0)
    for trial in range(max(1, effort // 3)):
        with TemporaryDirectory() as name:
            flaw = flaw_of_kills(Path(name), rng, kills=effort, batches=4 + 4 * effort)
            yield f"killed under load, trial {trial}: {flaw}" if flaw else None


def flaw_of_kills(folder: Path, rng: random.Random, kills: int, batches: int) -> str | None:
    server = Server(folder / "served")
    load = Load(server.address, batches)
    clients = threading.Thread(target=load.run)
    process = server.start()
    try:
        clients.start()
        for _ in range(kills):
            clients.join(rng.uniform(0.05, 0.5))
            process.kill()
            process.communicate()
            process = server.start()
        clients.join(300)
        if clients.is_alive():
            return "the clients wait for ever"
        process.send_signal(signal.SIGTERM)
        if process.wait(10):
            return f"it ended with {process.returncode}"
    finally:
        process.kill()
        process.communicate()
    return flaw_of_what_was_learned(folder, load)


def flaw_of_what_was_learned(folder: Path, load: Load) -> str | None:
    if load.wrong:
        return load.wrong[0]
    in_order = sorted(load.acknowledged, key=load.acknowledged.__getitem__)
    if [load.acknowledged[number] for number in in_order] != list(range(1, CLIENTS * load.batches + 1)):
        return "a batch was lost, or learned twice"
    with opened(folder / "undisturbed") as learner:
        for number in in_order:
            learner.observe(*batch(number), key=f"batch {number}")
        right = learner.state_hash()
    with opened(folder / "served") as learner:
        return None if learner.state_hash() == right else "another state than that of the acknowledged batches"


@counted
def services_told_to_stop(effort: int) -> Iterator[str | None]:
    """SIGTERM while clients teach: it ends in 5 s, with all that was acknowledged and a log that is closed."""
    rng = random.Random(0)
    for trial in range(effort):
        with TemporaryDirectory() as name:
            flaw = flaw_of_stopping(Path(name) / "served", rng.uniform(0.1, 1.0))
            yield f"a service told to stop, trial {trial}: {flaw}" if flaw else None


def flaw_of_stopping(folder: Path, seconds: float) -> str | None:
    server = Server(folder)
    acknowledged = [0]

    def teach() -> None:
        with holdfast.Client(server.address, retries=0) as client, suppress(ServiceError):
            while True:
                acknowledged.append(client.observe(*batch(0)))

    with running(server) as process, ThreadPoolExecutor(4) as clients:
        for _ in range(4):
            clients.submit(teach)
        time.sleep(seconds)
        start = time.monotonic()
        process.send_signal(signal.SIGTERM)
        status = process.wait(60)
        took = time.monotonic() - start
    found = holdfast.verify(folder)
    if status or took > 5:
        return f"it ended with {status} after {took:.1f} s"
    if not found.ok or found.notes or found.step is None or found.step < max(acknowledged):
        return f"{found}, and {max(acknowledged)} steps were acknowledged"
    return None


@counted
def disks_and_folders_that_fail(effort: int) -> Iterator[str | None]:
    """A full or failing disk at every operation, a folder that vanishes: a 503 without a path, and then it goes on."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as name, FaultyDisk(Path(name)) as disk, served(Path(name) / "served") as (client, _):
        sent(client, 0)
        before = disk.operations
        sent(client, 1)
        after = disk.operations
    for at in range(before + 1, after + 1):
        for kind in (errno.ENOSPC, errno.EIO):
            what = f"{errno.errorcode[kind]} at operation {at}"
            yield in_a_folder(what, failing_disk, Fault(at, kind, part=0.5, lasts=at % 2 == 0))
    for _ in range(effort):
        yield in_a_folder("a folder that vanishes", vanished_folder)


def in_a_folder(what: str, trial: Callable[..., str | None], *more: Any) -> str | None:
    with TemporaryDirectory() as name:
        flaw = trial(Path(name), *more)
        return f"{what}: {flaw}" if flaw else None


@contextmanager
def served(folder: Path) -> Iterator[tuple[TestClient, Service]]:
    service = Service(folder, lambda: opened(folder), Limits(), "holdfast")
    with TestClient(make_app(service), base_url="http://localhost", raise_server_exceptions=False) as client:
        yield client, service


def sent(client: TestClient, number: int) -> Any:
    x, y = batch(number)
    return client.post("/v1/learn", json={"arrays": x.tolist(), "labels": y}, headers={"Idempotency-Key": str(number)})


def failing_disk(folder: Path, fault: Fault) -> str | None:
    with FaultyDisk(folder, fault) as disk, served(folder / "served") as (client, service):
        sent(client, 0)
        before = service.learner.state_hash()
        flaw = flaw_of_refusal(sent(client, 1), client, folder, before, service)
        disk.mend()
        if flaw:
            return flaw
        again = sent(client, 1)
        return None if again.status_code == 200 and not again.json()["repeated"] else f"afterwards: {again.text}"


def vanished_folder(folder: Path) -> str | None:
    with served(folder / "served") as (client, service):
        sent(client, 0)
        before = service.learner.state_hash()
        (folder / "served").rename(folder / "elsewhere")
        flaw = flaw_of_refusal(sent(client, 1), client, folder, before, service)
        (folder / "elsewhere").rename(folder / "served")
        if flaw:
            return flaw
    with opened(folder / "served") as learner:
        return None if learner.step in (1, 2) else f"it is at step {learner.step}"


def flaw_of_refusal(response: Any, client: TestClient, folder: Path, before: str, service: Service) -> str | None:
    if response.status_code != 503 or str(folder) in response.text:
        return f"{response.status_code} {response.text}"
    if service.learner.state_hash() != before:
        return "the learner has changed"
    asked = client.post("/v1/predict", json={"arrays": batch(0)[0].tolist()})
    return None if asked.status_code == 200 and asked.json()["step"] == 1 else f"it does not answer: {asked.text}"


@counted
def clients_that_die_or_dawdle(effort: int) -> Iterator[str | None]:
    """Half a request, a header or body that comes a byte at a time, an answer that nobody reads: others are served."""
    with TemporaryDirectory() as name:
        server = Server(Path(name) / "served", "--timeout", "0.5")
        with running(server), holdfast.Client(server.address, retries=0) as client:
            client.observe(*batch(0))
            for _ in range(effort):
                for what, words in bad_manners().items():
                    flaw = flaw_of_manners(server, client, words)
                    yield f"{what}: {flaw}" if flaw else None


def bad_manners() -> dict[str, tuple[bytes, float, bool]]:
    """What is sent at first, how long then nothing but a byte now and then, and whether the connection has to end."""
    head = b"POST /v1/learn HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n"
    return {
        "half a body, then gone": (head + b"\r\n{", 0, False),
        "half a header, then gone": (head[:30], 0, False),
        "a question, then gone": (b"GET /v1/state HTTP/1.1\r\nHost: localhost\r\n\r\n", 0, False),
        "a body, a byte at a time": (head + b"\r\n{", 4, True),
        "a header, a byte at a time": (head, 4, True),
        "nothing at all": (b"", 4, True),
        "no HTTP": (b"\0\1\2\3\r\n\r\n", 4, True),
    }


def flaw_of_manners(server: Server, client: holdfast.Client, words: tuple[bytes, float, bool]) -> str | None:
    first, patience, has_to_end = words
    before = client.step
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(first)
        connection.settimeout(0.2)
        ended, end = False, time.monotonic() + patience
        while time.monotonic() < end and not ended:
            with suppress(TimeoutError):
                try:
                    if first:
                        connection.sendall(b"x")
                    ended = connection.recv(1000).endswith((b"", b"}"))
                except ConnectionError:
                    ended = True
        if has_to_end and not ended:
            return "it waits for ever"
        if len(client.predict(batch(0)[0])) != 4:
            return "others are not answered"
    if client.step != before:
        return "something was learned from it"
    client.observe(*batch(1))
    return None if client.step == before + 1 else "others cannot teach"
