"""Something to see at once: pictures of clothes come, two classes at a time, and are learned."""

import asyncio
from contextlib import suppress
from functools import partial

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets.embedded import SAMPLE_SHAPE, fashion
from holdfast.durable import DurableLearner
from holdfast.seeds import generator
from holdfast.serve.refusals import Refused
from holdfast.serve.service import Service
from holdfast.streams import split

SHAPE = SAMPLE_SHAPE
TASKS = 5
PAUSE = 0.2  # seconds between batches of ten
OPEN = 6  # questions that wait for whoever looks at the page


async def demonstrate(service: Service) -> None:
    """Until all have come. A checkpoint is kept before each pair of classes, and some pictures are only asked about."""
    stream = split(await asyncio.to_thread(fashion), tasks=TASKS)
    unlabelled = generator(0, "demonstration").permutation(stream.dataset.test_x)
    each = len(stream) // TASKS
    for number in range(len(stream)):
        x, y, _ = stream.batch(number)
        labels = [stream.dataset.classes[index] for index in y.tolist()]
        with suppress(Refused):  # others teach it as fast as it can learn, or it stops
            if number and number % each == 0:
                await service.change(DurableLearner.checkpoint)
            await service.learn(None, labels, partial(_observe, x=x, labels=labels))
        if number % 10 == 9 and len(service.learner.pending) < OPEN:
            await asyncio.to_thread(service.learner.ask, unlabelled[[number // 10]])
        await asyncio.sleep(PAUSE)


def _observe(learner: DurableLearner, x: NDArray[np.generic], labels: list[str]) -> None:
    learner.observe(x, labels)
