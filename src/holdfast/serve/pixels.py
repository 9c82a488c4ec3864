"""How many pixels are decoded at a time: a picture of a few bytes may have many."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.serve.limits import Limits
from holdfast.serve.refusals import Refused


class Pixels:
    def __init__(self, limits: Limits) -> None:
        self._most, self._held = limits.pictures * limits.pixels, 0
        self._lock = threading.Lock()

    @contextmanager
    def held(self, count: int) -> Iterator[None]:
        """While pictures of a request with so many are decoded."""
        if count > self._most:
            raise Refused(413, f"the pictures of a request may have {self._most} pixels together, not {count}")
        with self._lock:
            if self._held + count > self._most:
                raise Refused(429, "too many large pictures are decoded at a time", Retry_After="1")
            self._held += count
        try:
            yield
        finally:
            with self._lock:
                self._held -= count
