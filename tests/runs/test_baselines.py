"""What the simplest answers are worth stands beside every method, and one that is worse is marked."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast
from holdfast.commands.main import main
from holdfast.datasets.base import Dataset, from_arrays
from holdfast.report.tables import summarised
from holdfast.runs.baselines import Baselines, Setting, baselines
from holdfast.runs.spec import RunSpec
from holdfast.streams import Source

OPTIONS: dict[str, str | int | float] = {"order": "split", "batch": 5, "tasks": 2}
RNG = np.random.default_rng(0)


def dataset() -> Dataset:
    """Class 0 is twice as frequent; class 3 lies on either side of the others, so that its mean is useless."""
    centres = np.array([[0, 0], [6, 0], [0, 6], [40, 0]], np.float32)
    train_y = np.repeat([0, 1, 2, 3], [40, 20, 20, 20])
    test_y = np.repeat([0, 1, 2, 3], 10)
    x = {}
    for name, y in (("train", train_y), ("test", test_y)):
        x[name] = centres[y] + RNG.normal(size=(len(y), 2)).astype(np.float32)
        x[name][(y == 3) & (np.arange(len(y)) % 2 == 0)] *= -1
    return from_arrays(x["train"], train_y, x["test"], test_y)


def test_they_are_what_plain_loops_find() -> None:
    data = dataset()
    there = baselines(Source(data, OPTIONS), 20)
    found = there.accuracies
    means = np.array([data.train_x[data.train_y == c].mean(0) for c in range(4)])
    nearest_mean = [int(np.argmin(((means - x) ** 2).sum(1))) for x in data.test_x]
    assert found["majority class"] == pytest.approx(0.25)
    assert found["class means"] == pytest.approx(np.mean(np.array(nearest_mean) == data.test_y))
    assert found["nearest neighbour"] > 0.9 > found["class means"]
    assert there.above(0.5) == "nearest neighbour" and there.above(1.0) is None
    assert (there.asked, there.of) == (40, 40)


def test_the_nearest_neighbour_has_no_more_memory_than_the_method() -> None:
    source = Source(dataset(), OPTIONS)
    assert "nearest neighbour" not in baselines(source, 0).accuracies
    assert baselines(source, "64B").accuracies["nearest neighbour"] < 0.6  # one sample, so one class


@pytest.mark.slow
def test_tables_have_them_and_what_is_below_is_marked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = dataset()
    npz = tmp_path / "mine.npz"
    np.savez(npz, train_x=data.train_x, train_y=data.train_y, test_x=data.test_x, test_y=data.test_y)
    command = ["run", "--stream", f"arrays:{npz}", "--method", "fine-tuning", "--method", "slda", "--seeds", "1"]
    assert main([*command, "--memory", "20", "--out", str(tmp_path / "out")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for what in ("(majority)", "(class means)", "(neighbour)", "fine-tuning ↓", "↓ fine-tuning is worth"):
        assert what in said


@pytest.mark.slow
def test_results_in_python_have_them_and_compute_them_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(source: Source, memory: int | str, *, standardise: bool) -> Baselines:
        calls.append(memory)
        return baselines(source, memory, standardise=standardise)

    monkeypatch.setattr("holdfast.runs.sweep.baselines", counted)
    results = holdfast.run(
        ["fine-tuning", "er"], dataset(), seeds=2, memory=[2, 20], out=tmp_path, progress=False, net="mlp"
    )
    tables = [results.table(), results.where(memory=20).table()]
    assert "(class means)" in results._repr_html_() and "fine-tuning ↓" in results._repr_html_()
    assert list(tables[1].columns[0].cells)[-1] == "(neighbour)"
    assert calls == [2, 20]


def in_mixed_units() -> Dataset:
    """A third column, by far the widest, says nothing of the class."""
    data = dataset()
    wide = (np.c_[x, 7e4 + 1e4 * RNG.normal(size=len(x))].astype(np.float32) for x in (data.train_x, data.test_x))
    return from_arrays(next(wide), data.train_y, next(wide), data.test_y)


def test_standardised_they_compare_columns_of_any_unit() -> None:
    data = in_mixed_units()
    rows = data.train_x.astype(np.float64)
    train, test = ((x - rows.mean(0)) / rows.std(0) for x in (data.train_x, data.test_x))
    means = np.array([train[data.train_y == c].mean(0) for c in range(4)])
    nearest_mean = [int(np.argmin(((means - x) ** 2).sum(1))) for x in test]
    there, raw = (baselines(Source(data, OPTIONS), 20, standardise=each) for each in (True, False))
    assert there.standardised and not raw.standardised
    assert there.accuracies["class means"] == pytest.approx(np.mean(np.array(nearest_mean) == data.test_y))
    assert there.accuracies["class means"] > raw.accuracies["class means"] + 0.1
    assert there.accuracies["nearest neighbour"] > raw.accuracies["nearest neighbour"] + 0.1


def test_a_constant_column_counts_nothing_and_images_are_standardised_by_channel() -> None:
    data = dataset()
    train, test = (np.c_[x, np.full(len(x), 9)].astype(np.float32) for x in (data.train_x, data.test_x))
    same = from_arrays(train, data.train_y, test, data.test_y)
    two, three = (baselines(Source(each, OPTIONS), 20, standardise=True).accuracies for each in (data, same))
    assert two == three
    noisy = RNG.integers(0, 256, (40, 2, 4, 4)).astype(np.uint8)
    noisy[:, 1] = 100  # says which class it is, by little
    noisy[20:, 1] = 104
    images = from_arrays(noisy, [0] * 20 + [1] * 20, noisy, [0] * 20 + [1] * 20)
    options = {**OPTIONS, "batch": 4}
    assert baselines(Source(images, options), 10, standardise=True).accuracies["class means"] == 1
    assert baselines(Source(images, options), 10, standardise=True).accuracies["nearest neighbour"] == 1


@pytest.mark.slow
def test_runs_that_standardise_have_their_own(tmp_path: Path) -> None:
    results = holdfast.run(
        "er", in_mixed_units(), standardise=[True, False], seeds=1, memory=20, out=tmp_path, progress=False, net="mlp"
    )
    found = results.where(standardise=True).table()
    assert "baselines on standardised samples" in str(found.caption)
    assert "baselines on raw or standardised samples" in str(results.table().caption)
    means = [str(list(each.columns[1].cells)[2]) for each in (found, results.where(standardise=False).table())]
    assert float(means[0]) > float(means[1]) + 10


PRETRAINED = "a pretrained encoder, as --net timm:resnet18 --method slda"


@pytest.mark.parametrize(
    ("shape", "record", "advice"),
    [
        ((3, 32, 32), {}, f"--updates 10, because 60 gradient steps are few, or {PRETRAINED}"),
        ((3, 32, 32), {"updates_per_batch": 10}, f"{PRETRAINED}, or a larger --memory or another --lr"),
        ((3, 32, 32), {"net": "slim-resnet18", "updates_per_batch": 10}, f"{PRETRAINED}, or --net small-cnn"),
        ((3, 32, 32), {"net": "slim-resnet18", "updates": 5000}, f"{PRETRAINED}, or a larger --memory"),
        ((3, 32, 32), {"net": "timm:resnet18"}, "--method slda, which needs few samples, or --updates 10"),
        ((3, 32, 32), {"net": "timm:resnet18", "method": "slda"}, "another method, such as holdfast"),
        ((3, 32, 32), {"method": "ncm", "usual": {"net": "raw"}}, f"{PRETRAINED}, or another method"),
        ((13,), {"unscaled": True}, "--standardise, which scales the columns alike, or --updates 10"),
        ((13,), {"unscaled": True, "standardise": True}, "--updates 10"),
        ((13,), {"unscaled": True, "method": "ncm"}, "--method slda, which needs few samples, or another method"),
        ((13,), {"updates": 500}, "--updates 2, because 500 gradient steps are few, or --method slda"),
        ((13,), {"updates": 5000}, "--method slda, which needs few samples, or a larger --memory"),
    ],
)
def test_advice_is_for_the_data_and_the_run_at_hand(
    shape: tuple[int, ...], record: dict[str, Any], advice: str
) -> None:
    unscaled = record.pop("unscaled", False)
    usual = {"method": "er", "net": None, "updates": 60, "usual": {"net": "small-cnn"}}
    found = Baselines({}, shape, unscaled, asked=1, of=1).advice({**usual, **record})
    assert found.startswith(f"try {advice}")


def test_methods_below_the_same_baseline_share_a_line() -> None:
    record = {**RunSpec(stream="fashion", method="er", memory=20).as_json(), "title": "er", "updates": 500}
    measured = dict.fromkeys(("acc", "aaa", "forgetting", "train_macs", "memory_bytes", "seconds"), 0.2)
    records = [{**record, **measured, "method": name, "title": name} for name in ("er", "er-ace", "der")]
    floors = {Setting("fashion", 20): Baselines({"class means": 0.5}, (1, 28, 28), False, 1, 1)}
    (said,) = summarised(records, floors).notes
    assert said.startswith("↓ er, er-ace and der are worth less than comparing raw samples with the mean of each class")


def test_unscaled_columns_are_noticed() -> None:
    table = (RNG.normal(size=(20, 3)) * [1, 1, 800]).astype(np.float32)
    labels = [0, 1] * 10
    assert baselines(Source(from_arrays(table, labels, table, labels), OPTIONS), 1).unscaled
    assert not baselines(Source(dataset(), OPTIONS), 1).unscaled
    assert not baselines(
        Source(from_arrays(table.astype(np.uint8), labels, table.astype(np.uint8), labels), OPTIONS), 1
    ).unscaled
