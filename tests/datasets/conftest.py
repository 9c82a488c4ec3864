import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from holdfast.datasets import cifar, integrity

from .official import Server, official, running

WriteCifar = Callable[[Path, str], Path]


@pytest.fixture
def write_cifar(monkeypatch: pytest.MonkeyPatch) -> WriteCifar:
    """Writes a tiny CIFAR in the official layout, which the library then takes for the right one."""
    small = {
        "cifar10": replace(
            cifar.LAYOUTS["cifar10"],
            train={f"data_batch_{i}.bin": 4 for i in range(1, 6)},
            test={"test_batch.bin": 6},
        ),
        "cifar100": replace(cifar.LAYOUTS["cifar100"], train={"train.bin": 9}, test={"test.bin": 5}),
    }

    def write(root: Path, name: str) -> Path:
        layout = small[name]
        random = np.random.default_rng(0)
        folder = root / layout.folder
        folder.mkdir(parents=True)
        for file, count in {**layout.train, **layout.test}.items():
            labels = random.integers(0, 10, (count, layout.label_bytes), np.uint8)
            pixels = random.integers(0, 256, (count, cifar.PIXELS), np.uint8)
            np.concatenate([labels, pixels], axis=1).tofile(folder / file)
        names = class_names(layout)
        (folder / layout.names_file).write_text("\n".join(names) + "\n\n")
        monkeypatch.setitem(integrity.RIGHT, name, integrity.hashes(layout.read(root)))
        return folder

    def class_names(layout: cifar.Layout) -> tuple[str, ...]:
        from holdfast.datasets.npm import CLASSES

        return CLASSES if layout.name == "cifar10" else tuple(f"class_{i}" for i in range(layout.classes))

    for name, layout in small.items():
        monkeypatch.setitem(cifar.LAYOUTS, name, layout)
    return write


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with running() as server:
        yield server


@pytest.fixture
def archive(tmp_path: Path, write_cifar: WriteCifar) -> bytes:
    folder = write_cifar(tmp_path / "origin", "cifar100")
    content = BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        tar.add(folder, folder.name)
    return content.getvalue()


@pytest.fixture
def root(tmp_path: Path, server: Server, archive: bytes, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data root that gets cifar100 from the test's server."""
    server.content = archive
    official(monkeypatch, server.url, archive)
    return tmp_path / "root"
