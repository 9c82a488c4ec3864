"""AA, AAA, accuracy and forgetting, from the counts that evaluations record."""

from collections.abc import Sequence

import numpy as np

from holdfast.measure.evaluate import Evaluation

Tasks = Sequence[Sequence[int]]


def task_accuracies(evaluation: Evaluation, tasks: Tasks) -> list[float | None]:
    """Accuracy on each task, None for those not met yet."""
    correct, total = evaluation.correct, evaluation.total
    counts = [(sum(correct[c] for c in task), sum(total[c] for c in task)) for task in tasks]
    return [right / all_ if all_ else None for right, all_ in counts]


def anytime_accuracy(evaluation: Evaluation, tasks: Tasks) -> float:
    """AA_k: the mean over the tasks met so far of the accuracy on each."""
    return float(np.mean([a for a in task_accuracies(evaluation, tasks) if a is not None]))


def earlier_accuracy(evaluation: Evaluation, tasks: Tasks) -> float | None:
    """The mean accuracy on the tasks met before the present one; None during the first."""
    met = [a for a in task_accuracies(evaluation, tasks) if a is not None]
    return float(np.mean(met[:-1])) if len(met) > 1 else None


def averaged_anytime_accuracy(evaluations: Sequence[Evaluation], tasks: Tasks, every: int) -> float:
    """AAA: the mean of AA over the evaluations of the regular grid (the end, if nothing else is on it)."""
    regular = [e for e in evaluations if e.step % every == 0] or evaluations[-1:]
    return float(np.mean([anytime_accuracy(e, tasks) for e in regular]))


def accuracy_at_task_ends(evaluations: Sequence[Evaluation], tasks: Tasks, task_ends: Sequence[int]) -> float | None:
    """AAA where one evaluates at the end of every task only: the mean of AA over these; None if there are none."""
    at_ends = [anytime_accuracy(e, tasks) for e in evaluations if e.step in set(task_ends)]
    return float(np.mean(at_ends)) if at_ends else None


def forgetting(evaluations: Sequence[Evaluation], tasks: Tasks, task_ends: Sequence[int]) -> float | None:
    """The mean over all tasks but the last of (best accuracy at an earlier task end - accuracy at the end).

    None where no task ends before the stream does.
    """
    exact = [task_accuracies(e, tasks) for e in evaluations if e.step in set(task_ends)]
    drops = []
    for task in range(len(tasks) - 1):
        curve = [accuracies[task] for accuracies in exact]
        met = [a for a in curve if a is not None]
        if len(met) > 1:
            drops.append(max(met[:-1]) - met[-1])
    return float(np.mean(drops)) if drops else None
