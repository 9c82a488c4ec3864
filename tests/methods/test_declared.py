"""What a method can do is what it declares."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from holdfast import ER, InputError
from holdfast.methods import METHODS


def test_a_method_that_answers_in_its_own_way_declares_from_what() -> None:
    with pytest.raises(InputError, match="Own has a predictor of its own, so it has to declare answers_from_memory"):

        class Own(ER):
            def predictor(self, net: Any, memory: Any) -> Any:
                return net

    with pytest.raises(InputError, match="it has to declare trains_to_answer"):

        class Trains(ER):
            def answering_net(self, at: Any) -> Any:
                return at.net


def test_whoever_declares_it_is_taken_at_their_word() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Own(ER):
        trains_to_answer: ClassVar[bool] = True

        def answering_net(self, at: Any) -> Any:
            return at.net

    assert Own().trains_to_answer
    assert not Own().answers_from_memory


def test_the_built_in_methods() -> None:
    assert [name for name, method in METHODS.items() if method().trains_to_answer] == ["gdumb"]
    assert [name for name, method in METHODS.items() if method().answers_from_memory] == ["icarl", "scr"]
