"""Lists of images and their classes: CSV files with the columns filename and label."""

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path

from holdfast.datasets.folder import ImagesOfClass
from holdfast.errors import DataError

COLUMNS = ["filename", "label"]


def images_of_lists(lists: Iterable[Path], folder: Path) -> ImagesOfClass:
    """Classes and images in the order of the lists. Each image is there, and in one row only."""
    images: ImagesOfClass = {}
    listed: set[Path] = set()
    for path in lists:
        for where, filename, label in rows(path):
            image = folder / filename
            if image in listed:
                raise DataError(f"{where} names {filename} again: each image belongs to one row")
            if not image.is_file():
                raise DataError(f"{where} names {filename}, but {image} is missing")
            listed.add(image)
            images.setdefault(label, []).append(image)
    return images


def rows(path: Path) -> Iterator[tuple[str, str, str]]:
    """Where each row is, its filename and its label."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            if (header := next(reader, [])) != COLUMNS:
                raise DataError(f"{path} begins with {','.join(header)!r} where {','.join(COLUMNS)!r} is right")
            for row in filter(None, reader):
                where = f"{path} line {reader.line_num}"
                if len(row) != len(COLUMNS) or not all(row):
                    raise DataError(f"{where} is {','.join(row)!r} where a filename and a label are right")
                yield where, row[0], row[1]
    except FileNotFoundError:
        raise DataError(f"{path} is missing: the lists go together") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
