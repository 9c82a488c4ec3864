"""Options of methods, given in Python or on the command line."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest

from holdfast import DER, ER, ERACE, ERAML, MIR, SCR, SSIL, GDumb, ICaRL, IIDOffline, Learner, Method, mlp
from holdfast.errors import InputError
from holdfast.methods import METHODS, make

if TYPE_CHECKING:
    from nowhere import Nothing  # type: ignore[import-not-found]


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        (ER, {"replay": -1}, "ER: replay must be a whole number of 0 or more, not -1"),
        (ER, {"replay": 2.5}, "ER: replay must be a whole number of 0 or more, not 2.5"),
        (ER, {"replay": True}, "replay"),
        (GDumb, {"rounds": 2**31}, "rounds must be a whole number of 0 or more and at most 10000"),
        (ER, {"replay": "5"}, "replay"),
        (ER, {"head": "round"}, "unknown value of ER: head 'round': there are linear, cosine"),
        (ERACE, {"compete": "bach"}, "did you mean 'batch'"),
        (ERAML, {"temperature": 0}, "temperature must be a finite number above 0, not 0"),
        (ERAML, {"temperature": math.nan}, "temperature"),
        (ERAML, {"margin": -0.1}, "margin must be a finite number of 0 or more"),
        (ERAML, {"weight": "x"}, "weight must be a number of 0 or more"),
        (DER, {"alpha": -1.0}, "alpha"),
        (MIR, {"candidates": -5}, "candidates"),
        (ICaRL, {"distil": "yes"}, "distil must be True or False, not 'yes'"),
        (SSIL, {"distil": True}, "there are False, rehearsal, incoming"),
        (SCR, {"views": 3}, "unknown value of SCR: views '3': there are 1, 2"),
        (SCR, {"views": True}, "views"),
        (GDumb, {"batch": 0}, "batch must be a whole number of 1 or more"),
        (GDumb, {"momentum": 1.5}, "momentum must be a finite number of 0 or more and at most 1"),
        (GDumb, {"clip": 0.0}, "clip"),
        (IIDOffline, {"passes": 0}, "passes"),
    ],
)
def test_options_out_of_range_are_refused_at_once(method: type[Method], options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        method(**options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "options"), [("er", {"replay": "-1"}), ("gdumb", {"batch": "0"}), ("er-aml", {"weight": "-2"})]
)
def test_the_command_line_has_the_same_limits(name: str, options: dict[str, str]) -> None:
    with pytest.raises(InputError, match="must be"):
        make(name, options)


@pytest.mark.parametrize("name", METHODS)
def test_numpys_values_become_pythons(name: str) -> None:
    method = METHODS[name]
    given: dict[str, Any] = {key: np.asarray(value)[()] for key, value in vars(method()).items() if value is not None}
    assert repr(method(**given)) == repr(method())


def test_what_is_at_the_edge_is_accepted() -> None:
    assert ER(replay=0).replay == 0
    assert ERAML(weight=None).weight is None and ERAML(weight=0).weight == 0
    assert GDumb(clip=math.inf).clip == math.inf


@dataclass(frozen=True, kw_only=True)
class Own(ER):
    """The hints of a user's own options are held to, but no limits are made up."""

    shift: int = -3
    limit: float = math.inf
    mode: Literal["a", "b"] = "a"
    both: int | str = "auto"
    anything: Any = None


def test_options_of_a_users_own_method() -> None:
    given: dict[str, Any] = {"shift": np.int64(-5), "limit": 2, "both": "x"}
    assert Own(**given).shift == -5
    wrongs: list[dict[str, Any]] = [{"shift": 1.5}, {"limit": "far"}, {"mode": "c"}, {"replay": -1}]
    for wrong in wrongs:
        with pytest.raises(InputError):
            Own(**wrong)


@dataclass(frozen=True, kw_only=True)
class Unresolved(ER):
    thing: "Nothing | None" = None


def test_a_hint_that_only_type_checkers_can_read_is_no_obstacle() -> None:
    assert Unresolved(replay=3).replay == 3


def test_a_loss_that_is_no_tensor_is_named() -> None:
    class Careless(ER):
        def loss(self, net: Any, new: Any, old: Any = None) -> Any:
            return 3.0

    learner = Learner(mlp((4,)), Careless(), memory=5)
    with pytest.raises(InputError, match=r"Careless\.loss must return a tensor, not 3\.0"):
        learner.observe(np.zeros((2, 4), np.float32), ["a", "b"])
