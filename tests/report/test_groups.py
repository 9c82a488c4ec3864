"""Methods as they are meant to be used stand side by side; what somebody chose sets tables apart."""

from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.commands.main import main
from holdfast.report.groups import by_setting, of_methods
from holdfast.report.tables import headline, summarised
from holdfast.runs.spec import RunSpec

USUAL: dict[str, dict[str, Any]] = {
    "er": {"codec": None, "lr": 0.1, "augment": False, "average": 0.0},
    "er-ace": {"codec": None, "lr": 0.1, "augment": False, "average": 0.0},
    "holdfast": {"codec": "webp:75", "lr": 0.05, "augment": True, "average": 0.99},
}
MEASURED = dict.fromkeys(("acc", "aaa", "forgetting", "train_macs", "memory_bytes", "seconds"), 0.5)


def record(method: str, **chosen: Any) -> dict[str, Any]:
    usual = USUAL[method]
    spec = RunSpec(**{"stream": "fashion", "method": method, **usual, **chosen})
    return {**spec.as_json(), "title": method, "usual": usual, **MEASURED}


DEFAULTS = [record(method) for method in USUAL]


def split(*records: dict[str, Any]) -> dict[tuple[str, ...], list[str]]:
    return {apart: [each["title"] for each in group] for apart, group in by_setting(records).items()}


def test_what_nobody_chose_sets_nothing_apart() -> None:
    assert split(*DEFAULTS) == {(): ["er", "er-ace", "holdfast"]}
    assert headline(DEFAULTS) == "fashion, 20 samples a class in memory, 1 seed"
    several = [{**each, "updates_per_batch": 10, "usual": {"updates_per_batch": 10}} for each in DEFAULTS]
    assert headline(several) == "fashion, 20 samples a class in memory, 10 updates a batch, 1 seed"
    assert split(*DEFAULTS, *(record(method, memory=5) for method in USUAL)) == {
        ("memory=20",): ["er", "er-ace", "holdfast"],
        ("memory=5",): ["er", "er-ace", "holdfast"],
    }


def test_what_was_chosen_does() -> None:
    assert split(*DEFAULTS, record("er", lr=0.01)) == {
        ("lr by method",): ["er", "er-ace", "holdfast"],
        ("lr=0.01",): ["er"],
    }
    assert split(record("er"), record("holdfast"), record("holdfast", augment=False)) == {
        ("augment=False",): ["er", "holdfast"],
        ("augment=True",): ["holdfast"],
    }


def test_what_sets_apart_is_called_as_on_the_command_line() -> None:
    assert list(split(record("er"), record("er", updates_per_batch=5))) == [("updates=1",), ("updates=5",)]


def test_a_grid_of_values_is_compared_value_by_value() -> None:
    grid = [record(method, lr=lr) for method in ("er", "holdfast") for lr in (0.1, 0.05)]
    assert split(*grid) == {("lr=0.1",): ["er", "holdfast"], ("lr=0.05",): ["er", "holdfast"]}


def test_records_from_before_methods_had_a_say() -> None:
    old = [{name: value for name, value in each.items() if name != "usual"} for each in DEFAULTS[:2]]
    assert split(*old, DEFAULTS[2]) == {(): ["er", "er-ace", "holdfast"]}


def test_the_table_says_what_each_method_has_of_its_own() -> None:
    said = "er, er-ace: codec=raw lr=0.1 augment=no average=0; holdfast: codec=webp:75 lr=0.05 augment=yes average=0.99"
    assert of_methods(DEFAULTS) == said
    assert summarised(DEFAULTS).notes == [said]
    assert list(summarised(DEFAULTS).blocks) == [""]
    assert of_methods(DEFAULTS[:2]) == ""


@pytest.mark.slow
def test_default_methods_share_a_table_a_picture_and_a_part_of_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--stream", "fashion:first=5", "--seeds", "1", "--jobs", "1", "--eval-every", "25"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("majority") == 1
    assert [file.name for file in tmp_path.rglob("*.png")] == ["anytime.png"]
    results = holdfast.run(stream="fashion:first=5", seeds=1, eval_every=25, progress=False)
    assert results.compare().titles == ["er", "er-ace", "holdfast"]
    assert results._repr_html_().count("majority") == 1
    assert main(["report", "holdfast-runs"]) == 0
    page = (tmp_path / "holdfast-runs" / "report.html").read_text()
    assert page.count('class="setting"') == 1 and "holdfast: codec=webp:75 lr=0.05" in page
