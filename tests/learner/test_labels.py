import enum
import math
from collections import namedtuple
from collections.abc import Hashable
from datetime import date

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import LabelError
from holdfast.learner.labels import Labels

anything = st.one_of(st.integers(), st.text(), st.tuples(st.text(), st.integers()), st.frozensets(st.text()))


Reading = namedtuple("Reading", ["place", "level"])


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Sky(enum.StrEnum):
    BLUE = "blue"


class Mixed(str, enum.Enum):  # noqa: UP042
    RED = "red"


class Name(str):
    def __str__(self) -> str:
        return "another"


class Metres(float):
    pass


def known(*labels: Hashable) -> Labels:
    vocabulary = Labels()
    vocabulary.admit(labels)
    return vocabulary


@pytest.mark.slow
@given(st.lists(st.lists(anything, max_size=6), max_size=6))
def test_the_index_is_the_order_of_first_appearance_and_never_moves(batches: list[list[Hashable]]) -> None:
    vocabulary, met = Labels(), list[Hashable]()
    for batch in batches:
        met += [label for i, label in enumerate(batch) if label not in met and label not in batch[:i]]
        assert vocabulary.admit(vocabulary.check(batch)) == [met.index(label) for label in batch]
        assert list(vocabulary) == met
        assert len(vocabulary) == len(met)
        assert [vocabulary[i] for i in range(len(met))] == met


@pytest.mark.parametrize(
    ("y", "plain"),
    [
        (np.array([3, 1]), [3, 1]),
        (np.array([3, 1], np.uint8), [3, 1]),
        (np.array(["cat", "dog"]), ["cat", "dog"]),
        (np.array([True, False]), [True, False]),
        (np.array([0.5, 1.5], np.float32), [0.5, 1.5]),
        (np.array(["a", ("b", 1)], object), ["a", ("b", 1)]),
        (torch.tensor([3, 1]), [3, 1]),
        ([np.int64(3), np.int64(1)], [3, 1]),
        ([np.str_("cat"), "dog"], ["cat", "dog"]),
        ([torch.tensor(3), torch.tensor([1])], [3, 1]),
        (iter("ab"), ["a", "b"]),
        (range(2), [0, 1]),
        (pd.Series(["a", "b"]), ["a", "b"]),
        (pd.Series(["a", "b"], dtype="category"), ["a", "b"]),
        (np.ma.array([3, 1]), [3, 1]),
        ([Level.LOW, Level.HIGH], [1, 2]),
        ([Sky.BLUE, Mixed.RED, Name("x")], ["blue", "red", "x"]),
        ([Metres(0.5), np.float64(1.5)], [0.5, 1.5]),
        ([Reading("a", Level.LOW), Reading(Sky.BLUE, np.int64(2))], [("a", 1), ("blue", 2)]),
        ([((Level.HIGH,), True)], [((2,), True)]),
        (np.array(["2020-01-01"], "datetime64[D]"), [date(2020, 1, 1)]),
    ],
)
def test_arrays_and_tensors_become_plain_python(y: object, plain: list[Hashable]) -> None:
    labels = Labels().check(y)
    assert labels == plain
    assert [type(label) for label in labels] == [type(label) for label in plain]
    parts = [part for label in labels if isinstance(label, tuple) for part in label]
    assert {type(part) for part in parts} <= {str, int, bool, tuple}


def test_a_label_that_became_plain_is_found_by_the_one_that_was_given() -> None:
    vocabulary = known(*Labels().check([Level.LOW, Sky.BLUE, Reading("a", Level.HIGH)]))
    given = [Reading("a", Level.HIGH), Sky.BLUE, Level.LOW]
    assert vocabulary.admit(vocabulary.check(given)) == [2, 1, 0]
    assert [vocabulary[i] for i in (2, 1, 0)] == given


@pytest.mark.parametrize("twin", [True, 1.0])
def test_equal_labels_of_different_types_are_refused(twin: Hashable) -> None:
    with pytest.raises(LabelError, match=r"^y: the label .* equals 1 \(int\); give every label one type"):
        Labels().check([1, twin])
    with pytest.raises(LabelError, match=r"^y: the label .* equals 1 \(int\)"):
        known("a", 1).check([twin])
    with pytest.raises(LabelError, match=r"^y: the label 1 "):
        known(twin).check([1])


@pytest.mark.parametrize("twin", [True, 1.0])
def test_inside_tuples_as_well(twin: Hashable) -> None:
    with pytest.raises(
        LabelError, match=r"equals \('a', \(1,\)\) \(tuple\[str, tuple\[int\]\]\); give every label one"
    ):
        known(("a", (1,))).check([("a", (twin,))])
    with pytest.raises(LabelError, match="give every label one type"):
        Labels().check([(1,), (twin,)])


def test_a_number_and_its_text_are_two_labels() -> None:
    vocabulary = Labels()
    assert vocabulary.admit(vocabulary.check([1, "1", b"1", 1])) == [0, 1, 2, 0]


@pytest.mark.parametrize(
    ("y", "complaint"),
    [
        (["a", None], "None is not a label"),
        ([1.0, math.nan], "nan is not a label"),
        (np.array([1.0, np.nan]), "nan is not a label"),
        (torch.tensor([math.nan]), "nan is not a label"),
        ([["a"], ["b"]], r"\['a'\] is not hashable"),
        ([{}], r"\{\} is not hashable"),
        ([np.zeros(2)], "is not hashable"),
        ([torch.zeros(2)], r"a tensor of shape \(2,\) is not a label"),
        (np.zeros((2, 1)), r"shape \(2, 1\); it must be one label per sample"),
        (torch.zeros(2, 3), r"shape \(2, 3\)"),
        (np.array(3), r"shape \(\)"),
        ("cat", "must be a sequence of labels, not str"),
        (b"cat", "not bytes"),
        (7, "not int"),
        (None, "not NoneType"),
        ([("a", None)], "None is not a label"),
        ([("a", (math.nan,))], "nan is not a label"),
        ([("a", ["b"])], r"\['b'\] is not hashable"),
        ([pd.NA], "<NA> is not a label"),
        ([pd.NaT], "NaT is not a label"),
        (pd.Series([1, None], dtype="Int64"), "<NA> is not a label"),
        (pd.DataFrame({"kind": [1, 2], "other": [3, 4]}), r"shape \(2, 2\); .* give the column"),
        (pd.DataFrame({"kind": [1, 2]}), r"shape \(2, 1\); .* give the column"),
        (np.ma.array([1, 2], mask=[False, True]), "masked"),
        ([10**5000], "more than 4,300 digits"),
        ([(-(10**5000),)], "more than 4,300 digits"),
        (torch.tensor([1, 0]).to_sparse(), "sparse"),
        (torch.empty(2, device="meta"), "meta"),
        (np.array(["2020-01-01"], "datetime64[ns]"), "more precise than Python's dates"),
    ],
)
def test_what_cannot_be_labels_is_refused(y: object, complaint: str) -> None:
    vocabulary = known("a", 1.0)
    with pytest.raises(LabelError, match=rf"^y\b.*{complaint}"):
        vocabulary.check(y)
    assert list(vocabulary) == ["a", 1.0]


def test_checking_changes_nothing() -> None:
    vocabulary = known("a", "b")
    vocabulary.check(["c", "a", "d"])
    assert list(vocabulary) == ["a", "b"]
    assert vocabulary.admit(["d", "c"]) == [2, 3]


def test_forgotten_labels_can_come_back_as_new() -> None:
    vocabulary = known("a", "b", "c")
    vocabulary.cut_after(1)
    assert list(vocabulary) == ["a"]
    assert vocabulary.admit(["c", "a", "b"]) == [1, 0, 2]


def test_no_memory_for_looking_at_a_label_says_nothing_of_the_label() -> None:
    class Heavy:
        def __ne__(self, other: object) -> bool:
            raise MemoryError

        __hash__ = object.__hash__

    with pytest.raises(MemoryError):
        Labels().check([Heavy()])


def nested(depth: int) -> Hashable:
    label: Hashable = "leaf"
    for _ in range(depth):
        label = (label,)
    return label


def test_tuples_inside_each_other_have_a_limit() -> None:
    assert Labels().check([nested(32)]) == [nested(32)]
    for depth in (33, 470, 5000):
        with pytest.raises(LabelError, match="tuples nested more than 32 deep"):
            Labels().check(["right", nested(depth)])
