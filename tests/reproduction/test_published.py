from typing import Any

import pytest

from holdfast import methods
from holdfast.methods import make
from holdfast.reproduction.published import NUMBERS, Published, cells, place, published

CIFAR10: dict[str, Any] = {"dataset": "cifar10"}
CIFAR100: dict[str, Any] = {"dataset": "cifar100", "memory": 100}
MINI: dict[str, Any] = {"dataset": "mini-imagenet", "memory": 100}
BLUR: dict[str, Any] = {"dataset": "cifar10", "memory": 20, "augment": True}
ALL = [(artifact, cell) for artifact, table in cells().items() for cell in table]


def test_every_table_is_complete() -> None:
    counts = {artifact: len(table) for artifact, table in cells().items()}
    assert counts == {"T1": 106, "T2": 68, "T3": 8, "T4": 6, "T5": 3, "T6": 16, "T7": 12, "T8": 20, "T9": 20}


def test_every_table_has_its_place() -> None:
    labels = ["cifar10", "cifar100_mini", "blurry", "balanced_stream", "rep_drift_overall_Trip", "cifar10_fixed"]
    labelled = [f"tab:{label}" for label in (*labels, "cifar10_er_ablate")]
    assert [place(artifact) for artifact in cells()] == [
        *labelled,
        "appendix, additional blurry task boundaries",
        "appendix, limited training data",
    ]


@pytest.mark.parametrize(
    ("artifact", "measure", "method", "setting", "printed"),
    [
        ("T1", "acc", "iid", CIFAR10 | {"memory": 20, "augment": False}, Published(62.7, 0.7)),
        ("T1", "aaa", "der++", CIFAR10 | {"memory": 100, "augment": True}, Published(60.1, 1.3)),
        ("T1", "acc", "er", CIFAR10 | {"memory": 5, "augment": False}, Published(19.7, 0.3)),
        ("T1", "aaa", "ss-il", CIFAR10 | {"memory": 5, "augment": False}, Published(42.6, 1.7)),
        ("T1", "acc", "er-ace", CIFAR10 | {"memory": 20, "augment": False}, Published(42.6, 0.7)),
        ("T1", "acc", "er-aml", CIFAR10 | {"memory": 100, "augment": True}, Published(55.7, 1.3)),
        ("T1", "aaa", "gdumb", CIFAR10 | {"memory": 20, "augment": True}, Published(0, 0)),
        ("T1", "acc", "gdumb", CIFAR10 | {"memory": 100, "augment": True}, Published(61.3, 1.7)),
        ("T1", "tflops", "mir", CIFAR10, Published(41)),
        ("T1", "megabytes", "iid++", CIFAR10 | {"augment": False}, Published(4)),
        ("T2", "acc", "er-ace", CIFAR100, Published(25.8, 0.4)),
        ("T2", "tflops", "er-aml", CIFAR100, Published(28)),
        ("T2", "aaa", "icarl", MINI, Published(24.4, 0.4)),
        ("T2", "tflops", "icarl", MINI, Published(2097)),
        ("T2", "megabytes", "der++", MINI, Published(217)),
        ("T3", "acc", "er", CIFAR10 | {"memory": 100}, Published(42.7, 2.2)),
        ("T3", "acc", "er-ace", CIFAR10 | {"memory": 20}, Published(44.5, 0.5)),
        ("T3", "acc", "er-aml", CIFAR10 | {"memory": 100}, Published(55.2, 1.1)),
        ("T4", "acc", "er", CIFAR10 | {"memory": 20}, Published(21.0, 1.2)),
        ("T4", "acc", "er", CIFAR10 | {"memory": 50}, Published(25.7, 1.1)),
        ("T4", "acc", "ss-il", CIFAR10 | {"memory": 100}, Published(39.1, 0.6)),
        ("T5", "drift", "er", CIFAR10, Published(3.2e-2, 1.8e-2)),
        ("T5", "drift", "er-aml:loss=triplet,negatives=all", CIFAR10, Published(3.0e-2, 0.6e-2)),
        ("T5", "drift", "er-aml:loss=triplet", CIFAR10, Published(2.5e-2, 0.6e-2)),
        ("T6", "acc", "iid-offline", CIFAR10 | {"memory": 50}, Published(79.2, 0.4)),
        ("T6", "acc", "er-aml:loss=triplet", CIFAR10 | {"memory": 100}, Published(49.8, 0.5)),
        ("T6", "acc", "er-aml", CIFAR10 | {"memory": 5}, Published(33.0, 0.2)),
        ("T7", "acc", "er-aml:negatives=all", CIFAR10 | {"memory": 50}, Published(41.4, 0.4)),
        ("T7", "forgetting", "er-aml:negatives=all", CIFAR10 | {"memory": 20}, Published(56.7, 0.6)),
        ("T7", "forgetting", "er-aml", CIFAR10 | {"memory": 50}, Published(25.8, 0.3)),
        ("T8", "acc", "er", BLUR | {"distinct": 1}, Published(23.1)),
        ("T8", "acc", "der++", BLUR | {"distinct": 4}, Published(37.3)),
        ("T8", "acc", "er-aml", BLUR | {"distinct": 3}, Published(46.0)),
        ("T9", "acc", "er-ace", CIFAR10 | {"memory": 20, "share": 5}, Published(20.5)),
        ("T9", "acc", "ss-il", CIFAR10 | {"memory": 20, "share": 25}, Published(28.6)),
        ("T9", "acc", "er-aml", CIFAR10 | {"memory": 20, "share": 50}, Published(38.7)),
    ],
)
def test_cells(artifact: str, measure: str, method: str, setting: dict[str, Any], printed: Published) -> None:
    assert published(artifact, measure, method, **setting) == printed


@pytest.mark.parametrize(
    ("measure", "method", "low", "high"),
    [
        ("tflops", "icarl", 21, 47),
        ("tflops", "gdumb", 43, 853),
        ("megabytes", "er", 4, 7),
        ("megabytes", "gdumb", 11, 14),
    ],
)
def test_ranges_have_no_mean(measure: str, method: str, low: float, high: float) -> None:
    assert published("T1", measure, method, **CIFAR10, memory=20, augment=True) == Published(low=low, high=high)


@pytest.mark.parametrize("memory", [0, 100])
def test_what_keeps_nothing_is_the_same_at_any_size_of_memory(memory: int) -> None:
    assert published("T1", "acc", "iid++", **CIFAR10, memory=memory, augment=False) == Published(72.9, 0.7)
    assert published("T2", "acc", "iid", dataset="mini-imagenet", memory=memory) == Published(16.7, 0.5)
    assert published("T6", "acc", "fine-tuning", **CIFAR10, memory=memory) == Published(18.4, 0.3)


def test_what_a_table_does_not_tell_apart_is_ignored() -> None:
    cell = published("T2", "acc", "er", **CIFAR100)
    assert cell is not None
    assert published("T2", "acc", "er", **CIFAR100, augment=True, lr=0.1) == cell


@pytest.mark.parametrize(
    ("artifact", "measure", "method", "setting"),
    [
        ("T1", "aaa", "iid", CIFAR10 | {"memory": 5, "augment": False}),
        ("T1", "acc", "der++", CIFAR10 | {"memory": 5, "augment": False}),
        ("T1", "acc", "er", CIFAR10 | {"memory": 50, "augment": False}),
        ("T1", "acc", "er", {"memory": 5, "augment": False}),
        ("T1", "drift", "er", CIFAR10),
        ("T3", "acc", "a-gem", CIFAR10 | {"memory": 20}),
        ("T10", "acc", "er", CIFAR10),
    ],
)
def test_where_the_paper_is_silent(artifact: str, measure: str, method: str, setting: dict[str, Any]) -> None:
    assert published(artifact, measure, method, **setting) is None


def test_no_cell_hides_another() -> None:
    for artifact, cell in ALL:
        identity = {key: value for key, value in cell.items() if key not in NUMBERS}
        fits = [other for other in cells()[artifact] if all(identity.get(k, v) == v for k, v in other.items())]
        assert fits == [cell]


@pytest.mark.parametrize("method", sorted({cell["method"] for _, cell in ALL}))
def test_methods_are_ours(method: str) -> None:
    name, options = methods.parse(method)
    make(name, options)
    assert list(options) == sorted(options)


def test_values_are_plausible() -> None:
    most = {"acc": 100, "aaa": 100, "forgetting": 100, "drift": 2, "tflops": 3000, "megabytes": 300}
    for _, cell in ALL:
        assert set(cell) - set(NUMBERS) <= {"method", "measure", "dataset", "memory", "augment", "distinct", "share"}
        assert cell["dataset"] in ("cifar10", "cifar100", "mini-imagenet")
        if "mean" in cell:
            assert 0 <= cell["mean"] <= most[cell["measure"]]
            assert 0 <= cell.get("se", 0) <= 2.5 and "low" not in cell and "high" not in cell
            assert (cell["mean"] == 0) == (cell["method"] == "gdumb" and cell["measure"] == "aaa")
        else:
            assert 0 < cell["low"] < cell["high"] <= most[cell["measure"]] and "se" not in cell
