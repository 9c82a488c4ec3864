"""Threads beside a test: daemons, so that one that hangs cannot keep pytest from ending, and joined."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 60  # seconds


@contextmanager
def beside(*work: Callable[[], object]) -> Iterator[list[threading.Thread]]:
    """Does each piece of work in a thread of its own. After the block they must end; what they raise is raised here."""
    failures: list[BaseException] = []

    def do(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=do, args=(each,), daemon=True) for each in work]
    for thread in threads:
        thread.start()
    try:
        yield threads
    finally:
        for thread in threads:
            thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads), f"a thread has not ended after {PATIENCE} s"
    if failures:
        raise failures[0]


@contextmanager
def repeating(work: Callable[[], object], threads: int = 1) -> Iterator[None]:
    """Does the work again and again in some threads until the block ends."""
    done = threading.Event()

    def repeat() -> None:
        while not done.is_set():
            work()

    with beside(*[repeat] * threads):
        try:
            yield
        finally:
            done.set()
