"""Numbers that callers give."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast import (
    DER,
    ERAML,
    ClassBalanced,
    ICaRL,
    Learner,
    Memory,
    Reservoir,
    mlp,
    pretrained,
    slim_resnet18,
    small_cnn,
)
from holdfast.arguments import Range, real, whole
from holdfast.errors import InputError

X = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)


def learner(number: Any, fraction: Any) -> Learner:
    """With `number` of everything there is a number of."""
    return Learner(
        mlp((number(4),), seed=number(2), width=number(8)),
        ERAML(replay=number(5), temperature=fraction(0.5)),
        memory=Reservoir(nbytes=number(1000)),
        lr=fraction(0.25),
        seed=number(3),
        classes=number(4),
        pending=number(7),
    )


def test_numpys_numbers_are_as_good_as_pythons(tmp_path: Path) -> None:
    plain, numpys = learner(int, float), learner(np.int64, np.float32)
    for one in (plain, numpys):
        one.observe(X, list("aabbcc"))
        one.ask(X)
    assert numpys.state_hash() == plain.state_hash()
    for name, one in {"plain": plain, "numpys": numpys}.items():
        one.save(tmp_path / name)
    assert (tmp_path / "plain").read_bytes() == (tmp_path / "numpys").read_bytes()
    assert Learner.load(tmp_path / "numpys").state_hash() == plain.state_hash()


def switched(on: Any) -> Learner:
    encoder = pretrained(mlp((4,)), frozen=on(False))
    return Learner(encoder, "er", memory=Reservoir(5, codec="webp:75", or_raw=on(True)), standardise=on(True))


def test_numpys_switches_are_as_good_as_pythons() -> None:
    plain, numpys = switched(bool), switched(np.bool_)
    for one in (plain, numpys):
        one.observe(X, list("aabbcc"))
    assert numpys.state_hash() == plain.state_hash()
    assert numpys.settings == plain.settings and numpys.memory.settings == plain.memory.settings
    assert ICaRL(distil=np.bool_(False)).distil is False  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [1, 0.0, "no", None, np.int64(1)])
def test_what_is_neither_true_nor_false(wrong: Any) -> None:
    for make in (lambda: Learner(mlp((4,)), "er", standardise=wrong), lambda: Reservoir(5, or_raw=wrong)):
        with pytest.raises(InputError, match="must be True or False, not "):
            make()


@pytest.mark.parametrize("kind", [Reservoir, ClassBalanced])
@pytest.mark.parametrize("wrong", [True, 1e6, "100", -1, 2**63, [5]])
def test_sizes_of_memories_that_cannot_be(kind: type[Memory], wrong: Any) -> None:
    for size in ({"capacity": wrong}, {"nbytes": wrong}):
        with pytest.raises(InputError, match=r"^memory: .* must be a (whole number of 0 or more|number of bytes)"):
            kind(**size)


@pytest.mark.parametrize("net", [mlp, small_cnn, slim_resnet18])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"shape": 32}, r"shape must be that of one sample, as in \(8,\)"),
        ({"shape": "32"}, "shape"),
        ({"shape": (1, 32, 32.0)}, "shape must be a whole number of 1 or more, not 32.0"),
        ({"shape": (-1, 32, 32)}, "shape"),
        ({"width": 0}, "width must be a whole number of 1 or more"),
        ({"seed": "a"}, "seed must be a whole number"),
    ],
)
def test_nets_that_cannot_be(net: Any, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        net(**{"shape": (1, 32, 32), **wrong})


@pytest.mark.parametrize("value", [2.0, "2", None, True, np.bool_(True), np.float64(2), 0, -1, np.array([2])])
def test_what_is_no_whole_number_of_1_or_more(value: object) -> None:
    with pytest.raises(InputError, match=r"^size must be a whole number of 1 or more, not "):
        whole("size", value, Range(least=1))


@pytest.mark.parametrize("value", ["2", None, True, np.bool_(True), 0, 3, float("nan"), float("inf"), 10**400, 1j])
def test_what_is_no_number_above_0_and_at_most_2(value: object) -> None:
    with pytest.raises(InputError, match="number above 0 and at most 2, not "):
        real("share", value, Range(above=0, most=2))


@pytest.mark.parametrize(("value", "plain"), [(1, 1), (0.5, 0.5), (np.float16(0.5), 0.5), (Fraction(1, 4), 0.25)])
def test_numbers_become_plain(value: object, plain: float) -> None:
    number = real("share", value)
    assert number == plain and type(number) is type(plain)


def test_an_int_stays_one() -> None:
    assert type(whole("size", np.uint8(3))) is int


def test_an_int_that_no_tensor_can_be_multiplied_with_becomes_a_float() -> None:
    learner = Learner(mlp((2,)), DER(alpha=2**70), memory=4)
    assert type(learner.method.alpha) is float  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="alpha must be a finite number"):
        DER(alpha=10**400)


def test_an_int_beyond_all_floats_is_refused_where_infinity_is_not() -> None:
    assert Learner(mlp((2,)), "er", clip_samples=float("inf")).clip_samples == float("inf")
    with pytest.raises(InputError, match="clip_samples must be a finite number"):
        Learner(mlp((2,)), "er", clip_samples=10**400)


def test_an_int_that_python_does_not_write_is_refused_in_one_line() -> None:
    for make in (
        lambda: whole("size", 10**5000),
        lambda: whole("size", -(10**5000)),
        lambda: real("share", 10**5000),
        lambda: Learner(mlp((2,)), "er", classes=10**5000),
        lambda: Learner(mlp((2,)), "er", standardise=10**5000),  # type: ignore[arg-type]
        lambda: Reservoir(10**5000),
        lambda: ERAML(replay=10**5000),
    ):
        with pytest.raises(InputError, match="not one that large"):
            make()
