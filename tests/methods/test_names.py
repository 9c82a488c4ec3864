from pathlib import Path

import pytest

from holdfast import ERACE, ERAML
from holdfast.errors import InputError
from holdfast.methods import METHODS, find, make

OWN = """
from dataclasses import dataclass
from holdfast import Method
from holdfast.losses import cross_entropy

@dataclass(frozen=True, kw_only=True)
class HalfReplay(Method):
    share: float = 0.5

    def loss(self, net, new, old=None):
        incoming = cross_entropy(net(new.x), new.y)
        return incoming if old is None else incoming + self.share * cross_entropy(net(old.x), old.y)

class NotAMethod: ...
"""


def test_every_name_makes_a_method() -> None:
    assert {name: type(make(name)) for name in METHODS} == METHODS


def test_options_are_read_as_what_they_are() -> None:
    assert make("er-ace", {"compete": "batch+unseen", "replay": "20"}) == ERACE(compete="batch+unseen", replay=20)
    assert make("er-aml", {"loss": "triplet", "weight": "none", "margin": "0.5"}) == ERAML(metric="triplet", margin=0.5)
    assert make("er-aml", {"weight": "3"}) == ERAML(weight=3.0)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("er-acee", {}, "did you mean 'er-ace'"),
        ("er-ace", {"competes": "batch"}, "did you mean 'compete'"),
        ("er-ace", {"compete": "bach"}, "did you mean 'batch'"),
        ("er", {"replay": "ten"}, "must be an int"),
        ("er-aml", {"temperature": "warm"}, "must be a float"),
        ("nowhere.py:Own", {}, "no file nowhere.py"),
    ],
)
def test_mistakes_are_named_in_one_line(name: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        make(name, options)
    assert "\n" not in str(error.value)


def test_a_method_from_a_file_of_the_users(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(OWN)
    method = make(f"{file}:HalfReplay", {"share": "0.25"})
    assert repr(method) == "HalfReplay(head='linear', replay=10, share=0.25)"
    with pytest.raises(InputError, match="did you mean 'HalfReplay'"):
        find(f"{file}:HalfRepaly")
    with pytest.raises(InputError, match="not a subclass"):
        find(f"{file}:NotAMethod")
    file.write_text("import nowhere_to_be_found")
    with pytest.raises(InputError, match="nowhere_to_be_found"):
        find(f"{file}:HalfReplay")
