"""A small learner in a folder."""

from pathlib import Path
from typing import Any

import holdfast
from holdfast import ERACE, DurableLearner, mlp


def opened(path: Path | str, **settings: Any) -> DurableLearner:
    return holdfast.open(path, mlp((3,), width=8), ERACE(), **{"memory": 20, **settings})


def log_of(folder: Path) -> Path:
    (file,) = folder.glob("log.*")
    return file
