"""The methods of scripts/open_differences.py differ from ours in what they say, and in nothing else."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from holdfast import Batch, Learner, Memory, Method, checks, methods, mlp
from tests.methods.reference import nearest, samples

SCRIPT = Path(__file__).parents[1] / "scripts" / "open_differences.py"


def released(name: str, **options: Any) -> Method:
    return methods.find(f"{SCRIPT}:{name}")(**options)


def taught(method: Method, *, classes: int = 0) -> Learner:
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(4, 12), nn.BatchNorm1d(12), nn.ReLU())
    learner = Learner(encoder, method, memory=30, lr=0.05, classes=classes)
    for step in range(9):
        task = step // 3
        labels = [2 * task, 2 * task + 1] * 5
        learner.observe(3 * samples(10, step).float() + torch.tensor(labels)[:, None], labels, task=task)
    return learner


@pytest.mark.parametrize("name", ["ToldER", "AllOutputsERAML", "LiveMIR", "RawICaRL"])
def test_a_run_is_a_run(name: str) -> None:
    for check in (checks.ALL[0], checks.ALL[1]):
        check(released(name))


def test_er_that_is_told_replays_earlier_tasks_only(monkeypatch: pytest.MonkeyPatch) -> None:
    draw, drawn = Memory.sample, []

    def spied(self: Memory, *arguments: Any, **options: Any) -> Batch | None:
        drawn.append(draw(self, *arguments, **options))
        return drawn[-1]

    monkeypatch.setattr(Memory, "sample", spied)
    taught(released("ToldER"))
    assert drawn[:3] == [None] * 3
    for step, batch in enumerate(drawn[3:], 3):
        assert batch is not None and batch.y.max() < 2 * (step // 3)


def test_er_aml_over_all_outputs_pushes_classes_still_to_come() -> None:
    """Their rows of the head, which ER-AML leaves as they were made."""
    ours, theirs = (taught(each, classes=9).net.head.weight for each in (methods.ERAML(), released("AllOutputsERAML")))
    assert (theirs[6:] - ours[6:]).abs().sum(1).gt(0).all()


def test_mir_with_live_statistics_learns_other_statistics_only_through_them() -> None:
    ours, theirs = taught(methods.MIR()), taught(released("LiveMIR"))
    mean = [learner.net.state_dict()["encoder.module.1.running_mean"] for learner in (ours, theirs)]
    weight = [learner.net.state_dict()["encoder.module.0.weight"] for learner in (ours, theirs)]
    assert torch.equal(*weight) and not torch.allclose(*mean)


def test_icarl_with_raw_features() -> None:
    learner, pending = taught(released("RawICaRL")), 3 * samples(60, 99).float() + 2
    held = learner.memory.at(np.arange(len(learner.memory)))
    expected = [learner.classes[c] for c in nearest(learner.net, held, pending, normalise=False)]
    assert learner.predict(pending) == expected
    assert expected != [learner.classes[c] for c in nearest(learner.net, held, pending)]
    few = Learner(mlp((4,)), released("RawICaRL"), memory=2)
    few.observe(samples(6, 0), list("abcdef"), task=0)
    assert len(set(few.predict(samples(50, 1)))) == 2
