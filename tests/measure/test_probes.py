"""Probes measure what they say, and change nothing."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from holdfast.datasets.base import Dataset
from holdfast.learner import Learner
from holdfast.losses import unit
from holdfast.measure.probes import PROBES
from holdfast.methods import ER, ERACE, ERAML
from holdfast.nets import mlp
from holdfast.runs.plan import plan
from holdfast.runs.run import Run
from holdfast.runs.spec import RunSpec
from holdfast.streams import Source, Stream

STEP = 12  # in the second task


@pytest.fixture
def learner(stream: Stream) -> Learner:
    learner = Learner(mlp((8,)), ER(), memory=30, lr=0.1)
    for i in range(STEP):
        x, y, task = stream.batch(i)
        learner.observe(x, y, task=task)
    return learner


@pytest.mark.slow
@pytest.mark.parametrize("method", ["er", "er-ace", "er-aml", "icarl", "gdumb", "mir"])
def test_a_run_with_all_probes_is_the_run_without_them(method: str, blobs: Dataset) -> None:
    source = Source(blobs, {"order": "split", "batch": 10, "tasks": 3})
    options = {"rounds": "2"} if method == "gdumb" else {}
    spec = RunSpec(stream="blobs", method=method, options=options, memory=4, lr=0.01, eval_every=5)
    records = []
    for probes in ((), tuple(PROBES)):
        run = Run(plan(replace(spec, probe=probes), source))
        while not run.done:
            run.advance()
        records.append(run.record())
    for key in ("state_hash", "evaluations", "macs", "memory_bytes"):
        assert records[0][key] == records[1][key]
    assert records[0]["probes"] == [] and records[1]["probes"]


def test_drift_is_the_way_features_go_in_one_update(learner: Learner, stream: Stream) -> None:
    held = learner.memory.at(np.arange(len(learner.memory)))
    with torch.no_grad():
        before = unit(learner.net.features(held.x))
    measured = PROBES["drift"].before(learner, stream)
    assert learner.step == STEP
    x, y, task = stream.batch(STEP)
    learner.observe(x, y, task=task)
    with torch.no_grad():
        moved = (unit(learner.net.features(held.x)) - before).norm(dim=1)
    assert set(measured) == {str(int(c)) for c in torch.unique(held.y)}
    for label, value in measured.items():
        assert value == pytest.approx(float(moved[held.y == int(label)].mean()), rel=1e-5)


@pytest.mark.parametrize("method", [ER(), ERACE(head="linear"), ERAML(head="linear")])
def test_gradients_are_those_of_the_next_step(method: ER, learner: Learner, stream: Stream) -> None:
    """Against autograd on the loss as a function of the features, written out for ER."""
    learner.method = method
    measured = PROBES["gradient"].before(learner, stream)
    assert measured and all(value >= 0 for value in measured.values())
    if type(method) is not ER:
        return
    x, y, _ = stream.batch(STEP)
    new_y = torch.tensor([learner.classes.index(label) for label in y])
    old = learner.memory.sample(10, learner.training.rng("recall", learner.step))
    assert old is not None
    norms, labels = [], []
    for samples, targets in ((torch.from_numpy(x), new_y), (old.x, old.y)):
        features = learner.net.train().features(samples).detach().double().requires_grad_()
        head = learner.net.head
        logits = features @ head.weight.detach().double()[: head.seen].T + head.bias.detach().double()[: head.seen]  # type: ignore[operator]
        (-logits.log_softmax(1)[range(len(targets)), targets].mean()).backward()
        assert features.grad is not None
        norms.append(features.grad.norm(dim=1))
        labels.append(targets)
    norm, label = torch.cat(norms), torch.cat(labels)
    assert measured == {
        str(int(c)): pytest.approx(float(norm[label == c].mean()), rel=1e-4) for c in torch.unique(label)
    }


@pytest.mark.parametrize("method", [ER(), ERACE(head="linear"), ERAML(head="linear")])
def test_gradients_of_prototypes_are_what_moves_them(method: ER, learner: Learner, stream: Stream) -> None:
    """The step is lr times the gradient: SGD has no momentum here."""
    learner.method = method
    measured = PROBES["prototype-gradient"].before(learner, stream)
    before = learner.net.head.weight.detach().clone()
    x, y, task = stream.batch(STEP)
    learner.observe(x, y, task=task)
    moved = (learner.net.head.weight.detach()[: len(before)] - before).norm(dim=1) / 0.1
    assert set(measured) == {str(c) for c in range(len(learner.classes))}
    assert [measured[str(c)] for c in range(len(before))] == pytest.approx(moved.tolist(), rel=1e-3, abs=1e-5)


def test_alignment_is_the_best_cosine_to_a_test_sample_of_the_class(learner: Learner, stream: Stream) -> None:
    assert PROBES["alignment"].after(learner, stream, due=True) is None, "only at the end of a task"
    while learner.step not in stream.task_ends:
        x, y, task = stream.batch(learner.step)
        learner.observe(x, y, task=task)
    measured = PROBES["alignment"].after(learner, stream, due=True)
    held = learner.memory.at(np.arange(len(learner.memory)))
    best: dict[str, list[float]] = {}
    with torch.no_grad():
        for sample, index in zip(held.x, held.y.tolist(), strict=True):
            mine = learner.net.features(sample[None])[0].double()
            test = torch.from_numpy(stream.dataset.test_x[stream.dataset.test_y == learner.classes[index]])
            others = learner.net.features(test).double()
            cosines = (others @ mine) / (others.norm(dim=1) * mine.norm())
            best.setdefault(str(index), []).append(float(cosines.max()))
    assert measured == {label: pytest.approx(np.mean(values), abs=1e-5) for label, values in best.items()}


def test_projections_are_taken_in_the_second_task(blobs: Dataset) -> None:
    source = Source(blobs, {"order": "split", "batch": 10, "tasks": 3})
    run = Run(plan(RunSpec(stream="blobs", method="er", probe=("projection",)), source))
    while not run.done:
        run.advance()
    seen = [probe["value"] for probe in run.record()["probes"]]
    assert [value["iteration"] for value in seen] == [1, 8]
    assert set(seen[-1]["prototypes"]) == {"0", "1", "2", "3"}
    assert np.linalg.norm(seen[-1]["features"], axis=1) == pytest.approx(1, abs=1e-2)


def test_current_task_accuracy(learner: Learner, stream: Stream) -> None:
    measured = PROBES["current-task"].after(learner, stream, due=True)
    mine = np.isin(stream.dataset.test_y, (2, 3))
    answers = np.array(learner.predict(stream.dataset.test_x[mine]))
    assert measured == pytest.approx((answers == stream.dataset.test_y[mine]).mean())


def test_methods_start_from_one_common_model(blobs: Dataset, tmp_path: Path) -> None:
    source = Source(blobs, {"order": "split", "batch": 10, "tasks": 3})
    hashes = []
    for method in ("er", "er-ace", "er-aml"):
        spec = RunSpec(stream="blobs", method=method, options={"head": "cosine"}, start="er:head=cosine", memory=5)
        run = Run(plan(spec, source))
        while run.learner.step < 8:
            run.advance()
        hashes.append(run.learner.state_hash())
        run.advance()
        hashes.append(run.learner.state_hash())
    assert len(set(hashes[::2])) == 1 and len(set(hashes[1::2])) == 3


def test_balanced_rehearsal_replays_as_many_of_each_class(blobs: Dataset) -> None:
    source = Source(blobs, {"order": "split", "batch": 10, "tasks": 3, "rehearsal": "balanced"})
    run = Run(plan(RunSpec(stream="blobs", method="er", memory=10), source))
    replayed = []
    while not run.done:
        run.advance()
        method = run.learner.method
        replayed.append(method.replay)
    assert replayed == [0] * 8 + [10] * 8 + [20] * 8
