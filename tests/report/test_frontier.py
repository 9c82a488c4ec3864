"""Accuracy against what it costs."""

from pathlib import Path

import pytest

from holdfast.commands.main import main
from holdfast.report.frontier import front, picture, points
from holdfast.runs.spec import SETTING
from holdfast.runs.store import Record, Store
from tests.test_report import record


def costing(title: str, seed: int, acc: float, megabytes: float, macs: float, **more: object) -> Record:
    return {**record(title, seed, acc), "memory_bytes": 1e6 * megabytes, "train_macs": macs, "lr": 0.1, **more}


RECORDS = [
    *(costing("er", seed, 0.3 + seed / 100, 5, 16e12) for seed in range(3)),
    costing("er-ace", 0, 0.41, 5, 16e12),
    costing("er-ace", 0, 0.55, 5, 16e12, codec="webp:75"),
    costing("gdumb", 0, 0.33, 5, 8e12),
    costing("icarl", 0, 0.43, 8, 22e12),
    costing("iid", 0, 0.64, 4, 8e12),
]


def test_seeds_are_averaged_and_settings_are_points_of_their_own() -> None:
    found = {point.variant: point for point in points(RECORDS)}
    assert set(found) == {"er", "er-ace", "er-ace, codec webp:75", "gdumb", "icarl", "iid"}
    assert found["er"].accuracy == pytest.approx(31.0)
    assert found["er"].error == pytest.approx(1 / 3**0.5)


@pytest.mark.parametrize("name", sorted({*SETTING} - {"stream", "eval_every", "eval_mode"}))
def test_runs_that_differ_in_what_they_learn_are_points_of_their_own(name: str) -> None:
    other = {"memory": 7, "lr": 0.03}.get(name, "something else")
    assert len(points([costing("er", 0, 0.3, 5, 16e12), costing("er", 0, 0.4, 5, 16e12, **{name: other})])) == 2


def test_the_front_has_what_nothing_beats_and_no_shuffled_stream() -> None:
    found = points(RECORDS)
    assert [point.variant for point in front(found, "megabytes")] == ["er-ace, codec webp:75"]
    assert [point.variant for point in front(found, "macs")] == ["gdumb", "er-ace, codec webp:75"]


def test_a_run_that_was_repeated_counts_once() -> None:
    again = costing("er", 2, 0.50, 5, 16e12)
    assert points([*RECORDS[:3], again])[0].accuracies == pytest.approx([30.0, 31.0, 50.0])


@pytest.mark.slow
def test_a_picture_is_drawn(tmp_path: Path) -> None:
    picture(points(RECORDS), "cifar10", tmp_path / "front.png")
    assert (tmp_path / "front.png").stat().st_size > 10_000


def test_the_command_says_what_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["frontier", str(tmp_path)]) == 2
    assert "there are no runs" in capsys.readouterr().err
    Store(tmp_path / "runs.sqlite").open()
    assert main(["frontier", str(tmp_path)]) == 2
    assert "no finished run" in capsys.readouterr().err
