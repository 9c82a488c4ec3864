"""Classes by their names: how accurate, what they are taken for, which samples."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import holdfast
from holdfast.commands.main import main
from holdfast.errors import InputError
from holdfast.measure import mistakes
from holdfast.report.classes import of_methods
from holdfast.runs.exported import read

FRUITS = ("apple", "fig", "pear", "plum")


def folder_of_images(path: Path) -> Path:
    rng = np.random.default_rng(0)
    for number, name in enumerate(FRUITS):
        (path / name).mkdir(parents=True)
        for image in range(12):
            pixels = rng.integers(0, 150, (16, 16, 3), np.uint8)
            pixels[..., number % 3] += np.uint8(number)
            Image.fromarray(pixels).save(path / name / f"{image}.png")
    return path


def test_confusion_counts_every_answer_and_mistakes_are_wrong_answers() -> None:
    truth, answers = np.array([0, 0, 1, 2, 2]), np.array([0, 1, 1, 0, 2])
    assert mistakes.confusion(truth, answers) == [[0, 0, 1], [0, 1, 1], [1, 1, 1], [2, 0, 1], [2, 2, 1]]
    assert mistakes.some(np.arange(10, 15), truth, answers) == [[11, 0, 1], [13, 2, 0]]


def test_images_of_any_values_have_a_picture_and_tables_have_none() -> None:
    floats = np.random.default_rng(0).normal(size=(3, 1, 20, 100)).astype(np.float32)
    assert [picture.shape for picture in mistakes.pictures(floats)] == [(13, 64, 3)] * 3
    assert mistakes.strip(floats[:0]) is None and mistakes.strip(np.zeros((3, 8))) is None


@pytest.mark.slow
def test_own_images_by_class_in_table_pictures_and_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder_of_images(tmp_path / "fruits")
    monkeypatch.chdir(tmp_path)
    options = ["--stream", "folder:fruits:tasks=2,size=16", "--method", "er", "--method", "ncm", "--jobs", "1"]
    assert main(["run", *options, "--seeds", "2"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in FRUITS) and "taken for" in printed
    pictures = sorted(file.name for file in tmp_path.rglob("holdfast-runs/*.png"))
    assert pictures == ["anytime.png", "classes.png", "mistakes.png"]

    before = (tmp_path / "holdfast-runs/anytime.png").read_bytes()
    assert main(["run", *options, "--seeds", "2"]) == 0  # the same runs: the same pictures
    assert sorted(file.name for file in tmp_path.rglob("holdfast-runs/*.png")) == pictures
    assert main(["run", *options, "--seeds", "1", "--no-by-class"]) == 0
    assert (tmp_path / "holdfast-runs/anytime.png").read_bytes() == before
    assert sorted(file.name for file in tmp_path.rglob("holdfast-runs/*.png")) == ["anytime-2.png", *pictures]

    results = holdfast.run(["er", "ncm"], "folder:fruits:tasks=2,size=16", seeds=2, progress=False)
    for method in of_methods(results.records):
        assert method.counts is not None and sorted(method.names) == sorted(FRUITS)
        tested = results[0]["evaluations"][-1]["total"]
        assert method.counts.sum(1).tolist() == [2 * total for total in tested]
        accuracies = [100 * float(np.mean(each)) for each in method.accuracies]
        assert np.allclose(method.shares.diagonal(), accuracies)
    assert results.plot_classes().axes and results.plot_mistakes().axes

    assert main(["report", "holdfast-runs"]) == 0
    page = (tmp_path / "holdfast-runs/report.html").read_text()
    assert page.index("Your runs</h2>") < page.index("All runs</h2>")
    assert "Accuracy of each class" in page and "data:image/webp;base64," in page and "</b> not " in page
    assert main(["runs", "export", "--json", "all.json"]) == 0
    (sound, *_) = json.loads(Path("all.json").read_text())
    forged = {"confusion": [[0, 9, 1]], "mistakes": [[-1, 0, 0]], "classes": [1]}
    for name, value in (*forged.items(), ("mistakes", [[0, 1]]), ("confusion", 5)):
        Path("forged.json").write_text(json.dumps([{**sound, name: value}]))
        with pytest.raises(InputError, match="do not go together"):
            read(Path("forged.json"))
    assert main(["runs", "import", "all.json", "--out", "elsewhere"]) == 0
    assert main(["report", "elsewhere"]) == 0  # without the pictures of mistakes
    assert "test sample" in (tmp_path / "elsewhere/report.html").read_text()


@pytest.mark.slow
def test_what_is_no_image_has_no_picture_of_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 4)).astype(np.float32), np.arange(60) % 3
    results = holdfast.run("ncm", holdfast.from_arrays(x, y, x, y), seeds=1, progress=False)
    assert results[0]["mistakes"] and results.plot_classes().axes
    with pytest.raises(InputError, match="no images"):
        results.plot_mistakes()
