"""What every method has to guarantee, as checks that anybody can run.

On the command line `holdfast check NAME` or `holdfast check file.py:Class`, in pytest

    from holdfast import checks

    @pytest.mark.parametrize("check", checks.ALL)
    def test_my_method(check):
        check(MyMethod())

A check that fails raises AssertionError with a sentence that says what is wrong.
"""

from holdfast.checks.conformance import (
    Check,
    a_class_comes_back,
    bad_batches_change_nothing,
    callers_arrays_stay_theirs,
    every_step_costs_the_same,
    failures_change_nothing,
    images_and_vectors,
    labels_are_only_names,
    memory_keeps_its_budget,
    non_finite_losses_change_nothing,
    one_class_only,
    one_sample_at_a_time,
    predicting_changes_nothing,
    same_seed_same_future,
    saved_is_same,
)

__all__ = [
    "ALL",
    "Check",
    "a_class_comes_back",
    "bad_batches_change_nothing",
    "callers_arrays_stay_theirs",
    "every_step_costs_the_same",
    "failures_change_nothing",
    "images_and_vectors",
    "labels_are_only_names",
    "memory_keeps_its_budget",
    "non_finite_losses_change_nothing",
    "one_class_only",
    "one_sample_at_a_time",
    "predicting_changes_nothing",
    "same_seed_same_future",
    "saved_is_same",
]

ALL: tuple[Check, ...] = (
    same_seed_same_future,
    predicting_changes_nothing,
    bad_batches_change_nothing,
    failures_change_nothing,
    non_finite_losses_change_nothing,
    labels_are_only_names,
    callers_arrays_stay_theirs,
    saved_is_same,
    memory_keeps_its_budget,
    every_step_costs_the_same,
    one_sample_at_a_time,
    one_class_only,
    a_class_comes_back,
    images_and_vectors,
)
