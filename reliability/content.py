"""What a power loss leaves of a file."""

import random
from dataclasses import dataclass, field


@dataclass
class Content:
    """Of a file: what is safe, and what was done since. Data at an offset was written, None is where it was cut."""

    synced: bytearray = field(default_factory=bytearray)
    since: list[tuple[int, bytes | None]] = field(default_factory=list)

    def sync(self) -> None:
        for offset, data in self.since:
            _change(self.synced, offset, data)
        self.since.clear()

    def after_power_loss(self, rng: random.Random, kept: float) -> bytes:
        left = self.synced.copy()
        for offset, data in self.since:
            fate = "kept" if rng.random() < kept else rng.choice(["dropped", "garbled", "torn"])
            if data and fate == "garbled":
                _change(left, offset, rng.randbytes(len(data)))
            elif data and fate == "torn":
                _change(left, offset, data[: rng.randrange(len(data))])
            elif fate == "kept":
                _change(left, offset, data)
        return bytes(left)


def _change(content: bytearray, offset: int, data: bytes | None) -> None:
    content.extend(bytes(max(0, offset - len(content))))
    if data is None:
        del content[offset:]
    else:
        content[offset : offset + len(data)] = data
