"""What a request may cost, looked at before it is decoded."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    body: int = 16 * 2**20  # bytes
    bodies: int = 8  # as large as that, of all requests at a time together
    seconds: float = 30.0  # until a request has arrived
    pixels: int = 2**24  # of a picture, before it is scaled
    pictures: int = 4  # as large as that, of a request, and of all that are decoded at a time
    samples: int = 1024  # of a batch
    label: int = 200  # characters
    classes: int = 1000
    queue: int = 64  # changes that wait
    streams: int = 32  # that follow events
