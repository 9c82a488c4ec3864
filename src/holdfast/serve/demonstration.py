"""Something to see at once: pictures of clothes come, two classes at a time, and are learned."""

import asyncio
from contextlib import suppress
from functools import partial

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets.embedded import SAMPLE_SHAPE, fashion
from holdfast.durable import DurableLearner
from holdfast.serve.refusals import Refused
from holdfast.serve.service import Service
from holdfast.streams import split

SHAPE = SAMPLE_SHAPE
PAUSE = 0.2  # seconds between batches of ten


async def demonstrate(service: Service) -> None:
    """Until all have come."""
    stream = split(await asyncio.to_thread(fashion), tasks=5)
    for number in range(len(stream)):
        x, y, _ = stream.batch(number)
        labels = [stream.dataset.classes[index] for index in y.tolist()]
        with suppress(Refused):  # others teach it as fast as it can learn, or it stops
            await service.learn(None, labels, partial(_observe, x=x, labels=labels))
        await asyncio.sleep(PAUSE)


def _observe(learner: DurableLearner, x: NDArray[np.generic], labels: list[str]) -> None:
    learner.observe(x, labels)
