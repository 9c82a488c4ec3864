"""Samples that differ in size within a budget of bytes: uniform, never more than the budget, all or nothing."""

import gc
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from holdfast import Batch, ClassBalanced, Codec, Memory, Reservoir
from holdfast.errors import InputError
from holdfast.memory import encoded
from holdfast.memory.class_index import ClassIndex, Journal
from holdfast.memory.encoded import BYTES_PER_OBJECT
from tests.memory.numbered import digest
from tests.memory.test_codecs import smooth

LONGEST = 200
ROW = BYTES_PER_OBJECT + 8 + 8 + 8 + 8 + ClassIndex.BYTES_PER_SLOT  # object, its place, label, arrival, fingerprint
both_kinds = pytest.mark.parametrize("kind", [Reservoir, ClassBalanced])


class Says(Codec):
    """A sample is a number and how many bytes it takes; with neighbours that make it too long to be kept as it is."""

    name = "says"

    def __init__(self) -> None:
        self.encoded, self.decoded = 0, 0

    def encode(self, sample: NDArray[Any]) -> bytes:
        self.encoded += 1
        number, length = sample[:2].tolist()
        return int(number).to_bytes(8, "little") + bytes(int(length) - 8)

    def decode(self, data: bytes, shape: tuple[int, ...]) -> NDArray[Any]:
        self.decoded += 1
        sample = np.zeros(shape, np.float32)
        sample[:2] = int.from_bytes(data[:8], "little"), len(data)
        return sample


def length_of(label: int) -> int:
    """Sizes depend on the class, on purpose."""
    return (12, 150, 40, 90, 8, 190)[label % 6]


def batch(y: Iterable[int], first: int = 0, width: int = 0) -> Batch:
    """Samples numbered from `first`, each with a vector that tells which one it is."""
    labels = torch.tensor(list(y), dtype=torch.int64)
    x = torch.zeros(len(labels), LONGEST)
    x[:, 0] = torch.arange(first, first + len(labels))
    x[:, 1] = torch.tensor([length_of(label) for label in labels.tolist()])
    extra = {"vector": (x[:, :1] + 1).expand(-1, width)} if width else {}
    return Batch(x, labels, extra)


def memory_of(nbytes: int, kind: type[Memory] = Reservoir) -> Memory:
    return kind(nbytes=nbytes, codec=Says())


def numbers(memory: Memory) -> list[int]:
    return memory.at(np.arange(len(memory))).x[:, 0].int().tolist() if len(memory) else []


def fill(memory: Memory, batches: list[list[int]], seed: int = 0) -> Memory:
    rng = np.random.default_rng(seed)
    for y in batches:
        memory.add(batch(y, memory.offered), rng)
    return memory


LABELS = [0, 1, 2, 0, 1, 0, 5, 1, 1, 0, 2, 3, 5, 0, 4, 4, 1, 0, 5, 0, 1, 3, 0, 1, 2, 5]
BUDGET = 6 * (ROW + 100)
Draws = tuple[NDArray[np.int64], list[float]]  # how often each sample was drawn, and the share of large ones


def drawn(runs: int, moment: int, choose: Callable[[np.random.Generator], list[int]]) -> Draws:
    rng, counts, shares = np.random.default_rng(moment), np.zeros(moment, np.int64), []
    for _ in range(runs):
        held = choose(rng)
        counts[held[rng.integers(len(held))]] += 1
        shares.append(float(np.mean([length_of(LABELS[number]) > 100 for number in held])))
    return counts, shares


def is_uniform(counts: NDArray[np.int64], shares: list[float], among: list[int]) -> bool:
    large = float(np.mean([length_of(LABELS[number]) > 100 for number in among]))
    fair_draws = stats.chisquare(counts[among]).pvalue > 1e-3
    return bool(fair_draws and stats.ttest_1samp(shares, large).pvalue > 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("moment", [9, 17, 26])
def test_a_draw_is_any_sample_so_far_with_equal_probability_whatever_their_sizes(moment: int) -> None:
    parts = np.split(np.arange(moment), [7, 8, 15])

    def choose(rng: np.random.Generator) -> list[int]:
        memory = memory_of(BUDGET)
        for part in parts:
            memory.add(batch([LABELS[number] for number in part], memory.offered), rng)
        assert memory.nbytes <= BUDGET and len(memory) < moment
        return numbers(memory)

    assert is_uniform(*drawn(1000, moment, choose), list(range(moment)))


def test_the_same_test_finds_what_is_not_uniform() -> None:
    """Two rules that seem natural: in random order, whatever still fits; or as long as there is room for any sample."""

    def greedy(rng: np.random.Generator, reserve: int = 0) -> list[int]:
        held, used = [], 0
        for number in rng.permutation(len(LABELS)).tolist():
            size = ROW + length_of(LABELS[number])
            if used + (reserve or size) <= BUDGET:
                held.append(number)
                used += size
            elif reserve:
                break
        return held

    everyone = list(range(len(LABELS)))
    assert not is_uniform(*drawn(1500, len(LABELS), greedy), everyone)
    assert not is_uniform(*drawn(1500, len(LABELS), lambda rng: greedy(rng, ROW + LONGEST)), everyone)


@pytest.mark.slow
def test_a_draw_is_uniform_over_what_was_not_erased() -> None:
    """A class goes in the middle of the stream, with what was held of it and what was not."""
    left = [number for number, label in enumerate(LABELS) if label != 1 or number >= 15]

    def choose(rng: np.random.Generator) -> list[int]:
        memory = memory_of(2 * BUDGET)
        memory.add(batch(LABELS[:15]), rng)
        memory.remove(memory.members(1), Journal())
        memory.add(batch(LABELS[15:], 15), rng)
        return numbers(memory)

    assert is_uniform(*drawn(1000, len(LABELS), choose), left)


def test_an_emptied_memory_begins_anew() -> None:
    memory = fill(memory_of(BUDGET), [[0, 1, 2] * 100])
    assert memory.is_full
    memory.remove(np.arange(len(memory)), Journal())
    memory.add(batch([3], memory.offered), np.random.default_rng(0))
    assert numbers(memory) == [300]


def test_large_and_small_samples_are_held_almost_equally_often() -> None:
    """They differ by about one place in the memory, of which there are fifty here."""
    held, rng, y = Counter[bool](), np.random.default_rng(0), [0, 5] * 100
    for _ in range(150):
        memory = memory_of(50 * (ROW + 101))
        memory.add(batch(y), rng)
        held.update(length_of(y[number]) > 100 for number in numbers(memory))
    assert held[True] / held[False] == pytest.approx(1, abs=0.05)


label_batches = st.lists(st.lists(st.integers(0, 5), max_size=15), max_size=8)


@both_kinds
@given(st.integers(0, 3000), label_batches, st.integers(0, 99))
@settings(max_examples=25)
def test_the_budget_holds_and_all_that_is_held_belongs_together(
    kind: type[Memory], nbytes: int, batches: list[list[int]], seed: int
) -> None:
    memory, rng, width = memory_of(nbytes, kind), np.random.default_rng(seed), 1
    labels: list[int] = []
    for step, y in enumerate([[0], *batches]):
        labels += y
        memory.add(batch(y, memory.offered, width := width + step % 3), rng)
        held, room = memory.at(np.arange(len(memory))), memory.state()["column/vector"].shape[1]
        row = ROW + 4 * room + -(-4 * room // 8)  # with its share of places that may be empty
        assert memory.nbytes == sum(row + length_of(label) for label in held.y.tolist()) <= nbytes
        assert [labels[int(number)] for number in held.x[:, 0].tolist()] == held.y.tolist()
        assert len(set(numbers(memory))) == len(memory)
        for number, vector in zip(held.x[:, 0].tolist(), held.extra["vector"].tolist(), strict=True):
            assert set(vector) <= {number + 1, 0.0}
        for label in range(6):
            assert sorted(memory.members(label).tolist()) == np.flatnonzero(held.y.numpy() == label).tolist()
        assert (memory.arrivals == held.x[:, 0].numpy()).all()


def test_while_all_fit_all_are_held() -> None:
    memory = fill(memory_of(10 * (ROW + LONGEST)), [[0, 1, 2], [3, 4, 5, 0]])
    assert sorted(numbers(memory)) == list(range(7)) and not memory.is_full


@pytest.mark.slow
def test_a_budget_bounds_the_bytes_really_held() -> None:
    """Many small samples, then few large ones, then small ones again."""
    nbytes, rng, codec = 1_000_000, np.random.default_rng(0), Says()
    stream = [batch([label] * 500) for label in [4] * 30 + [5] * 100 + [4] * 100]
    gc.collect()
    tracemalloc.start()
    memory, most = Reservoir(nbytes=nbytes, codec=codec), 0
    for part in stream:
        memory.add(part, rng)
        most = max(most, tracemalloc.get_traced_memory()[0])
        assert 0.9 * nbytes < memory.nbytes <= nbytes or not memory.is_full
    tracemalloc.stop()
    assert 0.9 * nbytes < most <= nbytes


@both_kinds
def test_a_budget_bounds_what_is_kept_beside_samples_however_wide_it_becomes(kind: type[Memory]) -> None:
    nbytes, rng, codec = 100_000, np.random.default_rng(0), Says()
    memory, widest = kind(nbytes=nbytes, codec=codec), 0
    for step in range(120):
        classes = min(400, 1 + 4 * step)
        incoming = batch(rng.integers(0, 6, 10).tolist(), 10 * step)
        memory.add(replace(incoming, extra={"logits": torch.ones(10, classes)}), rng)
        if step % 20 == 19:
            memory.remove(np.arange(0, len(memory), 3), Journal())
        arrays = [*memory._columns.values(), memory._index._place]
        members = sum(members.itemsize * len(members) for members in memory._index.members)
        data = sum(map(encoded.size, memory._columns["x"][: len(memory)]))
        really = sum(array.nbytes for array in arrays) + members + data
        assert really <= memory.nbytes <= nbytes
        widest = max(widest, memory._columns["logits"].shape[1])
    assert widest >= 400 and len(memory) > 10


@both_kinds
@given(st.integers(0, 3000), label_batches, st.lists(st.integers(0, 9), max_size=15), st.integers(0, 99))
@settings(max_examples=25)
def test_undo_brings_every_bit_back(
    kind: type[Memory], nbytes: int, batches: list[list[int]], more: list[int], seed: int
) -> None:
    memory, twin = (fill(memory_of(nbytes, kind), [[0], *batches], seed) for _ in range(2))
    before, size, journal = digest(memory), memory.nbytes, Journal()
    memory.add(batch(more, memory.offered), np.random.default_rng(seed), journal)
    memory.remove(np.arange(len(memory))[::2], journal)
    journal.undo()
    assert (digest(memory), memory.nbytes) == (before, size)
    for one in (memory, twin):
        one.add(batch([3, 1, 4, 1, 5], 1000), np.random.default_rng(seed + 1))
    assert digest(memory) == digest(twin)


@pytest.mark.parametrize("stage", ["remove", "add"])
@pytest.mark.parametrize("nbytes", [BUDGET, 100 * BUDGET])
def test_undo_after_a_failure_in_the_middle(stage: str, nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = fill(memory_of(nbytes), [[0, 1, 2, 0, 1, 2, 0], [2, 2, 1, 0]])
    original: Callable[..., None] = getattr(ClassIndex, stage)

    def failing(*args: object) -> None:
        original(*args)
        raise OSError("injected")

    state, journal = digest(memory), Journal()
    monkeypatch.setattr(ClassIndex, stage, failing)
    with pytest.raises(OSError, match="injected"):
        memory.add(batch([1, 7, 0, 2, 7, 1, 1, 0] * 3, 100), np.random.default_rng(0), journal)
    journal.undo()
    assert digest(memory) == state


@both_kinds
@given(st.integers(0, 3000), label_batches, st.integers(0, 99))
@settings(max_examples=25)
def test_a_copy_and_a_restored_one_have_the_same_future(
    kind: type[Memory], nbytes: int, batches: list[list[int]], seed: int
) -> None:
    memory = fill(memory_of(nbytes, kind), batches, seed)
    restored = memory_of(nbytes, kind)
    restored.restore(memory.state())
    before, twins = digest(memory), [memory.copy(), restored]
    for step in range(3):
        draws = []
        for twin in twins:
            twin.add(batch([5, 0, 6, 0], 1000 + step), np.random.default_rng(step))
            sample = twin.sample(4, np.random.default_rng(step), below=6)
            draws.append((digest(twin), twin.nbytes, None if sample is None else sample.x.tolist()))
        assert draws[0] == draws[1]
        assert digest(memory) == before


def test_a_copy_shares_what_nobody_changes() -> None:
    memory = fill(memory_of(BUDGET), [LABELS])
    shared = zip(memory.copy()._columns["x"][: len(memory)], memory._columns["x"], strict=False)
    assert len(memory) and all(one is other for one, other in shared)


def test_only_what_comes_in_is_encoded_and_only_what_is_drawn_is_decoded() -> None:
    memory, rng = memory_of(BUDGET), np.random.default_rng(0)
    codec = memory.codec
    assert isinstance(codec, Says)
    memory.add(batch([0, 1, 2, 3] * 1000), rng)
    assert codec.encoded < 200
    before = codec.encoded
    for _ in range(100):
        memory.add(batch([0, 1, 2, 3]), rng)
    assert codec.encoded - before < 20
    assert codec.decoded == 1  # the first, to see whether it comes back
    memory.sample(5, rng)
    memory.sample(3, rng, below=2)
    assert codec.decoded == 1 + 5 + min(3, memory.count(0) + memory.count(1))


def test_the_cost_of_a_step_does_not_depend_on_the_budget() -> None:
    many, rng = 20_000, np.random.default_rng(0)
    memory = memory_of(many * (ROW + 12))
    memory.add(Batch(batch([0]).x.expand(many + 1000, -1), torch.arange(many + 1000) % 10), rng)
    assert len(memory) == many
    small = batch([0] * 10)
    tracemalloc.start()
    for _ in range(30):
        memory.add(small, rng, Journal())
        memory.sample(10, rng)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000


def test_classes_are_balanced_in_number_whatever_their_sizes() -> None:
    memory = memory_of(30 * (ROW + 100), ClassBalanced)
    fill(memory, [[label] * 60 for label in (0, 1, 2, 3, 0, 1)])
    counts = memory.class_counts
    assert counts.max() - counts.min() <= 2 and counts.sum() == len(memory) > 25


def test_a_number_of_samples_may_be_held_encoded_too() -> None:
    plain, coded = Reservoir(10), Reservoir(10, codec=Says())
    for memory in (plain, coded):
        fill(memory, [LABELS, LABELS])
    assert numbers(coded) == numbers(plain)
    assert coded.nbytes < plain.nbytes == 10 * (4 * LONGEST + 16 + ClassIndex.BYTES_PER_SLOT)


@pytest.mark.parametrize("codec", ["webp:75", "png"])
def test_images(codec: str) -> None:
    images = torch.from_numpy(np.stack([smooth((3, 32, 32), seed) for seed in range(40)]))
    memory = Reservoir(nbytes=20_000, codec=codec)
    memory.add(Batch(images, torch.arange(40) % 7), np.random.default_rng(0))
    assert len(memory) > 20_000 / images[0].numel() and memory.nbytes <= 20_000
    for slot, number in enumerate(memory.arrivals.tolist()):
        held = memory.at(np.array([slot]))
        assert (held.x[0].int() - images[number].int()).abs().float().mean() < 4
        assert held.y.item() == number % 7
        assert memory.find(images[number : number + 1]).tolist() == [slot]
    assert not memory.find(255 - images).size and not memory.find(images.float()).size


def test_bytes_as_text() -> None:
    assert Reservoir("50MB").settings == {"capacity": None, "nbytes": 50_000_000}
    assert Reservoir("1.5KiB", codec="raw").byte_budget == 1536
    assert ClassBalanced("3kB", codec="webp:50").settings == {"capacity": None, "nbytes": 3000, "codec": "webp:50"}
    for wrong in ("50", "MB", "-3kB", "1e3kB", "3 kb", "9" * 40 + "GB"):
        with pytest.raises(InputError, match="memory: the budget must be"):
            Reservoir(wrong)
    with pytest.raises(InputError, match=r"how many classes will come; for 10 of them, 5/class is memory=50, samples"):
        Reservoir("5/class")


def test_other_samples_are_refused_and_nothing_happens() -> None:
    memory = Reservoir(nbytes=1000, codec="webp:75")
    before, journal = digest(memory), Journal()
    with pytest.raises(InputError, match=r"webp:75 keeps uint8 images.*not samples of shape \(200,\) and type float32"):
        memory.add(batch([0]), np.random.default_rng(0), journal)
    journal.undo()
    assert digest(memory) == before
