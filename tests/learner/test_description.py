"""What learners, memories and methods say of themselves, and the names of classes."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

import holdfast
from holdfast.commands.main import main
from holdfast.errors import InputError
from holdfast.runs.store import Store

X = np.random.default_rng(0).normal(size=(14, 4)).astype(np.float32)


def test_a_learner_says_what_it_is_and_what_it_knows() -> None:
    learner = holdfast.Learner(holdfast.mlp((4,)), holdfast.ERACE(replay=5), memory=8)
    assert repr(learner) == (
        "<Learner er-ace:replay=5 on mlp: 0 steps, no class yet, <Reservoir of 8 samples: 0 of 0 samples>>"
    )
    learner.observe(X, list("abcdefgabcdefg"))
    assert "1 steps, 7 classes ('a', 'b', 'c', 'd', 'e', … 2 more)" in repr(learner)
    assert repr(learner.memory) == "<Reservoir of 8 samples: 8 of 14 samples>"
    assert repr(holdfast.Reservoir("50MB", codec="png")) == "<Reservoir of 50,000,000 bytes as png: 0 of 0 samples>"
    assert repr(holdfast.ERACE(replay=5)).startswith("ERACE(")


def test_progress_and_methods_of_ones_own_are_told(tmp_path: Path) -> None:
    class Mine(holdfast.ER):
        pass

    learner = holdfast.Learner(holdfast.mlp((4,)), Mine(), progress=10)
    learner.observe(X, [0] * 14)
    learner.observe(X, [0] * 14)
    assert "100% right" in repr(learner) and "Mine(" in repr(learner)


@pytest.mark.slow
def test_a_learner_kept_from_a_folder_answers_names(tmp_path: Path) -> None:
    for name, colour in (("lemon", 230), ("plum", 20)):
        (tmp_path / "fruits" / name).mkdir(parents=True)
        for number in range(12):
            Image.new("RGB", (32, 32), (colour + number, colour, 40)).save(tmp_path / "fruits" / name / f"{number}.png")
    out, kept = tmp_path / "out", tmp_path / "learner.ckpt"
    command = ["run", "--stream", f"folder:{tmp_path / 'fruits'}", "--method", "er", "--seeds", "1", "--keep-learners"]
    assert main([*command, "--out", str(out), "--data", str(tmp_path / "data")]) == 0
    (row,) = Store(out / "runs.sqlite").rows()
    assert main(["runs", "save", row["id"], str(kept), "--out", str(out)]) == 0
    learner = holdfast.Learner.load(kept)
    assert set(learner.classes) == {"lemon", "plum"}
    assert learner.predict(np.full((1, 3, 32, 32), 20, np.uint8))[0] in ("lemon", "plum")


def test_accuracy_by_class_has_their_names(tmp_path: Path) -> None:
    y = ["wren", "kite"] * 7
    data = holdfast.from_arrays(X, y, X, y)
    results = holdfast.run(["er", "slda"], data, seeds=2, out=tmp_path, progress=False, memory=[1, 2])
    with pytest.raises(InputError, match="where"):
        results.by_class()
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(results.where(memory=2).by_class())
    said = console.export_text()
    assert "wren" in said and "kite" in said and "slda" in said and "±" in said
