import json
from pathlib import Path

import pytest

from holdfast import methods
from holdfast.commands.cost import estimate
from holdfast.commands.main import main
from holdfast.methods import METHODS
from holdfast.runs.run import run
from holdfast.runs.spec import RunSpec

OPTIONS = [
    "er-aml:fetch=incoming-first",
    "ss-il:distil=rehearsal",
    "icarl:distil=false",
    "gdumb:query=retrain,rounds=4",
    "scr:views=1",
]


@pytest.mark.slow
@pytest.mark.parametrize("method", [*(name for name in METHODS if name != "gdumb"), "gdumb:rounds=4", *OPTIONS])
def test_what_a_run_would_cost_is_what_it_costs(method: str, npz: str, tmp_path: Path) -> None:
    name, options = methods.parse(method)
    spec = RunSpec(stream=npz, method=name, options=options, memory=4, eval_every=3, lr=0.001)
    ledger, record = estimate(spec, tmp_path), run(spec, tmp_path)
    assert {**ledger.macs, "evaluation": 0} == {**record["macs"], "evaluation": 0}
    assert ledger.train_macs == record["train_macs"] > 0
    assert ledger.mean_bytes == record["memory_bytes"]


@pytest.mark.parametrize("changes", [{"stream": ":rehearsal=balanced"}, {"start": "fine-tuning"}])
def test_tasks_in_which_the_learner_is_another_cost_what_they_cost(
    changes: dict[str, str], npz: str, tmp_path: Path
) -> None:
    stream = npz + changes.pop("stream", "")
    spec = RunSpec(stream=stream, method="er", memory=4, lr=0.001, **changes)  # type: ignore[arg-type]
    assert estimate(spec, tmp_path).train_macs == run(spec, tmp_path)["train_macs"]


def test_published_and_true_parts_of_a_step(npz: str, tmp_path: Path) -> None:
    """MIR forwards its candidates twice, a teacher forwards what it teaches, DER++ replays twice."""
    forwards = {}
    for method in ("er", "der++", "mir", "icarl", "a-gem"):
        ledger = estimate(RunSpec(stream=f"{npz}:batch=10", method=method, memory=20), tmp_path)
        forwards[method] = ledger.macs
    assert forwards["der++"]["forward"] == pytest.approx(1.5 * forwards["er"]["forward"], rel=0.03)
    assert forwards["a-gem"]["forward"] == forwards["er"]["forward"]
    assert forwards["mir"]["retrieval"] == pytest.approx(10 * forwards["icarl"]["retrieval"], rel=0.2)
    assert forwards["er"]["query"] == 0 < forwards["icarl"]["query"]


@pytest.mark.slow
def test_the_command_shows_it(npz: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "--stream", npz, "--memory", "5", "--method", "er", "--method", "mir"]) == 0
    out = capsys.readouterr().out
    assert "mir†" in out and "†: is told the task" in out.replace("\n", " ")


def test_methods_that_are_told_the_task_refuse_streams_without(npz: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["cost"], ["run", "--seeds", "1"]):
        assert main([*command, "--stream", f"{npz}:order=iid", "--method", "icarl"]) == 2
        assert "icarl is told the task" in capsys.readouterr().err


def test_costs_can_be_read_by_programs(npz: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "--stream", npz, "--memory", "5", "--method", "er", "--json"]) == 0
    (costs,) = json.loads(capsys.readouterr().out).values()
    assert costs["total"] == sum(costs[account] for account in ("forward", "backward", "retrieval", "query")) > 0
    assert costs["bytes"] > 0 and costs["seconds"] > 0
