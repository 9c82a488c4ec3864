import pytest

from holdfast.measure.evaluate import Evaluation
from holdfast.measure.metrics import (
    accuracy_at_task_ends,
    anytime_accuracy,
    averaged_anytime_accuracy,
    forgetting,
    task_accuracies,
)

TASKS = ((0, 1), (2,), (3, 4))


def evaluation(step: int, *counts: tuple[int, int]) -> Evaluation:
    """(right, tried) of each class; the classes left out were not tried."""
    padded = [*counts, *[(0, 0)] * (5 - len(counts))]
    return Evaluation(step, step * 10, tuple(c for c, _ in padded), tuple(t for _, t in padded))


def test_a_task_is_judged_by_its_samples_not_by_its_classes() -> None:
    unequal = evaluation(1, (10, 10), (0, 30), (3, 4))
    assert task_accuracies(unequal, TASKS) == [0.25, 0.75, None]


def test_a_task_met_but_never_right_counts_as_zero() -> None:
    assert task_accuracies(evaluation(1, (0, 5), (0, 5)), TASKS) == [0.0, None, None]
    assert anytime_accuracy(evaluation(1, (5, 5), (5, 5), (0, 5)), TASKS) == 0.5


def test_anytime_accuracy_is_the_mean_over_the_tasks_met() -> None:
    """Every task weighs the same, whatever its size; the third has not come yet."""
    assert anytime_accuracy(evaluation(1, (90, 100), (70, 100), (1, 10)), TASKS) == pytest.approx((0.8 + 0.1) / 2)


RUN = [
    evaluation(10, (8, 10), (8, 10)),  # AA .8
    evaluation(15, (9, 10), (9, 10)),  # end of task 1: .9
    evaluation(20, (5, 10), (5, 10), (4, 4)),  # AA (.5 + 1) / 2
    evaluation(22, (6, 10), (6, 10), (3, 4)),  # end of task 2: .6, .75
    evaluation(30, (0, 10), (4, 10), (1, 4), (5, 5), (0, 5)),  # AA (.2 + .25 + .5) / 3
    evaluation(37, (3, 10), (4, 10), (2, 4), (5, 5), (4, 5)),  # end: .35, .5, .9
]


def test_averaged_anytime_accuracy_is_the_mean_over_the_regular_evaluations() -> None:
    expected = (0.8 + 0.75 + (0.2 + 0.25 + 0.5) / 3) / 3
    assert averaged_anytime_accuracy(RUN, TASKS, every=10) == pytest.approx(expected)


def test_task_ends_on_the_grid_count() -> None:
    assert averaged_anytime_accuracy(RUN[:2], TASKS, every=5) == pytest.approx((0.8 + 0.9) / 2)


def test_a_run_shorter_than_the_grid_is_judged_by_its_end() -> None:
    assert averaged_anytime_accuracy(RUN, TASKS, every=1000) == pytest.approx((0.35 + 0.5 + 0.9) / 3)


def test_forgetting_is_from_the_best_earlier_task_end_to_the_last() -> None:
    """Task 1: .9 → .35; task 2: .75 → .5; the evaluations between (task 2 was at 1.0) do not count."""
    assert forgetting(RUN, TASKS, [15, 22, 37]) == pytest.approx((0.55 + 0.25) / 2)


def test_forgetting_starts_from_the_best_not_from_the_first() -> None:
    run = [evaluation(1, (5, 10)), evaluation(2, (9, 10), (1, 1)), evaluation(3, (6, 10), (1, 1), (1, 1))]
    assert forgetting(run, ((0,), (1,), (2,)), [1, 2, 3]) == pytest.approx((0.3 + 0.0) / 2)


def test_what_gets_better_is_negative_forgetting() -> None:
    run = [evaluation(1, (5, 10)), evaluation(2, (9, 10), (1, 1))]
    assert forgetting(run, ((0,), (1,)), [1, 2]) == pytest.approx(-0.4)


def test_a_single_task_cannot_be_forgotten() -> None:
    assert forgetting([evaluation(1, (5, 10))], ((0,),), [1]) is None


def test_evaluating_at_task_ends_only_is_another_average_of_the_same_run() -> None:
    ends = [0.9, (0.6 + 0.75) / 2, (0.35 + 0.5 + 0.9) / 3]
    assert accuracy_at_task_ends(RUN, TASKS, [15, 22, 37]) == pytest.approx(sum(ends) / 3)
    assert accuracy_at_task_ends(RUN[:1], TASKS, [15, 22, 37]) is None
