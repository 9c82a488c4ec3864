"""How long it would take: what the estimate counts, by a clock that only the parts under test move."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from torch import Tensor

from holdfast.batch import Batch
from holdfast.commands.main import main
from holdfast.learner import Learner
from holdfast.losses import cross_entropy
from holdfast.measure.probes import PROBES
from holdfast.memory import Memory
from holdfast.methods.base import StepContext
from holdfast.methods.gdumb import GDumb
from holdfast.methods.icarl import ICaRL
from holdfast.methods.ssil import SSIL
from holdfast.nets import Net
from holdfast.reproduction.estimate import Estimates, estimate, seconds
from holdfast.reproduction.setting import Setting
from holdfast.runs.plan import plan
from holdfast.runs.spec import RunSpec
from holdfast.runs.store import Store
from holdfast.runs.sweep import Sweep
from holdfast.streams import Stream, source

Spend = Callable[[float], None]


@pytest.fixture
def spend(monkeypatch: pytest.MonkeyPatch) -> Spend:
    """Time passes only by this."""
    now = 0.0

    def pass_by(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(time, "perf_counter", lambda: now)
    return pass_by


def estimated(spec: RunSpec) -> float:
    return seconds(plan(spec, source(spec.stream, Path())))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["paper", "T7", "--quick", "--estimate", "--out", str(tmp_path)]) == 0
    assert "18 of 18 runs are missing: about " in capsys.readouterr().out


def test_one_run_is_not_done_by_two_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.reproduction.estimate.seconds", lambda planned: 60.0)
    specs = Setting(method="er", memory=20).specs(3, quick=True)
    for runs, whole in ((1, "1:00"), (2, "1:00"), (3, "1:30")):
        store = Store(tmp_path / f"{runs}.sqlite")
        store.open()
        sweep = Sweep(specs[:runs], store, tmp_path)
        assert f"{runs} of {runs} runs are missing: about {whole} (m:ss) with 2 at a time" in estimate(sweep, 2)


def test_replay_that_begins_with_the_second_task_and_grows(spend: Spend, monkeypatch: pytest.MonkeyPatch) -> None:
    def loss(self: SSIL, net: Net, new: Batch, old: Batch | None = None) -> Tensor:
        spend(1 if old is None else len(old.y))
        return 0 * cross_entropy(net(new.x), new.y)

    monkeypatch.setattr(SSIL, "loss", loss)
    spec = RunSpec(stream="fashion:rehearsal=balanced", method="ss-il", memory=20)
    assert estimated(spec) == 100 * (1 + 10 + 20 + 30 + 40)


def test_probes(spend: Spend, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []

    def look(learner: Learner, stream: Stream) -> None:
        looked.append(len(learner.memory))
        spend(1)

    monkeypatch.setattr(PROBES["drift"], "before", look)
    every_tenth, after_switches = 50, 4 * 18
    assert (
        estimated(RunSpec(stream="fashion", method="er", memory=20, probe=("drift",))) == every_tenth + after_switches
    )
    assert looked == [200], "one look, at a memory that is full"


def test_class_means_before_every_evaluation(spend: Spend, monkeypatch: pytest.MonkeyPatch) -> None:
    def means(self: ICaRL, net: Net, memory: Memory) -> Net:
        spend(len(memory))
        return net

    monkeypatch.setattr(ICaRL, "predictor", means)
    assert estimated(RunSpec(stream="fashion", method="icarl", memory=20)) == 50 * 200


@pytest.mark.parametrize(("query", "asked"), [("end", 1), ("retrain", 50)])
def test_nets_trained_to_answer(query: str, asked: int, spend: Spend, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(self: GDumb, at: StepContext) -> Net:
        spend(self.rounds * len(at.memory))
        return at.net

    monkeypatch.setattr(GDumb, "answering_net", train)
    spec = RunSpec(stream="fashion", method="gdumb", options={"rounds": "7", "query": query}, memory=20)
    assert estimated(spec) == asked * 7 * 200


def of_store(spec: RunSpec, seconds: float, updates: int = 500) -> dict[str, object]:
    return {**spec.as_json(), "seconds": seconds, "updates": updates}


def test_runs_in_a_store_that_compute_the_same_say_how_long_one_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.reproduction.estimate.seconds", lambda planned: 7.0)
    er = RunSpec(stream="fashion", method="er", memory=5)
    icarl = replace(er, method="icarl")
    made = [of_store(er, 100.0), of_store(replace(er, seed=1), 300.0), of_store(replace(er, seed=2), 110.0)]
    made += [of_store(icarl, 200.0), of_store(replace(er, method="no_such_method"), 1.0)]
    made += [of_store(replace(er, method="gone.py:Mine"), 1.0), of_store(replace(er, probe=("drift",)), 1.0)]
    known = Estimates(made, Path())
    assert known.seconds(er) == pytest.approx(110)
    assert known.seconds(replace(er, memory=20, seed=7, augment=True)) == pytest.approx(110), "as long in an update"
    assert known.seconds(replace(er, stream="fashion:share=50")) == pytest.approx(110 * 300 / 500), "fewer updates"
    assert known.seconds(icarl) == pytest.approx(200)
    for other in (replace(icarl, memory=20), replace(er, options={"replay": "20"}), replace(er, probe=("drift",))):
        assert known.seconds(other) == pytest.approx(7), "nothing like it in the store: it is tried"
