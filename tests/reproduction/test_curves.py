"""What figures show of a record, on records made by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.reproduction import curves
from holdfast.reproduction.figures import FIGURES, displacement
from holdfast.reproduction.setting import VALIDATION
from holdfast.streams import source


def record(**fields: Any) -> dict[str, Any]:
    """Two tasks of two classes and three updates each; a class has ten test samples."""
    right = [[8, 6, 0, 0], [9, 7, 0, 0], [10, 8, 0, 0], [4, 2, 5, 5], [3, 1, 6, 6], [2, 0, 8, 9]]
    met = [[10, 10, 0, 0]] * 3 + [[10, 10, 10, 10]] * 3
    evaluations = [
        {"step": step, "seen": 10 * step, "correct": correct, "total": total, "aa": 0.1 * step, "macs": step * 10**12}
        for step, (correct, total) in enumerate(zip(right, met, strict=True), 1)
    ]
    return {"tasks": [[0, 1], [2, 3]], "task_ends": [3, 6], "updates": 6, "evaluations": evaluations, **fields}


def noted(name: str, values: dict[int, Any]) -> list[dict[str, Any]]:
    other = {"name": "another", "step": 2, "value": None}
    return [other, *({"name": name, "step": step, "value": value} for step, value in values.items())]


LOOKS = {2: {"0": 1.0, "1": 3.0}, 4: {"0": 5.0, "1": 7.0, "2": 100.0}, 5: {"2": 100.0}, 6: {"1": 9.0}, 7: {"0": 11.0}}


def test_accuracy_along_the_stream() -> None:
    steps, accuracy = curves.anytime(record())
    assert steps == [1, 2, 3, 4, 5, 6]
    assert accuracy == pytest.approx([10, 20, 30, 40, 50, 60])


def test_accuracy_on_all_classes_counts_those_still_to_come_as_wrong() -> None:
    spent, accuracy = curves.by_compute(record())
    assert spent == [1, 2, 3, 4, 5, 6]
    assert accuracy == pytest.approx([35, 40, 45, 40, 40, 47.5])


def test_compute_of_records_that_have_only_the_sum_grows_with_the_updates() -> None:
    old = record(train_macs=12 * 10**12)
    for evaluation in old["evaluations"]:
        del evaluation["macs"]
    assert curves.by_compute(old)[0] == [2, 4, 6, 8, 10, 12]


def test_the_first_task_around_the_switch() -> None:
    since, accuracy = curves.first_task_accuracy(record())
    assert since == [-2, -1, 0, 1, 2, 3]
    assert accuracy == pytest.approx([70, 80, 90, 30, 20, 10])


def test_the_present_task() -> None:
    made = record(probes=noted("current-task", {3: 0.5, 6: 0.75}))
    assert curves.present_task_accuracy(made) == ([3, 6], [50, 75])


def test_drift_is_the_mean_over_classes() -> None:
    steps, moved = curves.drift(record(probes=noted("drift", LOOKS)))
    assert steps == [2, 4, 5, 6, 7]
    assert moved == pytest.approx([2, 112 / 3, 100, 9, 11])


@pytest.mark.parametrize(("before", "expected"), [(False, ([1, 3], [6, 9])), (True, ([-1, 1, 3], [2, 6, 9]))])
def test_the_first_tasks_classes_since_the_second_began(before: bool, expected: curves.Curve) -> None:
    made = record(probes=noted("gradient", LOOKS))
    assert curves.of_first_task(made, "gradient", before=before) == expected


def test_alignment_is_that_of_the_last_task_end() -> None:
    made = record(probes=noted("alignment", {3: {"0": 0.1, "1": 0.1}, 6: {"0": 0.5, "1": 0.7, "2": 0.9, "3": 0.7}}))
    assert curves.alignment_by_task(made) == pytest.approx([0.6, 0.8])


def test_all_looks_of_a_run_share_the_plane_that_shows_most() -> None:
    rng = np.random.default_rng(0)
    spread = np.diag([9.0, 5.0, 0.1, 0.01])
    looks = {
        step: {
            "features": (rng.normal(size=(50, 4)) @ spread).tolist(),
            "prototypes": {"0": [0.0] * 4},
            "label": [0] * 50,
        }
        for step in (4, 6)
    }
    found, plane = curves.projections(record(probes=noted("projection", looks)))
    assert found == list(looks.values())
    np.testing.assert_allclose(np.abs(plane), np.eye(4)[:2], atol=0.1)


def test_arrows_are_those_of_the_first_tasks_prototypes() -> None:
    drawn: list[tuple[list[float], list[float]]] = []

    class Axes:
        def annotate(self, text: str, head: Any, tail: Any, arrowprops: Any) -> None:
            drawn.append((list(tail), list(head)))

    before, after = (
        {"prototypes": {str(c): [float(c), at, 9.0] for c in (0, 1, 2, 3)}, "label": [0], "features": [[5.0, 5.0, 5.0]]}
        for at in (0.0, 1.0)
    )
    displacement(Axes(), before, after, np.eye(3)[:2])
    assert drawn == [([0, 0], [0, 1]), ([1, 0], [1, 1])]


def test_alignment_is_with_samples_that_were_withheld_from_training() -> None:
    for setting in FIGURES["F5"].settings():
        (spec,) = setting.specs(1, quick=True)
        held_out = source(spec.stream, Path()).dataset
        whole = source(spec.stream.replace(f",{VALIDATION}", ""), Path()).dataset
        assert len(held_out.train_x) + len(held_out.test_x) == len(whole.train_x)
        assert spec.probe == ("alignment",)
