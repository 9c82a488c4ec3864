import subprocess
import sys

import numpy as np
import pytest
import torch

from holdfast.seeds import generator, torch_seeded

TRIPLES = [
    (seed, purpose, step) for seed in (0, 1, 12, -1) for purpose in ("a", "2a", "2/a", "") for step in (0, 1, 99)
]


def torch_draw(seed: int, purpose: str, step: int = 0) -> tuple[float, ...]:
    with torch_seeded(seed, purpose, step):
        return tuple(torch.rand(4).tolist())


def test_a_draw_is_a_function_of_seed_purpose_and_step() -> None:
    first = generator(3, "memory", 5)
    generator(3, "memory", 5).random(1000)
    generator(4, "other").random(1000)
    np.random.default_rng(0).random(10)
    assert (first.random(100) == generator(3, "memory", 5).random(100)).all()
    assert torch_draw(3, "memory", 5) == torch_draw(3, "memory", 5)


def test_the_step_is_zero_unless_given() -> None:
    assert generator(3, "x").random() == generator(3, "x", 0).random()
    assert torch_draw(3, "x") == torch_draw(3, "x", 0)


def test_all_triples_differ() -> None:
    draws = {generator(*triple).integers(2**63, size=4).tobytes() for triple in TRIPLES}
    assert len(draws) == len({torch_draw(*triple) for triple in TRIPLES}) == len(TRIPLES)


def test_consecutive_steps_share_no_part_of_their_sequences() -> None:
    """A counter that moved by less than a whole sequence would show the tail of one step in the next."""
    sequences = [set(generator(0, "x", step).integers(2**63, size=5000).tolist()) for step in range(5)]
    assert len(set.union(*sequences)) == 5 * 5000


@pytest.mark.parametrize("vary", ["seed", "purpose", "step"])
def test_neighbours_are_uncorrelated(vary: str) -> None:
    n, rows = 4000, 12
    triples = {"seed": (1, "x", 0), "purpose": (0, "x{}", 0), "step": (0, "x", 1)}
    seed, purpose, step = triples[vary]
    draws = np.stack([generator(i * seed, purpose.format(i), i * step).standard_normal(n) for i in range(rows)])
    correlation = np.corrcoef(draws) - np.eye(rows)
    assert np.abs(correlation).max() < 5 / np.sqrt(n)
    firsts = [generator(i * seed, purpose.format(i), i * step).random() for i in range(2000)]
    assert abs(np.corrcoef(firsts[1:], firsts[:-1])[0, 1]) < 5 / np.sqrt(2000)


def test_torchs_own_generator_is_left_as_it_was() -> None:
    torch.manual_seed(1)
    untouched = torch.rand(3)
    torch.manual_seed(1)
    torch_draw(0, "net")
    with pytest.raises(KeyError), torch_seeded(0, "net"):
        raise KeyError
    assert torch.equal(torch.rand(3), untouched)


def test_seeding_torch_leaves_nothing_behind() -> None:
    """torch.manual_seed queues a call for every device that is not in use; a learner seeds at every step."""
    before = len(torch.cuda._queued_calls)
    torch_draw(0, "net")
    assert len(torch.cuda._queued_calls) == before


def test_large_steps_are_as_good_as_small_ones() -> None:
    assert generator(0, "x", 2**40).random() != generator(0, "x", 2**40 + 1).random()
    assert generator(10**30, "x").random() != generator(10**30 + 1, "x").random()


def test_a_negative_step_is_an_error() -> None:
    with pytest.raises((ValueError, OverflowError)):
        generator(0, "x", -1)


def test_another_process_draws_the_same() -> None:
    code = "from holdfast.seeds import *; print(generator(7, 'é', 3).random(3).tolist())"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == str(generator(7, "é", 3).random(3).tolist())
