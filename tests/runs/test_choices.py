"""A field of a run is listed once; whatever shows or takes fields has them all."""

import argparse
from dataclasses import fields

import pytest

from holdfast.commands import cost, run
from holdfast.report.groups import by_setting
from holdfast.report.page import details
from holdfast.runs import schema
from holdfast.runs.grid import grid
from holdfast.runs.identity import kind, work
from holdfast.runs.spec import CHOICES, LATER, SETTING, RunSpec, from_record

OTHER = {  # another value of each field
    "stream": "cifar10",
    "method": "mir",
    "memory": 7,
    "codec": "png",
    "seed": 4,
    "lr": 0.5,
    "momentum": 0.5,
    "augment": True,
    "average": 0.5,
    "updates_per_batch": 3,
    "standardise": True,
    "net": "mlp",
    "start": "er",
    "probe": "drift",
    "eval_every": 3,
    "eval_mode": "rotating:2",
}
SPEC = RunSpec(stream="fashion", method="er-ace")


def test_all_fields_are_tried_here() -> None:
    assert OTHER.keys() == CHOICES.keys() == {field.name for field in fields(RunSpec)} - {"options", "undecided"}


@pytest.mark.parametrize("name", OTHER)
def test_a_field_is_an_option_an_axis_a_column_and_part_of_what_a_run_is(name: str) -> None:
    choice, other = CHOICES[name], OTHER[name]
    (spec,) = grid(**{"method": "er-ace", "seed": 0, choice.name: other})
    assert getattr(spec, name) == ((other,) if name == "probe" else other)
    if name != "seed":
        parser = argparse.ArgumentParser()
        run.describe(parser)
        typed = [choice.option] if choice.kinds == (bool,) else [choice.option, str(other)]
        read = getattr(parser.parse_args(typed), choice.name)
        assert read == ([other] if name == "method" else other) and choice.option in parser.format_help()
    usual = RunSpec(**{field: getattr(SPEC, field) for field in ("stream", "method")})
    record = {**usual.as_json(), "title": "", "why": None, "evaluations": [], "id": "", name: getattr(spec, name)}
    assert name in schema.KINDS and (name in schema.FIELDS) == (name not in LATER)
    assert details(record)["groups"]["Setting"][name] == getattr(spec, name)
    plain = {**usual.as_json(), "id": "", "title": ""}
    assert len(by_setting([plain, plain | {name: getattr(spec, name)}])) == 1 + (name in SETTING)
    assert from_record(record) == RunSpec(**{**{f: getattr(usual, f) for f in CHOICES}, name: getattr(spec, name)})
    assert (kind(from_record(record)) == kind(usual)) == (name in ("seed", "probe"))
    assert (work(from_record(record)) == work(usual)) == (choice.affects is None)


def test_what_cost_takes_is_what_changes_multiply_adds() -> None:
    parser = argparse.ArgumentParser()
    cost.describe(parser)
    options = {word.rstrip(",") for word in parser.format_help().split() if word.startswith("--")}
    assert options >= {choice.option for choice in CHOICES.values() if choice.affects == "macs"}
    assert not options & {choice.option for choice in CHOICES.values() if choice.affects != "macs"}
