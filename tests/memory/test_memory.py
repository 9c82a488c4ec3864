import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from holdfast.batch import Batch
from holdfast.errors import InputError
from holdfast.memory import Reservoir
from holdfast.memory.class_index import ClassIndex, Journal
from tests.memory.numbered import batch, digest, everything, inclusion_p

capacities = st.integers(0, 12)
label_batches = st.lists(st.lists(st.integers(0, 5), max_size=15), max_size=12)


def filled(capacity: int, batches: list[list[int]], seed: int = 0) -> Reservoir:
    memory, rng = Reservoir(capacity), np.random.default_rng(seed)
    for y in batches:
        memory.add(batch(y, memory.offered), rng)
    return memory


@given(capacities, label_batches, st.integers(0, 1000))
def test_a_batch_is_the_same_as_its_samples_one_by_one(capacity: int, batches: list[list[int]], seed: int) -> None:
    memory = filled(capacity, [[], [0], *batches], seed)
    rng, held, arrival = np.random.default_rng(seed), dict[int, tuple[int, int]](), 0
    for y in [[], [0], *batches]:
        for draw, label in zip(rng.integers(0, np.arange(arrival, arrival + len(y)) + 1), y, strict=True):
            slot = arrival if arrival < capacity else int(draw)
            if slot < capacity:
                held[slot] = (arrival, label)
            arrival += 1
    kept = everything(memory)
    assert list(zip(kept.x[:, 0].tolist(), kept.y.tolist(), strict=True)) == [held[s] for s in range(len(held))]
    assert memory.offered == arrival


@pytest.mark.slow
@pytest.mark.parametrize(("runs", "sizes"), [(10_000, (7, 4, 12)), (4000, (23,)), (2000, (3, 3, 3, 14))], ids=str)
def test_every_sample_so_far_is_held_with_equal_probability(runs: int, sizes: tuple[int, ...]) -> None:
    """5 of 23: batches larger than the memory, sizes that do not divide it, and one batch for all."""
    capacity, n = 5, sum(sizes)
    starts = np.cumsum((0, *sizes))
    batches = [batch([0] * size, int(start)) for size, start in zip(sizes, starts, strict=False)]
    rng, together = np.random.default_rng(20), np.zeros((n, n))
    for _ in range(runs):
        memory = Reservoir(capacity)
        for part in batches:
            memory.add(part, rng)
        held = everything(memory).x[:, 0].numpy()
        together[held[:, None], held] += 1
    assert inclusion_p(together.diagonal(), runs, capacity) > 1e-3

    share = capacity * (capacity - 1) / (n * (n - 1))
    pairs = together[np.triu_indices(n, 1)]
    assert np.abs(pairs - runs * share).max() < 5 * np.sqrt(runs * share * (1 - share))


def test_every_held_sample_is_drawn_with_equal_probability() -> None:
    memory, rng, counts = filled(9, [[0] * 30]), np.random.default_rng(0), np.zeros(9)
    numbers = everything(memory).x[:, 0].tolist()
    for _ in range(3000):
        drawn = memory.sample(4, rng)
        assert drawn is not None
        for number in drawn.x[:, 0].tolist():
            counts[numbers.index(number)] += 1
    assert inclusion_p(counts, 3000, 4) > 1e-3


@given(capacities, label_batches, st.integers(0, 20))
def test_a_sample_is_drawn_without_replacement(capacity: int, batches: list[list[int]], n: int) -> None:
    memory = filled(capacity, batches)
    drawn = memory.sample(n, np.random.default_rng(1))
    if n == 0 or len(memory) == 0:
        assert drawn is None
    else:
        held = everything(memory)
        assert drawn is not None and len(drawn) == min(n, len(memory)) == len(set(drawn.x[:, 0].tolist()))
        pairs = dict(zip(held.x[:, 0].tolist(), held.y.tolist(), strict=True))
        assert all(pairs[number] == y for number, y in zip(drawn.x[:, 0].tolist(), drawn.y.tolist(), strict=True))


@given(capacities, label_batches, st.integers(0, 100))
def test_the_class_index_follows_the_labels_held(capacity: int, batches: list[list[int]], seed: int) -> None:
    memory, rng = Reservoir(capacity), np.random.default_rng(seed)
    for y in batches:
        memory.add(batch(y, memory.offered), rng)
        held = everything(memory).y.numpy()
        assert len(held) == len(memory) == min(memory.offered, capacity)
        for label in range(8):
            assert sorted(memory.members(label).tolist()) == np.flatnonzero(held == label).tolist()
        assert memory.class_counts.tolist() == np.bincount(held, minlength=len(memory.class_counts)).tolist()


@given(st.integers(0, 3000), st.sampled_from([(1,), (3, 4, 4), (2, 0)]), st.sampled_from([0, 7]))
def test_a_byte_budget_counts_samples_labels_extras_and_index(nbytes: int, shape: tuple[int, ...], extra: int) -> None:
    memory, rng = Reservoir(nbytes=nbytes), np.random.default_rng(0)
    extras = {"logits": torch.zeros(5, extra)} if extra else {}
    for _ in range(30):
        memory.add(Batch(torch.zeros(5, *shape, dtype=torch.uint8), torch.arange(5), extras), rng)
        assert memory.nbytes <= nbytes
    row = int(np.prod(shape)) + 8 + 8 + 4 * extra + ClassIndex.BYTES_PER_SLOT
    assert memory.capacity == nbytes // row
    assert memory.nbytes == row * len(memory) == row * min(memory.capacity, 150)


def held_bytes(nbytes: int, batches: list[list[int]]) -> int:
    """What a memory with that budget really holds on to after the batches."""
    gc.collect()
    tracemalloc.start()
    memory, rng = Reservoir(nbytes=nbytes), np.random.default_rng(0)
    for y in batches:
        memory.add(Batch(torch.zeros(len(y), 1, dtype=torch.uint8), torch.tensor(y)), rng)
    gc.collect()
    current, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return current


@pytest.mark.slow
def test_a_byte_budget_bounds_the_bytes_really_held() -> None:
    assert held_bytes(1_000_000, [[0, 1] * 1000] * 60) < 1_100_000


@pytest.mark.slow
def test_a_byte_budget_holds_when_classes_come_one_after_another() -> None:
    assert held_bytes(1_000_000, [[label] * 5000 for label in range(50) for _ in range(6)]) < 1_100_000


@pytest.mark.parametrize("empty", [Reservoir(0), Reservoir(nbytes=0), Reservoir(nbytes=20)], ids=["0", "0 B", "20 B"])
def test_a_memory_without_room_counts_and_keeps_nothing(empty: Reservoir) -> None:
    empty.add(batch([0, 1, 2]), np.random.default_rng(0))
    assert (len(empty), empty.offered, empty.nbytes) == (0, 3, 0)
    assert empty.sample(10, np.random.default_rng(0)) is None
    assert not empty.members(1).size


def test_nothing_is_drawn_before_anything_was_added() -> None:
    assert Reservoir(5).sample(3, np.random.default_rng(0)) is None
    assert len(Reservoir(5)) == Reservoir(5).nbytes == 0


@pytest.mark.parametrize("sizes", [{}, {"capacity": 1, "nbytes": 1}, {"capacity": -1}, {"nbytes": -1}])
def test_sizes_that_make_no_sense_are_refused(sizes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"^memory: "):
        Reservoir(**sizes)


def test_a_size_no_machine_has_is_refused() -> None:
    with pytest.raises(InputError, match=r"samples need .* GiB"):
        Reservoir(10**15).add(
            Batch(torch.zeros(1, 3, 32, 32), torch.zeros(1, dtype=torch.int64)), np.random.default_rng()
        )


def test_what_is_held_is_nobody_elses() -> None:
    memory, given_ = Reservoir(10), Batch(torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64), {"z": torch.zeros(2)})
    memory.add(given_, np.random.default_rng(0))
    before = digest(memory)
    drawn = memory.sample(2, np.random.default_rng(0))
    assert drawn is not None
    for tensor in (given_.x, given_.y, given_.extra["z"], drawn.x, drawn.y, drawn.extra["z"]):
        tensor.add_(1)
    assert digest(memory) == before


def test_types_stay_and_extras_stay_beside_their_samples() -> None:
    memory = Reservoir(7)
    for first in range(0, 40, 8):
        x = torch.arange(first, first + 8, dtype=torch.uint8)[:, None]
        extra = {"logits": x.float() * 2, "when": x[:, 0].to(torch.int16) + 1}
        memory.add(Batch(x, x[:, 0].long() + 3, extra), np.random.default_rng(first))
    drawn = memory.sample(5, np.random.default_rng(0))
    assert drawn is not None
    assert (drawn.x.dtype, drawn.y.dtype) == (torch.uint8, torch.int64)
    assert (drawn.extra["logits"].dtype, drawn.extra["when"].dtype) == (torch.float32, torch.int16)
    assert (drawn.y == drawn.x[:, 0] + 3).all()
    assert (drawn.extra["logits"] == drawn.x * 2).all()
    assert (drawn.extra["when"] == drawn.x[:, 0] + 1).all()


@given(capacities, label_batches, st.lists(st.integers(0, 9), max_size=15), st.integers(0, 100))
def test_undo_brings_every_bit_back(capacity: int, batches: list[list[int]], more: list[int], seed: int) -> None:
    memory, twin = (filled(capacity, [[0], *batches], seed) for _ in range(2))
    before, journal = digest(memory), Journal()
    memory.add(batch(more, memory.offered), np.random.default_rng(seed), journal)
    journal.undo()
    assert digest(memory) == before
    for again in (memory, twin):
        again.add(batch([3, 1, 4, 1, 5], 1000), np.random.default_rng(seed + 1))
    assert digest(memory) == digest(twin)


@pytest.mark.parametrize("stage", ["remove", "add"])
@pytest.mark.parametrize("before_failing", [False, True])
@pytest.mark.parametrize("capacity", [6, 40])
def test_undo_after_a_failure_in_the_middle(
    stage: str, before_failing: bool, capacity: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = filled(capacity, [[0, 1, 2, 0, 1, 2, 0], [2, 2, 1, 0]])
    original: Callable[..., None] = getattr(ClassIndex, stage)

    def failing(*args: object) -> None:
        if before_failing:
            original(*args)
        raise OSError("injected")

    state, journal = digest(memory), Journal()
    monkeypatch.setattr(ClassIndex, stage, failing)
    with pytest.raises(OSError, match="injected"):
        memory.add(batch([1, 7, 0, 2, 7, 1, 1, 0] * 3, 100), np.random.default_rng(0), journal)
    journal.undo()
    assert digest(memory) == state


def test_clearing_forgets_everything() -> None:
    memory = filled(5, [[0, 1, 2, 3]])
    memory.clear()
    assert digest(memory) == digest(Reservoir(5))
    memory.add(Batch(torch.zeros(2, 9), torch.tensor([1, 1])), np.random.default_rng(0))  # any shape, as at first
    assert len(memory) == 2 and memory.class_counts.tolist() == [0, 2]


def test_the_hash_sees_samples_labels_and_counts() -> None:
    states = [filled(5, [[0, 1]]), filled(5, [[0, 2]]), filled(6, [[0, 1]]), filled(5, [[0, 1, 1]]), Reservoir(5)]
    other = Reservoir(5)
    other.add(batch([0, 1], 7), np.random.default_rng(0))
    assert len({digest(memory) for memory in [*states, other]}) == 6


def test_the_cost_of_a_step_does_not_depend_on_the_capacity() -> None:
    million, rng = 1_000_000, np.random.default_rng(0)
    memory = Reservoir(million)
    memory.add(Batch(torch.zeros(million, 1, dtype=torch.uint8), torch.arange(million) % 10), rng)
    small = Batch(torch.ones(10, 1, dtype=torch.uint8), torch.arange(10))
    for _ in range(30):  # the member lists double once
        memory.add(small, rng)
    tracemalloc.start()
    for _ in range(30):
        memory.add(small, rng, Journal())
        memory.sample(10, rng)
        memory.members(3)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000
