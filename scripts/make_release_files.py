"""Writes what this version of Holdfast writes into tests/releases/<version>, for later versions to open.

    python scripts/make_release_files.py

Done once for each release. What is there already stays as it is: it is what users have on their disks.
"""

import json
import shutil
import sys
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import holdfast
from holdfast import ERACE, Learner, export_memory, mlp
from holdfast.commands.main import main

RELEASES = Path(__file__).resolve().parent.parent / "tests" / "releases"
X = np.random.default_rng(0).standard_normal((40, 4)).astype(np.float32)
Y = [f"class {number % 4}" for number in range(40)]


def make(folder: Path) -> None:
    folder.mkdir(parents=True)
    learner = Learner(mlp((4,), width=8), ERACE(), memory=10, seed=3)
    with holdfast.open(folder / "durable", mlp((4,), width=8), ERACE(), memory=10, seed=3) as durable:
        for start in range(0, 40, 10):
            for each in (learner, durable):
                each.observe(X[start : start + 10], Y[start : start + 10])
                each.ask(X[start : start + 2])
            if start == 10:
                durable.checkpoint()
    (folder / "durable" / "lock").unlink()
    learner.save(folder / "learner.safetensors")
    export_memory(learner, folder / "memory.safetensors")
    with TemporaryDirectory() as elsewhere, chdir(elsewhere):
        np.savez("blobs.npz", train_x=X, train_y=np.arange(40) % 4, test_x=X, test_y=np.arange(40) % 4)
        options = ["--method", "er-ace", "--memory", "10", "--seeds", "2", "--jobs", "1", "--out", "."]
        assert main(["run", "--stream", "arrays:blobs.npz:batch=10", *options]) == 0
        shutil.copy("runs.sqlite", folder)
    told = {
        "x": X[:5].tolist(),
        "classes": learner.classes,
        "step": learner.step,
        "questions": len(learner.pending),
        "memory": len(learner.memory),
        "probabilities": learner.predict_proba(X[:5]).tolist(),
        "state_hash": learner.state_hash(),
    }
    (folder / "told.json").write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    target = RELEASES / holdfast.__version__
    if target.exists():
        sys.exit(f"{target} is there already")
    make(target)
