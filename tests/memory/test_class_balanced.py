import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from holdfast.memory import ClassBalanced
from holdfast.memory.class_index import ClassIndex, Journal
from tests.memory.numbered import batch, digest


def by_appearance(labels: list[int]) -> list[int]:
    """Classes numbered as a learner does."""
    numbers: dict[int, int] = {}
    return [numbers.setdefault(label, len(numbers)) for label in labels]


capacities = st.integers(0, 12)
streams = st.lists(st.integers(0, 5), max_size=60).map(by_appearance)


def filled(capacity: int, y: list[int], seed: int = 0) -> ClassBalanced:
    memory = ClassBalanced(capacity)
    memory.add(batch(y), np.random.default_rng(seed))
    return memory


def held(memory: ClassBalanced) -> list[tuple[int, int]]:
    """(number, class) of the sample in each slot."""
    if not memory.offered:
        return []
    everything = memory.at(np.arange(len(memory)))
    return list(zip(everything.x[:, 0].tolist(), everything.y.tolist(), strict=True))


sizes = pytest.mark.parametrize(("capacity", "classes"), [(12, 4), (11, 3), (19, 10), (10, 1), (7, 7), (50, 6)])


def assert_balanced(memory: ClassBalanced, capacity: int, classes: int) -> None:
    counts = memory.class_counts.tolist()
    assert len(counts) == classes and sum(counts) == len(memory) == capacity
    assert max(counts) - min(counts) <= 1


@sizes
def test_counts_differ_by_at_most_one_when_classes_come_one_after_the_other(capacity: int, classes: int) -> None:
    memory, rng = ClassBalanced(capacity), np.random.default_rng(0)
    for label in range(classes):
        memory.add(batch([label] * 60), rng)
        assert_balanced(memory, capacity, label + 1)


def test_counts_differ_by_at_most_one_when_classes_come_together() -> None:
    """The first class has filled the memory when nine others come, mixed."""
    memory = filled(19, [0] * 60 + list(range(10)) * 60)
    assert_balanced(memory, 19, 10)


@given(capacities, streams, st.integers(0, 100))
def test_a_sample_gets_in_while_its_class_has_less_than_its_share_and_the_largest_gives_way(
    capacity: int, stream: list[int], seed: int
) -> None:
    memory, rng = ClassBalanced(capacity), np.random.default_rng(seed)
    for number, label in enumerate(stream):
        before = held(memory)
        counts = Counter(y for _, y in before)
        memory.add(batch([label], number), rng)
        after, met = held(memory), max(stream[: number + 1]) + 1
        if len(before) < capacity:
            assert after == [*before, (number, label)]
        elif after == before:
            assert counts[label] >= math.ceil(capacity / met)
        else:
            ((_, gone),) = set(before) - set(after)
            assert sum(old != new for old, new in zip(before, after, strict=True)) == 1
            assert set(after) - set(before) == {(number, label)}
            assert gone != label and counts[gone] == max(counts.values())
            assert counts[label] * met < capacity
        assert memory.offered == number + 1
        for c in range(met):
            assert sorted(memory.members(c).tolist()) == [slot for slot, (_, y) in enumerate(after) if y == c]


@given(capacities, streams, st.integers(0, 100))
def test_a_batch_is_the_same_as_its_samples_one_by_one(capacity: int, stream: list[int], seed: int) -> None:
    whole, single = ClassBalanced(capacity), ClassBalanced(capacity)
    rngs = [np.random.default_rng(seed) for _ in range(2)]
    for start in range(0, len(stream), 10):
        whole.add(batch(stream[start : start + 10], start), rngs[0])
    for number, label in enumerate(stream):
        single.add(batch([label], number), rngs[1])
    assert digest(whole) == digest(single)


def test_a_class_that_has_its_share_keeps_its_samples() -> None:
    """The first to come stay: greedy, not a uniform choice of all so far."""
    memory = filled(9, [0, 1, 2] * 3)
    before = held(memory)
    memory.add(batch([0, 1, 2] * 50, 9), np.random.default_rng(1))
    assert held(memory) == before and memory.offered == 159


@pytest.mark.slow
def test_every_member_of_the_largest_class_gives_way_with_equal_probability() -> None:
    """Two of the eight samples of class 0 have to go: each pair alike, in either order."""
    first, second, pairs = Counter[int](), Counter[int](), Counter[frozenset[int]]()
    rng = np.random.default_rng(0)
    for _ in range(1500):
        memory = ClassBalanced(8)
        memory.add(batch([0] * 8), rng)
        memory.add(batch([1], 100), rng)
        (one,) = set(range(8)) - {number for number, _ in held(memory)}
        memory.add(batch([1], 101), rng)
        both = frozenset(range(8)) - {number for number, _ in held(memory)}
        (other,) = both - {one}
        first[one] += 1
        second[other] += 1
        pairs[both] += 1
    assert stats.chisquare([first[i] for i in range(8)]).pvalue > 1e-3
    assert stats.chisquare([second[i] for i in range(8)]).pvalue > 1e-3
    assert stats.chisquare([pairs[frozenset(p)] for p in combinations(range(8), 2)]).pvalue > 1e-3


@given(capacities, streams, streams, st.integers(0, 100))
def test_undo_brings_every_bit_back(capacity: int, stream: list[int], more: list[int], seed: int) -> None:
    memory, twin = (filled(capacity, [0, *stream], seed) for _ in range(2))
    before, journal = digest(memory), Journal()
    memory.add(batch(more, 100), np.random.default_rng(seed), journal)
    journal.undo()
    assert digest(memory) == before
    for again in (memory, twin):
        again.add(batch([3, 1, 4, 1, 5], 1000), np.random.default_rng(seed + 1))
    assert digest(memory) == digest(twin)


@pytest.mark.parametrize("nbytes", [0, 20, 44, 500])
def test_a_byte_budget_is_kept(nbytes: int) -> None:
    memory, rng = ClassBalanced(nbytes=nbytes), np.random.default_rng(0)
    for first in range(0, 100, 10):
        memory.add(batch([first // 25] * 10, first), rng)
        assert memory.nbytes <= nbytes
    row = 4 + 8 + 8 + ClassIndex.BYTES_PER_SLOT
    assert len(memory) == memory.capacity == nbytes // row
