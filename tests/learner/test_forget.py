"""The right to erasure: what is forgotten is gone from the memory, the head, the labels and every file."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from holdfast import DER, ER, ERACE, SCR, SSIL, ClassBalanced, GDumb, ICaRL, Learner, Method, Reservoir, mlp
from holdfast.batch import Batch
from holdfast.errors import LabelError, NothingLearned, TicketError, WriteError
from holdfast.memory import Memory
from holdfast.memory.class_index import Journal
from tests.reachable import bytes_within

CENTRES = {"cat": [4.0, 0, 0], "dog": [0, 4.0, 0], "eel": [0, 0, 4.0]}


def batch(kind: str, seed: int, n: int = 5) -> NDArray[np.float32]:
    return (np.array(CENTRES[kind]) + np.random.default_rng(seed).normal(size=(n, 3))).astype(np.float32)


def taught(method: Method, **settings: Any) -> Learner:
    learner = Learner(mlp((3,), width=16), method, memory=30, **settings)
    for task, kind in enumerate(CENTRES):
        for seed in range(12):
            learner.observe(batch(kind, seed), [kind] * 5, task=task)
    return learner


@pytest.mark.parametrize(
    "method", [ERACE(), ER(), DER(), ICaRL(), SSIL(distil="incoming+rehearsal"), SCR(), GDumb(rounds=2)]
)
def test_a_forgotten_class_is_held_nowhere_and_never_answered(method: Method, tmp_path: Path) -> None:
    learner = taught(method)
    samples = [sample.numpy().tobytes() for sample in learner.memory.at(learner.memory.members(1)).x]
    learner.predict(batch("cat", 99))  # makes a version, and what it answers from
    assert samples and all(sample in bytes_within(learner) for sample in samples)
    assert learner.forget("dog") == len(samples)
    assert not any(sample in bytes_within(learner) for sample in samples)
    assert learner.classes == ["cat", "eel"] and learner.memory.count(1) == 0
    x = np.concatenate([batch(kind, 99, 50) for kind in CENTRES])
    assert "dog" not in learner.predict(x) and set(learner.predict(x)) <= {"cat", "eel"}
    proba = learner.predict_proba(x)
    assert proba.shape == (150, 2) and np.allclose(proba.sum(1), 1)
    assert not any(sample in bytes_within(learner) for sample in samples)
    learner.save(tmp_path / "file")
    written = (tmp_path / "file").read_bytes()
    assert b"dog" not in written and not any(sample in written for sample in samples)
    loaded = Learner.load(tmp_path / "file")
    for each in (learner, loaded):
        each.observe(batch("cat", 50), ["cat"] * 5, task=3)
        each.observe(batch("dog", 50), ["dog"] * 5, task=3)  # as a class that was never met
    assert loaded.state_hash() == learner.state_hash()
    assert learner.classes == ["cat", "eel", "dog"] and learner.memory.count(1) == 0


@pytest.mark.parametrize("method", [ERACE(), ER()])
def test_its_row_of_the_head_and_optimizer_is_fresh_and_the_others_stay(method: Method) -> None:
    def momentum(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)

    learner = taught(method, optimizer=momentum)
    head = learner.net.head
    before = {name: p.detach().clone() for name, p in head.named_parameters()}
    learner.forget("dog")
    fresh = type(head)(learner.seed)
    fresh.grow(3, 3, head.weight.shape[1], torch.optim.SGD(fresh.parameters()))
    for (name, now), new in zip(head.named_parameters(), fresh.parameters(), strict=True):
        assert torch.equal(now[1], new[1])
        assert torch.equal(now[[0, 2]], before[name][[0, 2]])
        buffer = learner.optimizer.state[now]["momentum_buffer"]
        assert not buffer[1].any() and buffer[[0, 2]].any()


def test_a_frozen_teacher_forgets_too() -> None:
    learner = taught(ICaRL())
    assert learner.task is not None and learner.task.teacher is not None
    teacher = learner.task.teacher
    learner.forget("dog")
    assert learner.task.teacher is not None
    assert not torch.equal(learner.task.teacher.head.weight[1], teacher.head.weight[1])
    assert torch.equal(learner.task.teacher.head.weight[0], teacher.head.weight[0])


def test_samples_are_found_by_their_bytes() -> None:
    learner = taught(ERACE())
    held = learner.memory.at(np.array([3, 7]))
    ticket = learner.ask(held.x[:1])
    size = len(learner.memory)
    assert learner.forget_samples(held.x) == 2
    assert len(learner.memory) == size - 2 and len(learner.memory.find(held.x)) == 0
    assert learner.forget_samples(held.x) == 0
    with pytest.raises(TicketError, match="expired"):
        learner.tell(ticket, ["cat"])


def test_what_was_never_met_is_an_error() -> None:
    learner = taught(ERACE())
    before = learner.state_hash()
    for label in ("wolf", 1, None):
        with pytest.raises(LabelError):
            learner.forget(label)
    assert learner.state_hash() == before
    for kind in CENTRES:
        learner.forget(kind)
    with pytest.raises(NothingLearned):
        learner.predict(batch("cat", 0))
    learner.observe(batch("cat", 0), ["cat"] * 5)
    assert learner.predict(batch("cat", 0)) == ["cat"] * 5


def test_all_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = taught(ICaRL())
    ticket = learner.ask(learner.memory.at(np.array([0])).x)
    before, answers = learner.state_hash(), learner.predict_proba(batch("dog", 3))

    def full(self: Learner, *arguments: object) -> None:
        raise WriteError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "_commit", full)
        with pytest.raises(WriteError):
            learner.forget("dog")
        with pytest.raises(WriteError):
            learner.forget_samples(learner.pending[ticket])
    assert learner.state_hash() == before
    assert np.array_equal(learner.predict_proba(batch("dog", 3)), answers)


@pytest.mark.parametrize("kind", [Reservoir, ClassBalanced])
def test_removing_leaves_a_memory_that_is_whole(kind: type[Memory]) -> None:
    rng = np.random.default_rng(0)
    memory = kind(40)
    offered: dict[float, int] = {}
    for step in range(300):
        y = torch.as_tensor(rng.integers(0, 6, 7))
        x = torch.as_tensor(rng.random((7, 1)))
        offered |= dict(zip(x[:, 0].tolist(), y.tolist(), strict=True))
        memory.add(Batch(x, y), rng)
        if step % 3 == 0:
            gone = rng.choice(len(memory), int(rng.integers(0, len(memory) // 2)), replace=False)
            values = memory.at(gone).x
            journal = Journal()
            before = {name: array.copy() for name, array in memory.state().items()}
            memory.remove(gone, journal)
            if step % 2:
                journal.undo()
                after = memory.state()
                assert all(np.array_equal(after[name], array) for name, array in before.items())
            else:
                assert len(memory.find(values)) == 0
        held = memory.at(np.arange(len(memory)))
        assert [offered[x] for x in held.x[:, 0].tolist()] == held.y.tolist()
        assert Counter(held.y.tolist()) == Counter({c: n for c, n in enumerate(memory.class_counts.tolist()) if n})
        for label in range(6):
            assert (held.y[memory.members(label)] == label).all() and len(memory.members(label)) == memory.count(label)


@pytest.mark.slow
def test_the_room_is_filled_by_what_comes_next_and_then_all_is_as_before() -> None:
    """χ² over many memories: long after, what came after the erasure is held with equal probability."""
    runs, counts = 2000, np.zeros(60)
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        memory = Reservoir(6)
        memory.add(Batch(torch.arange(20.0)[:, None], torch.zeros(20, dtype=torch.int64)), rng)
        memory.remove(np.arange(6), Journal())
        memory.add(Batch(torch.arange(60.0)[:, None], torch.zeros(60, dtype=torch.int64)), rng)
        assert len(memory) == 6
        counts[memory.at(np.arange(6)).x[:, 0].long().numpy()] += 1
    late = counts[6:]
    expected = late.sum() / len(late)
    statistic = ((late - expected) ** 2 / expected).sum()
    assert statistic < 53 + 4 * np.sqrt(2 * 53)


def test_ages() -> None:
    memory = Reservoir(3)
    rng = np.random.default_rng(0)
    for value in range(50):
        memory.add(Batch(torch.tensor([[float(value)]]), torch.tensor([0])), rng)
    assert memory.arrivals.tolist() == memory.at(np.arange(3)).x[:, 0].tolist()
