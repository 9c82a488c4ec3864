"""The learner behind `holdfast serve`, in a process of its own, against the same learner in this one."""

import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import holdfast
from bench.ratio import Ratio, ratio, seconds
from holdfast import ERACE, Client, slim_resnet18, small_cnn

X = np.random.default_rng(0).integers(0, 256, (10, 3, 32, 32), np.uint8)
Y = list(range(10))
QUESTIONS, AT_A_TIME, TURNS, BATCHES, ROUNDS = 400, 25, 8, 10, 40
OPTIONS = "--shape", "3x32x32", "--method", "er-ace", "--memory", "200"
COMMAND = "import sys; from holdfast.commands.main import main; sys.exit(main(sys.argv[1:]))"


def bench() -> Iterator[Ratio]:
    yield _added()
    yield _while_learning()
    yield _learning()
    yield _followed()


@contextmanager
def _served(folder: str, *options: str) -> Iterator[str]:
    """Its address."""
    words = ["serve", str(Path(folder) / "served"), "--port", "0", *OPTIONS, *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    with process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://\S+", process.stdout.readline())
            assert found is not None
            yield found[0]
        finally:
            process.kill()


def _added() -> Ratio:
    """In turns, some questions at a time: a machine that rests in between takes milliseconds to wake up."""
    with TemporaryDirectory() as folder, _served(folder, "--net", "small-cnn") as address, Client(address) as client:
        question = _question(address)
        learner = holdfast.open(Path(folder) / "here", small_cnn((3, 32, 32)), ERACE(), memory=200, progress=1000)
        client.observe(X, Y)
        learner.observe(X, Y)
        ways: list[Callable[[], object]] = [question, lambda: learner.predict(X[:1])]
        times: list[list[float]] = [[], []]
        for _ in range(QUESTIONS // AT_A_TIME):
            for way, its in zip(ways, times, strict=True):
                its += [_seconds(way) for _ in range(AT_A_TIME)]
        learner.close()
    there, here = map(statistics.median, times)
    return Ratio("milliseconds that HTTP adds to an answer, tiny net", 1000 * (there - here), 2)


def _while_learning() -> Ratio:
    """In turns, because what else the machine does decides over the slowest answers."""
    with TemporaryDirectory() as folder, _served(folder) as address, Client(address) as client:
        client.observe(X, Y)
        question = _question(address)
        idle, busy = [], []
        with _taught(address) as teacher:
            while client.step < 10:
                time.sleep(0.1)
            for _ in range(TURNS):
                teacher.send_signal(signal.SIGSTOP)
                time.sleep(0.5)
                idle += _answer_times(question)
                teacher.send_signal(signal.SIGCONT)
                busy += _answer_times(question)
    slowest, usual = (float(np.quantile(times, 0.99)) for times in (busy, idle))
    return Ratio("p99 of an answer over HTTP while learning / idle", slowest / usual, 2)


@contextmanager
def _taught(address: str) -> Iterator["subprocess.Popen[bytes]"]:
    """By a process of its own, so that only the service makes answers wait."""
    process = subprocess.Popen([sys.executable, "-c", f"from bench.http import teach; teach({address!r})"])
    with process:
        try:
            yield process
        finally:
            process.kill()


def teach(address: str) -> None:
    """At full speed: one client sends while the other waits, so there is always something to learn."""

    def learn() -> None:
        with Client(address) as teacher:
            while True:
                teacher.observe(X, Y)

    with ThreadPoolExecutor(2) as teachers:
        for _ in range(2):
            teachers.submit(learn)


def _learning() -> Ratio:
    """Both count right answers, as the service does unless it is told otherwise."""
    with TemporaryDirectory() as folder, _served(folder) as address, Client(address) as one, Client(address) as other:
        learner = holdfast.open(Path(folder) / "here", slim_resnet18(), ERACE(), memory=200, progress=1000)

        def here() -> None:
            for _ in range(BATCHES):
                learner.observe(X, Y)

        def there() -> None:
            with ThreadPoolExecutor(2) as teachers:
                list(teachers.map(lambda number: (one, other)[number % 2].observe(X, Y), range(BATCHES)))

        times = seconds({"here": here, "there": there}, ROUNDS)
        learner.close()
    return Ratio("samples a second over HTTP / in process", ratio(times, "here", "there"), 0.95, at_least=True)


def _followed() -> Ratio:
    with TemporaryDirectory() as folder, _served(folder) as address, Client(address) as client:

        def learn() -> None:
            for _ in range(BATCHES):
                client.observe(X, Y)

        def with_the_page() -> None:
            page = HTTPConnection(address.removeprefix("http://"))
            page.request("GET", "/v1/events")
            with closing(page.getresponse()), closing(page):
                learn()

        times = seconds({"closed": learn, "open": with_the_page}, ROUNDS)
    return Ratio("samples a second with the page open / closed", ratio(times, "closed", "open"), 0.99, at_least=True)


def _question(address: str) -> Callable[[], None]:
    """About one picture, in binary, by a client that costs next to nothing itself."""
    connection = HTTPConnection(address.removeprefix("http://"))
    described: dict[str, object] = {"name": "x", "shape": [1, *X.shape[1:]], "datatype": "UINT8"}
    described["parameters"] = {"binary_data_size": X[0].nbytes}
    head = json.dumps({"inputs": [described], "parameters": {"binary_data_output": True}}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}

    def ask() -> None:
        connection.request("POST", "/v2/models/holdfast/infer", head + X[0].tobytes(), headers)
        answer = connection.getresponse()
        assert answer.read() and answer.status == 200

    return ask


def _answer_times(question: Callable[[], None]) -> list[float]:
    times = []
    for _ in range(QUESTIONS // 2):
        times.append(_seconds(question))
        time.sleep(0.005)
    return times


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
