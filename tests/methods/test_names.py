import json
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import get_type_hints

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


def test_a_file_of_the_users_replaces_no_other_module(tmp_path: Path) -> None:
    file = tmp_path / "json.py"
    file.write_text(OWN)
    make(f"{file}:HalfReplay")
    assert sys.modules["json"] is json


def test_files_of_one_name_do_not_share_anything(tmp_path: Path) -> None:
    texts = {kind: OWN.replace(": float", ": Share") + f"Share = {kind.__name__}\n" for kind in (int, float)}
    found = {}
    for kind, text in texts.items():
        file = tmp_path / kind.__name__ / "own.py"
        file.parent.mkdir()
        file.write_text("from __future__ import annotations\n" + text)
        found[kind] = find(f"{file}:HalfReplay")
    assert all(get_type_hints(method)["share"] is kind for kind, method in found.items())


def test_a_file_is_executed_once_for_each_content(tmp_path: Path) -> None:
    file, executed = tmp_path / "own.py", tmp_path / "executed"
    text = f"with open({str(executed)!r}, 'a') as file: file.write('x')\n" + OWN
    file.write_text(text)
    first = find(f"{file}:HalfReplay")
    assert find(f"{file}:HalfReplay") is first and find(f"{os.path.relpath(file)}:HalfReplay") is first
    assert executed.read_text() == "x"
    file.write_text(text.replace("0.5", "0.7"))  # as long as before, and within the same second
    assert make(f"{file}:HalfReplay") != first()
    assert executed.read_text() == "xx"


@pytest.mark.slow
def test_a_method_from_a_file_is_pickled_for_processes_that_have_the_file(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(OWN)
    method = make(f"{file}:HalfReplay", {"share": "0.25"})
    show = "import pickle, sys; print(pickle.loads(sys.stdin.buffer.read()))"
    there = subprocess.run([sys.executable, "-c", show], input=pickle.dumps(method), capture_output=True, check=True)
    assert there.stdout.decode().strip() == repr(method)
    file.unlink()
    assert pickle.loads(pickle.dumps(method)) == method, "here it is known"
    assert replace(method, replay=3).replay == 3
