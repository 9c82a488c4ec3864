"""Options that came later: records from before say what they are, and are not taken for runs of what is usual now."""

import json
from dataclasses import fields
from pathlib import Path

import pytest

from holdfast import methods
from holdfast.commands.main import main
from holdfast.methods import METHODS
from holdfast.runs.earlier import BEFORE, FIRST, completed
from holdfast.runs.identity import RecordIndex
from holdfast.runs.spec import RunSpec
from holdfast.runs.store import Store
from tests.runs.test_runs_command import exported_record

NOW, RELEASED = (RunSpec(stream="fashion", method="er-aml", options=o) for o in ({}, {"positives": "released"}))


def test_methods_and_records_agree_on_what_was_before() -> None:
    """Where it is not what is usual now."""
    changed = {
        name: [each for each in fields(method) if each.metadata.get("before", each.default) != each.default]
        for name, method in METHODS.items()
    }
    said = {name: {each.name: str(each.metadata["before"]) for each in its} for name, its in changed.items() if its}
    assert said == BEFORE


@pytest.mark.parametrize("options", [{}, {"temperature": "0.1"}])
def test_a_record_from_before_an_option_is_one_of_what_was_done_then(options: dict[str, str], tmp_path: Path) -> None:
    old = exported_record() | {"method": "er-aml", "options": options, "title": "er-aml"}
    (tmp_path / "old.json").write_text(json.dumps([old]))
    assert main(["runs", "import", str(tmp_path / "old.json"), "--out", str(tmp_path)]) == 0
    store = Store(tmp_path / "runs.sqlite")
    store.keep("f" * 16, {**old, "title": "er-aml"})  # as a version from before has written it
    there = store.rows()
    named = ",".join(f"{name}={value}" for name, value in options.items())
    assert {row["title"] for row in there} == {"er-aml:" + ",".join(filter(None, (named, "positives=released")))}
    assert [store.record(row["id"])["options"] for row in there] == [options | {"positives": "released"}] * 2
    now, released = (RunSpec(**{**spec.as_json(), "options": {**spec.options, **options}}) for spec in (NOW, RELEASED))
    assert RecordIndex(there).of(released) and not RecordIndex(there).of(now)


def test_values_have_their_present_names() -> None:
    old = {"method": "ss-il", "options": {"distil": "true", "replay": "5"}, "title": "ss-il:distil=true,replay=5†"}
    now = completed(old)
    assert now["options"] == {"distil": "incoming+rehearsal", "replay": "5"}
    assert now["title"] == "ss-il:distil=incoming+rehearsal,replay=5†"
    for method, renamed in FIRST.items():
        for option, names in renamed.items():
            assert all(methods.make(method, {option: name}) for name in names.values())


def test_a_new_record_names_the_option_and_keeps_its_title() -> None:
    record = {**NOW.as_json(), "title": NOW.title}
    assert record["options"] == {"positives": "others"} and record["title"] == "er-aml"
    assert completed(record) == record
    assert RecordIndex([record]).of(NOW) and not RecordIndex([record]).of(RELEASED)
