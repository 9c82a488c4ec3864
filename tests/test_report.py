import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
from rich.console import Console

from holdfast.methods import METHODS
from holdfast.report.figures import COLOURS, OTHER_COLOURS, colours, drawn, write
from holdfast.report.statistics import agreement, mean_and_error, paired, show, student_t
from holdfast.report.tables import summary


def record(title: str, seed: int, acc: float) -> dict[str, Any]:
    evaluations = [
        {"step": 10, "seen": 100, "aa": 1.0, "correct": [5, 5, 0, 0], "total": [5, 5, 0, 0]},
        {"step": 20, "seen": 200, "aa": acc, "correct": [5, 0, 4, 1], "total": [5, 5, 5, 5]},
    ]
    return {
        "title": title,
        "method": title.partition(":")[0],
        "seed": seed,
        "stream": "fashion",
        "memory": 5,
        "acc": acc,
        "aaa": acc,
        "forgetting": 0.5,
        "train_macs": 17.2e12,
        "memory_bytes": 4.4e6,
        "seconds": 600.0,
        "updates": 20,
        "tasks": [[0, 1], [2, 3]],
        "task_ends": [10, 20],
        "evaluations": evaluations,
    }


def test_mean_and_standard_error() -> None:
    values = [0.2, 0.5, 0.8, 0.6]
    mean, error = mean_and_error(values)
    assert mean == pytest.approx(np.mean(values))
    assert error == pytest.approx(np.std(values, ddof=1) / math.sqrt(4))
    assert mean_and_error([0.4]) == (0.4, None)
    assert show([0.4, 0.5]) == "45.0 ± 5.0"


def test_the_table_fits_a_terminal_and_says_everything() -> None:
    records = [
        record(title, seed, 0.4 + seed / 10) for title in ("er", "er-ace:compete=batch+unseen") for seed in (0, 1)
    ]
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(summary(records))
    text = console.export_text()
    assert "fashion, 5 samples a class in memory, 2 seeds" in text
    (line,) = [line for line in text.splitlines() if line.split()[:1] == ["er"]]
    assert " ".join(line.split()) == "er 45.0 ± 5.0 45.0 ± 5.0 50.0 ± 0.0 17.20 T 4.40 600.0"
    assert "…" not in text


def test_one_seed_has_no_error_bar() -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(summary([record("er", 0, 0.4)]))
    text = console.export_text()
    assert "nan" not in text
    assert "n = 1" in text


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [1, 3])
def test_a_picture_is_drawn_for_any_number_of_seeds_and_unknown_methods(seeds: int, tmp_path: Path) -> None:
    records = [record(t, s, 0.4) for t in ("er", "er:head=cosine", "mine.py:Own") for s in range(seeds)]
    write(drawn(records), tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 10_000


def test_a_method_has_one_colour_everywhere() -> None:
    assert list(COLOURS) == list(METHODS)
    assert len(set(COLOURS.values()) | set(OTHER_COLOURS)) == len(COLOURS) + len(OTHER_COLOURS)


@pytest.mark.parametrize(
    "named", [["er", "er-ace"], ["holdfast"], ["er-aml", "der++", "scr"], ["mir", "slda"], []], ids=str
)
def test_methods_of_ones_own_look_unlike_the_others_in_the_picture(named: list[str]) -> None:
    found = colours([*named, "a.py:A", "b.py:B"])
    assert list(found.values())[: len(named)] == [COLOURS[name] for name in named]
    rgb = np.array([[int(each[place : place + 2], 16) for place in (1, 3, 5)] for each in found.values()])
    apart = np.abs(rgb[:, None] - rgb[None]).sum(2)
    assert apart[len(named) :][apart[len(named) :] > 0].min() > 120
    assert len(set(found.values())) == len(found)


def test_what_methods_have_of_their_own_fits_below_the_picture() -> None:
    pytest.importorskip("matplotlib")
    titles = ("er", "er-ace:compete=batch+unseen", "holdfast", "mine.py:AMethodWithALongName", "slda")
    records = []
    for place, title in enumerate(titles):
        own = {"lr": 0.1 + place / 7, "updates_per_batch": place + 1, "average": place / 8}
        records.append({**record(title, 0, 0.4), **own, "usual": own})
    figure = drawn(records)
    figure.draw_without_rendering()
    (row,) = figure.subfigs
    (said,) = [text for text in row.texts if "lr=" in text.get_text()]
    assert said.get_text().count("lr=") == len(titles)
    box = said.get_window_extent()
    assert box.x0 >= 0 and box.x1 <= figure.bbox.width


def test_paired_comparison_over_shared_seeds() -> None:
    ours, others = {0: 3.0, 1: 5.0, 2: 4.0, 7: 9.0}, {0: 1.0, 1: 2.5, 2: 3.0, 8: 0.0}
    found = paired(ours, others)
    test = scipy.stats.ttest_rel([3.0, 5.0, 4.0], [1.0, 2.5, 3.0]).confidence_interval(0.95)
    assert found is not None and found.n == 3
    assert [found.low, found.high] == pytest.approx([test.low, test.high], abs=1e-6)
    assert paired({**ours, 3: None, 4: 1.0}, {**others, 3: 5.0, 4: None}) == found, (
        "a value that is missing pairs with none"
    )
    assert paired({0: 1.0}, {1: 1.0}) is None
    assert paired({0: 1.0, 1: None}, {0: None, 1: 1.0}) is None
    single = paired({0: 1.5}, {0: 1.0})
    assert single is not None and (single.n, single.difference, single.low) == (1, 0.5, None)


@pytest.mark.parametrize("freedom", [1, 2, 3, 9, 30, 200])
def test_quantiles_of_student(freedom: int) -> None:
    assert student_t(freedom) == pytest.approx(scipy.stats.t.ppf(0.975, freedom), abs=1e-6)


def test_agreement_is_judged_by_two_standard_errors() -> None:
    assert agreement([40.0, 42.0], 39.0, 0.5) == "+2.0 within 2.2"
    assert agreement([42.0, 42.2], 39.0, 0.5) == "+3.1 beyond 1.0"
    assert agreement([42.0], 39.0, 0.5) == "+3.0", "one seed has no error to judge by"
