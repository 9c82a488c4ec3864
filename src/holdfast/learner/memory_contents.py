"""What a memory holds: how much of which class, how old, what it looks like; and taking it elsewhere."""

import io
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from holdfast.arguments import Range, whole
from holdfast.errors import InputError
from holdfast.learner import Learner
from holdfast.learner.labels import decode, encode
from holdfast.storage import checkpoint, files
from holdfast.storage.locks import refuse_files_of_a_learner

KIND = "memory"


@dataclass(frozen=True, slots=True)
class Held:
    """The samples of one class. An age is a number of samples that came since."""

    label: Hashable
    count: int
    youngest: int
    oldest: int


def memory_summary(learner: Learner) -> list[Held]:
    """Counts what the memory of a learner holds.

    Args:
        learner: the learner.

    Returns:
        One entry for each class that is held, the largest first.
    """

    def held() -> Iterator[Held]:
        memory = learner.memory
        ages = memory.offered - 1 - memory.arrivals
        for index in np.flatnonzero(memory.class_counts).tolist():
            of_class = ages[memory.members(index)]
            yield Held(learner.labels[index], len(of_class), int(of_class.min()), int(of_class.max()))

    return sorted(learner.at_rest(lambda: list(held())), key=lambda each: -each.count)


def memory_gallery(learner: Learner, path: str | Path, *, columns: int = 12, size: int = 48) -> None:
    """Draws the images in a learner's memory.

    Args:
        learner: the learner.
        path: a PNG file, with a row for each class: its name, its number of samples, and the newest of them.
        columns: how many images a row has at most.
        size: the width and height of an image, in pixels.

    Raises:
        InputError: if the samples are not images, or there are none.
        WriteError: if it cannot be written.
    """
    columns, size = whole("columns", columns), whole("size", size, Range(least=1))

    def rows() -> Iterator[tuple[str, NDArray[np.uint8]]]:
        memory = learner.memory
        for index in np.flatnonzero(memory.class_counts).tolist():
            members = memory.members(index)
            newest = members[np.argsort(-memory.arrivals[members])][:columns]
            yield f"{learner.labels[index]} · {len(members)}", images(memory.at(newest).x)

    refuse_files_of_a_learner(Path(path))
    files.write(Path(path), _png(learner.at_rest(lambda: list(rows())), columns, size))


def export_memory(learner: Learner, path: str | Path) -> None:
    """Writes the samples in a learner's memory with their labels, oldest first.

    What a method keeps beside them is left out.

    Args:
        learner: the learner.
        path: a safetensors file.

    Raises:
        WriteError: if it cannot be written.
        LabelError: if a label cannot be written to a file.
    """

    def held() -> tuple[dict[str, Tensor], list[object]]:
        memory = learner.memory
        if not len(memory):
            return {}, []
        batch = memory.at(np.argsort(memory.arrivals))
        return {"x": batch.x}, [encode(learner.labels[index]) for index in batch.y.tolist()]

    tensors, labels = learner.at_rest(held)
    refuse_files_of_a_learner(Path(path))
    files.write(Path(path), checkpoint.pack(tensors, {"kind": KIND, "y": labels}))


def import_memory(learner: Learner, path: str | Path) -> int:
    """Offers the samples of an exported memory to a learner, without learning from them now.

    Args:
        learner: the learner.
        path: a file written by `export_memory`.

    Returns:
        How many samples there were.

    Raises:
        CheckpointError: if the file is missing or damaged.
        InputError: if the samples do not fit the learner.
    """
    tensors, manifest = checkpoint.read(Path(path))
    if manifest.get("kind") != KIND:
        raise InputError(f"{path} is not an exported memory")
    with checkpoint.distrust(path):
        labels = [decode(label) for label in manifest["y"]]
        samples = tensors["x"] if labels else None
    if samples is not None:
        learner.remember(samples, labels)
    return len(labels)


def images(x: Tensor) -> NDArray[np.uint8]:
    """As (number, height, width, 3)."""
    if x.ndim != 4 or x.shape[1] not in (1, 3):
        raise InputError(f"only images can be looked at, not samples of shape {tuple(x.shape[1:])}")
    if x.is_floating_point():
        low, high = x.amin(), x.amax()
        x = ((x - low) / (high - low).clamp(min=1e-12) * 255).round().byte()
    return x.expand(-1, 3, -1, -1).permute(0, 2, 3, 1).numpy()


def _png(rows: list[tuple[str, NDArray[np.uint8]]], columns: int, size: int) -> bytes:
    font = ImageFont.load_default(size / 3.5)
    gap, margin = size // 12, size // 4
    names = max((int(font.getlength(name)) for name, _ in rows), default=0) + 2 * margin
    width, height = names + columns * (size + gap) + margin, len(rows) * (size + gap) + 2 * margin
    sheet = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(sheet)
    for row, (name, images) in enumerate(rows):
        top = margin + row * (size + gap)
        draw.text((margin, top + size / 2), name, fill="black", font=font, anchor="lm")
        for column, image in enumerate(images):
            tile = Image.fromarray(image).resize((size, size), Image.Resampling.NEAREST)
            sheet.paste(tile, (names + column * (size + gap), top))
    content = io.BytesIO()
    sheet.save(content, "png")
    return content.getvalue()
