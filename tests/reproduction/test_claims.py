"""Claims of the text: what they compute, when they hold, and how they are shown."""

import json
from pathlib import Path

import pytest

from holdfast.commands.main import main
from holdfast.reproduction.claims import (
    DOES_NOT,
    HOLDS,
    OPEN,
    Claim,
    Interval,
    Rule,
    at_least,
    at_most,
    difference,
    exactly_nothing,
    judge,
    lead,
    markdown,
    positive,
    relative_lead,
    settings,
)
from holdfast.reproduction.setting import Setting
from holdfast.reproduction.text_claims import CLAIMS
from holdfast.runs.identity import kind
from holdfast.runs.store import Record, Store

WIDE, NARROW, ONE = Interval(3, 4.0, -1.0, 9.0), Interval(3, 4.0, 3.0, 5.0), Interval(1, 4.0, None, None)
LOW = Interval(3, -4.0, -5.0, -3.0)


def claim(words: str) -> Claim:
    (found,) = (each for each in CLAIMS if words in each.text)
    return found


def nothing(setting: Setting) -> list[Record]:
    return []


@pytest.mark.parametrize(
    ("rule", "found", "verdict"),
    [
        (positive, NARROW, HOLDS),
        (positive, WIDE, OPEN),
        (positive, ONE, OPEN),
        (positive, LOW, DOES_NOT),
        (at_least(4.5), NARROW, HOLDS),
        (at_least(6), NARROW, DOES_NOT),
        (at_least(2), NARROW, HOLDS),
        (at_least(6), WIDE, OPEN),
        (at_least(6), ONE, OPEN),
        (at_most(2), LOW, HOLDS),
        (at_most(2), NARROW, DOES_NOT),
        (at_most(2), WIDE, OPEN),
        (at_most(9), WIDE, HOLDS),
        (at_most(2), ONE, OPEN),
        (exactly_nothing, Interval(1, 0.0, None, None), HOLDS),
        (exactly_nothing, ONE, DOES_NOT),
    ],
)
def test_when_a_claim_holds(rule: Rule, found: Interval, verdict: str) -> None:
    assert rule(found) == verdict


def test_the_published_tables_give_the_36_per_cent_and_the_35() -> None:
    (gain,) = judge([claim("36 %")], nothing)
    assert gain.verdict == OPEN and [round(f.published or 0) for f in gain.findings] == [36]
    (gain,) = judge([claim("35 %")], nothing)
    published = {finding.where: finding.published for finding in gain.findings}
    assert published["Split CIFAR-100, AAA"] == pytest.approx(35.1, abs=0.05)
    assert published["Split CIFAR-100, Acc"] == pytest.approx(30.3, abs=0.05)


def test_what_is_computed_of_shared_seeds() -> None:
    ours, others, best = {0: 4.0, 1: 5.0, 2: 9.0}, {1: 1.0, 2: 2.0, 3: 7.0}, {1: 4.0, 2: 8.0}
    assert difference(ours, others) == {1: 4, 2: 7}
    assert lead(ours, others, best) == {1: 1, 2: 1}, "over the best on average"
    assert relative_lead(ours, best, {1: 4.0, 2: 6.0}) == {1: 25, 2: 50}, "of the better of both"


def runs(accuracies: dict[str, list[float]], memory: int = 20) -> dict[Setting, list[Record]]:
    return {
        Setting(method=method, memory=memory): [
            {"id": f"{method} {memory} {seed}", "seed": seed, "acc": acc} for seed, acc in enumerate(values)
        ]
        for method, values in accuracies.items()
    }


ABOVE = {"er-aml": [0.40, 0.41, 0.42], "er-aml:negatives=all": [0.30, 0.311, 0.322]}


def test_a_claim_is_judged_by_the_runs_of_all_its_settings() -> None:
    raises = claim("negatives from incoming classes only raises")
    at_20 = runs(ABOVE)
    (judged,) = judge([raises], lambda setting: at_20.get(setting, []))
    there, missing = judged.findings
    assert there.verdict == HOLDS and there.ours is not None and there.ours.n == 3
    assert there.ours.mean == pytest.approx(9.9)
    assert missing.ours is None and judged.verdict == OPEN, "nothing at M = 50"
    both = at_20 | runs(ABOVE, memory=50)
    assert judge([raises], lambda setting: both.get(setting, []))[0].verdict == HOLDS
    other = at_20 | runs({"er-aml": [0.2, 0.21], "er-aml:negatives=all": [0.3, 0.311]}, memory=50)
    (judged,) = judge([raises], lambda setting: other.get(setting, []))
    assert judged.verdict == DOES_NOT
    text = markdown([judged])
    assert "M = 20: +9.9 points (n = 3; " in text and ", holds<br>M = 50: " in text and "**does not hold**" in text


def test_every_claim_rests_on_runs_that_can_be_made() -> None:
    needed = settings(CLAIMS)
    assert len(needed) > 100 and Setting(method="der", augment=True) in needed
    for setting in needed:
        (spec,) = setting.specs(1)
        kind(spec)  # finds options that there are not
        setting.specs(1, quick=True)


@pytest.mark.slow
def test_the_command_writes_what_it_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["paper", "claims", "--out", str(tmp_path)]) == 2
    assert "there are no runs in" in capsys.readouterr().err
    to = ["--quick", "--seeds", "2", "--out", str(tmp_path)]
    assert main(["paper", "T7", *to, "--only", "memory=20"]) == 0
    before = len(Store(tmp_path / "runs.sqlite").rows())
    capsys.readouterr()
    assert main(["paper", "claims", *to]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Taking negatives from incoming classes only raises" in shown and "(n = 2; " in shown
    assert len(Store(tmp_path / "runs.sqlite").rows()) == before, "nothing is run"
    found = json.loads((tmp_path / "paper" / "claims-miniature.json").read_text())
    assert len(found) == len(CLAIMS) and {each["verdict"] for each in found} <= {HOLDS, DOES_NOT, OPEN}
    (raised,) = (each for each in found if "only raises" in each["text"])
    assert raised["parts"][0]["ours"]["n"] == 2 and len(raised["parts"][0]["runs"]) == 4
    assert (tmp_path / "paper" / "claims-miniature.md").read_text().count("\n| ") == len(CLAIMS)


@pytest.mark.slow
def test_a_plan_can_be_for_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.reproduction.estimate.Estimates.seconds", lambda self, spec: 60.0)
    only = ["--only", "method=der", "--quick", "--seeds", "1", "--out", str(tmp_path)]
    assert main(["paper", "claims", "--plan", "1", *only]) == 0
    assert [row["method"] for row in Store(tmp_path / "runs.sqlite").rows()] == ["der"]
