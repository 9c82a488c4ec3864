"""Vectors that get longer as classes appear, draws of earlier classes only, and states that come back."""

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from holdfast.batch import Batch
from holdfast.memory import ClassBalanced, Memory, Reservoir
from holdfast.memory.class_index import ClassIndex, Journal
from tests.memory.numbered import digest, everything, inclusion_p

both_kinds = pytest.mark.parametrize("kind", [Reservoir, ClassBalanced])
sizes = st.one_of(st.integers(0, 12).map(lambda n: {"capacity": n}), st.integers(0, 900).map(lambda n: {"nbytes": n}))
widening = st.lists(st.tuples(st.lists(st.integers(0, 5), max_size=9), st.integers(1, 12)), max_size=10)
ROW = 4 + 8 + 8 + ClassIndex.BYTES_PER_SLOT  # number, label, arrival and index of a sample


def vector(number: int, width: int) -> list[float]:
    return [float(number + 1)] * width


def batch(y: list[int], first: int, width: int) -> Batch:
    """Samples numbered from `first`, each with a vector that tells which one it is."""
    numbers = range(first, first + len(y))
    x = torch.tensor(list(numbers), dtype=torch.int32)[:, None]
    vectors = torch.tensor([vector(n, width) for n in numbers]).reshape(len(y), width)
    return Batch(x, torch.tensor(y, dtype=torch.int64), {"logits": vectors})


def grow(memory: Memory, batches: list[tuple[list[int], int]], seed: int) -> dict[int, int]:
    """Adds batches of ever longer vectors. Returns how long each sample's vector was."""
    rng, widths, width = np.random.default_rng(seed), dict[int, int](), 1
    for y, at_least in batches:
        width = max(width, at_least)
        widths |= dict.fromkeys(range(memory.offered, memory.offered + len(y)), width)
        memory.add(batch(y, memory.offered, width), rng)
    return widths


@both_kinds
@given(sizes, widening, st.integers(0, 100))
@settings(max_examples=50)
def test_what_was_not_there_is_zero(
    kind: type[Memory], size: dict[str, Any], batches: list[tuple[list[int], int]], seed: int
) -> None:
    memory = kind(**size)
    widths = grow(memory, [([0], 1), *batches], seed)
    held = everything(memory)
    for number, row in zip(held.x[:, 0].tolist(), held.extra["logits"].tolist(), strict=True):
        assert row == vector(number, widths[number]) + [0.0] * (len(row) - widths[number])
    assert held.extra["logits"].dtype == torch.float32
    for label in range(6):
        assert sorted(memory.members(label).tolist()) == np.flatnonzero(held.y.numpy() == label).tolist()


def test_vectors_shorter_than_those_before_are_filled_up_too() -> None:
    memory = Reservoir(10)
    memory.add(batch([0], 0, 5), np.random.default_rng(0))
    memory.add(batch([0], 1, 3), np.random.default_rng(0))
    assert everything(memory).extra["logits"].tolist() == [[1.0] * 5, [2.0] * 3 + [0.0] * 2]


def test_room_for_longer_vectors_doubles() -> None:
    memory, rng, widths = Reservoir(10), np.random.default_rng(0), []
    for width in range(1, 101):
        memory.add(batch([0], width, width), rng)
        widths.append(everything(memory).extra["logits"].shape[1])
        assert width <= widths[-1] < 2 * width
    assert sorted(set(widths)) == [1, 2, 4, 8, 16, 32, 64, 128]


def test_a_leap_is_given_the_room_it_needs() -> None:
    memory = Reservoir(10)
    memory.add(batch([0], 0, 3), np.random.default_rng(0))
    memory.add(batch([0], 1, 10), np.random.default_rng(0))
    assert everything(memory).extra["logits"].shape == (2, 10)


def test_a_capacity_in_samples_stays_when_vectors_get_longer() -> None:
    memory = Reservoir(7)
    grow(memory, [([0] * 10, 1), ([1] * 3, 30)], 0)
    assert len(memory) == memory.capacity == 7
    assert memory.nbytes == 7 * (ROW + 4 * 30)


@both_kinds
@given(st.integers(0, 900), widening, st.integers(0, 100))
@settings(max_examples=50)
def test_a_byte_budget_holds_when_vectors_get_longer(
    kind: type[Memory], nbytes: int, batches: list[tuple[list[int], int]], seed: int
) -> None:
    memory, rng, width = kind(nbytes=nbytes), np.random.default_rng(seed), 1
    for y, at_least in [([0], 1), *batches]:
        width = max(width, at_least)
        before = set(everything(memory).x[:, 0].tolist()) if memory.offered else set()
        first = memory.offered
        memory.add(batch(y, first, width), rng)
        room = memory.state()["column/logits"].shape[1]
        assert memory.nbytes == len(memory) * (ROW + 4 * room) <= nbytes
        assert memory.capacity == nbytes // (ROW + 4 * room)
        now = everything(memory).x[:, 0].tolist()
        assert len(set(now)) == len(now) and set(now) <= before | set(range(first, first + len(y)))


@pytest.mark.slow
def test_a_sample_is_kept_with_equal_probability_after_room_was_made() -> None:
    """Eight samples of 12 fit while vectors have 2 numbers, five of all when they have 8; then more come."""
    runs, kept, later = 1500, Counter[int](), Counter[int]()
    pairs: Counter[tuple[int, ...]] = Counter()
    rng = np.random.default_rng(0)
    for _ in range(runs):
        memory = Reservoir(nbytes=8 * (ROW + 8))
        memory.add(batch([0] * 12, 0, 2), rng)
        assert len(memory) == 8
        memory.add(batch([], 12, 8), rng)
        now = sorted(everything(memory).x[:, 0].tolist())
        assert len(now) == memory.capacity == 5
        kept.update(now)
        pairs.update(combinations(now, 2))
        memory.add(batch([1] * 10, 12, 8), rng)
        later.update(everything(memory).x[:, 0].tolist())
    assert inclusion_p([kept[i] for i in range(12)], runs, 5) > 1e-3
    assert inclusion_p([later[i] for i in range(22)], runs, 5) > 1e-3
    share = 5 * 4 / (12 * 11)
    spread = 5 * np.sqrt(runs * share * (1 - share))
    assert all(abs(pairs[pair] - runs * share) < spread for pair in combinations(range(12), 2))


def test_room_in_a_memory_that_is_not_full_costs_no_sample() -> None:
    memory = Reservoir(nbytes=8 * (ROW + 8))
    grow(memory, [([0, 1, 0, 1], 2), ([2], 8)], 0)
    assert memory.capacity == 5
    assert sorted(everything(memory).x[:, 0].tolist()) == [0, 1, 2, 3, 4]


@both_kinds
@given(sizes, widening, st.lists(st.integers(0, 9), max_size=9), st.integers(1, 40), st.integers(0, 100))
@settings(max_examples=50)
def test_undo_brings_every_bit_back(  # noqa: PLR0917
    kind: type[Memory],
    size: dict[str, Any],
    batches: list[tuple[list[int], int]],
    more: list[int],
    width: int,
    seed: int,
) -> None:
    memory, twin = kind(**size), kind(**size)
    for one in (memory, twin):
        grow(one, [([0], 1), *batches], seed)
    before, capacity, journal = digest(memory), memory.capacity, Journal()
    memory.add(batch(more, memory.offered, width), np.random.default_rng(seed), journal)
    journal.undo()
    assert (digest(memory), memory.capacity) == (before, capacity)
    for one in (memory, twin):
        one.add(batch([3, 1, 4, 1, 5], 1000, 13), np.random.default_rng(seed + 1))
    assert digest(memory) == digest(twin)


def test_one_journal_takes_back_several_batches() -> None:
    memory, journal, rng = Reservoir(nbytes=600), Journal(), np.random.default_rng(0)
    grow(memory, [([0, 1] * 10, 2)], 0)
    before = digest(memory)
    for width in (2, 3, 9):
        memory.add(batch([2, 0, 3] * 4, memory.offered, width), rng, journal)
    assert memory.capacity < 600 // (ROW + 8)
    journal.undo()
    assert digest(memory) == before


LABELS = [0, 3, 1, 1, 4, 3, 0, 1, 3, 4, 0, 1]  # of the samples 0, 1, 2, ...; there is none of class 2


def labelled() -> Reservoir:
    memory = Reservoir(100)
    memory.add(batch(LABELS, 0, 2), np.random.default_rng(0))
    return memory


def drawn(memory: Memory, n: int, below: int | None, rng: np.random.Generator) -> list[int]:
    sample = memory.sample(n, rng, below=below)
    assert sample is not None
    numbers: list[int] = sample.x[:, 0].tolist()
    assert sample.y.tolist() == [LABELS[number] for number in numbers]
    assert sample.extra["logits"].tolist() == [vector(number, 2) for number in numbers]
    return numbers


@pytest.mark.parametrize("below", [1, 2, 3, 4, 5, 9])
def test_below_draws_only_earlier_classes_uniformly_and_without_replacement(below: int) -> None:
    memory, rng, runs = labelled(), np.random.default_rng(below), 1000
    allowed = [number for number, label in enumerate(LABELS) if label < below]
    counts, pairs = Counter[int](), Counter[tuple[int, ...]]()
    for _ in range(runs):
        numbers = drawn(memory, 2, below, rng)
        assert len(set(numbers)) == 2 and set(numbers) <= set(allowed)
        counts.update(numbers)
        pairs[tuple(sorted(numbers))] += 1
    assert inclusion_p([counts[number] for number in allowed], runs, 2) > 1e-3
    assert stats.chisquare([pairs[pair] for pair in combinations(allowed, 2)]).pvalue > 1e-3


@pytest.mark.parametrize("below", [None, 1, 3, 9])
@pytest.mark.parametrize("drawn_below", [None, 0, 2, 4])
def test_shares_are_those_of_what_is_drawn(below: int | None, drawn_below: int | None) -> None:
    memory = labelled()
    memory.drawn_below = drawn_below
    everything_drawn = memory.sample(100, np.random.default_rng(0), below=below)
    y = [] if everything_drawn is None else everything_drawn.y.tolist()
    assert memory.shares(below).tolist() == [y.count(label) / max(1, len(y)) for label in range(5)]
    assert Reservoir(3).shares(below).tolist() == []


def test_below_draws_uniformly_after_samples_were_replaced() -> None:
    """The slots of a class are in no order then."""
    memory = Reservoir(14)
    memory.add(batch(LABELS * 4, 0, 2), np.random.default_rng(3))
    held = everything(memory)
    allowed = [n for n, y in zip(held.x[:, 0].tolist(), held.y.tolist(), strict=True) if y < 2]
    rng, runs, counts = np.random.default_rng(0), 2000, Counter[int]()
    for _ in range(runs):
        sample = memory.sample(3, rng, below=2)
        assert sample is not None
        counts.update(sample.x[:, 0].tolist())
    assert 4 < len(allowed) < 14 and set(counts) == set(allowed)
    assert inclusion_p([counts[number] for number in allowed], runs, 3) > 1e-3


@pytest.mark.parametrize("below", [1, 3, 4, 100])
def test_below_gives_all_there_are_if_fewer_than_asked_for(below: int) -> None:
    numbers = drawn(labelled(), 50, below, np.random.default_rng(0))
    assert sorted(numbers) == [number for number, label in enumerate(LABELS) if label < below]


def test_below_gives_none_when_there_is_nothing() -> None:
    rng, late = np.random.default_rng(0), Reservoir(10)
    late.add(batch([2, 3, 2], 0, 2), rng)
    assert late.sample(5, rng, below=2) is None
    assert labelled().sample(5, rng, below=0) is None
    assert labelled().sample(0, rng, below=3) is None
    assert Reservoir(10).sample(5, rng, below=3) is None
    none = Reservoir(0)
    none.add(batch([0, 1], 0, 2), rng)
    assert none.sample(5, rng, below=3) is None


@both_kinds
@given(sizes, widening, st.integers(0, 100))
@settings(max_examples=50)
def test_a_restored_memory_has_the_same_hash_and_the_same_future(
    kind: type[Memory], size: dict[str, Any], batches: list[tuple[list[int], int]], seed: int
) -> None:
    memory, restored = kind(**size), kind(**size)
    grow(memory, batches, seed)
    restored.restore(memory.state())
    assert digest(restored) == digest(memory)
    for step in range(3):
        for one in (memory, restored):
            one.add(batch([5, 0, 6, 0], 1000 + 4 * step, 13 + 4 * step), np.random.default_rng(step))
        assert digest(restored) == digest(memory)
        for below in (None, 3):
            draws: list[Any] = []
            for one in (memory, restored):
                sample = one.sample(4, np.random.default_rng(step), below=below)
                draws.append(None if sample is None else (sample.x.tolist(), sample.y.tolist()))
            assert draws[0] == draws[1]


def test_restoring_forgets_what_was_there_before() -> None:
    memory, other = Reservoir(5), Reservoir(5)
    grow(memory, [([0, 1, 2] * 4, 3)], 0)
    grow(other, [([7] * 9, 20)], 1)
    other.restore(memory.state())
    assert digest(other) == digest(memory)


def test_a_restored_memory_shares_nothing_with_the_one_it_came_from() -> None:
    memory, restored = Reservoir(5), Reservoir(5)
    grow(memory, [([0, 1, 2] * 4, 3)], 0)
    restored.restore(memory.state())
    before = digest(restored)
    for seed in range(5):
        memory.add(batch([3] * 10, 100, 3), np.random.default_rng(seed))
    assert digest(memory) != before
    assert digest(restored) == before
