from pathlib import Path

import pytest

from holdfast import methods
from holdfast.errors import InputError
from holdfast.runs.spec import RunSpec
from holdfast.runs.store import Store
from holdfast.seeds import generator


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("er", "er", {}),
        ("er-ace:compete=batch+unseen,head=linear", "er-ace", {"compete": "batch+unseen", "head": "linear"}),
        ("own/my.py:Mine", "own/my.py:Mine", {}),
        ("own/my.py:Mine:share=0.5", "own/my.py:Mine", {"share": "0.5"}),
    ],
)
def test_methods_as_written_on_the_command_line(text: str, name: str, options: dict[str, str]) -> None:
    assert methods.parse(text) == (name, options)


@pytest.mark.parametrize("text", ["er:replay=", "er:=3", "er:replay=3,", "er:replay=3,head"])
def test_broken_options(text: str) -> None:
    with pytest.raises(InputError, match="option=value"):
        methods.parse(text)


@pytest.mark.parametrize(
    "wrong",
    [{"memory": -1}, {"lr": 0.0}, {"lr": float("nan")}, {"seed": -1}, {"seed": 2**63}, {"eval_every": 10**30}],
)
def test_impossible_numbers(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match="must be"):
        RunSpec(stream="fashion", method="er", **wrong)  # type: ignore[arg-type]


def test_the_largest_seed_is_kept(tmp_path: Path) -> None:
    seed = 2**63 - 1
    assert generator(RunSpec(stream="fashion", method="er", seed=seed).seed, "net").random() > 0
    store = Store(tmp_path / "runs.sqlite")
    store.open()
    store.keep("run", {"seed": seed})
    assert store.rows()[0]["seed"] == seed
