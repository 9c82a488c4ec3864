"""A record says what its bits depend on, and a run that goes on elsewhere says so."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from holdfast import machine
from holdfast.commands.main import main
from holdfast.measure.precision import Precision
from holdfast.runs.plan import plan
from holdfast.runs.run import Run, run
from holdfast.runs.spec import RunSpec
from holdfast.runs.worker import Finished, Job, Noted, perform
from holdfast.streams import source

ARITHMETIC = """
import torch
from holdfast import machine
torch.set_num_threads(1)
print(machine.conditions()["arithmetic"])
"""


def arithmetic(**limits: str) -> str:
    done = subprocess.run([sys.executable, "-c", ARITHMETIC], env=os.environ | limits, capture_output=True, check=True)
    return done.stdout.decode().strip()


@pytest.fixture
def uncached() -> Iterator[None]:
    machine._arithmetic.cache_clear()
    yield
    machine._arithmetic.cache_clear()


@pytest.mark.usefixtures("uncached")
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, partial(torch.autocast, "cpu", torch.bfloat16)])
def test_the_arithmetic_of_a_machine_does_not_depend_on_the_modes_of_torch(mode: Any) -> None:
    before = machine.conditions()
    machine._arithmetic.cache_clear()
    with mode():
        torch.set_default_dtype(torch.float64)
        try:
            assert machine.conditions() == before
            assert torch.get_default_dtype() == torch.float64
        finally:
            torch.set_default_dtype(torch.float32)


def test_the_arithmetic_is_found_again_where_matrix_products_are_set_to_less_precision() -> None:
    before, calls = machine.conditions(), machine._arithmetic.cache_info().misses
    torch.set_float32_matmul_precision("medium")
    try:
        machine.conditions()
        assert machine._arithmetic.cache_info().misses == calls + 1
    finally:
        torch.set_float32_matmul_precision("highest")
    assert machine.conditions() == before


@pytest.fixture
def spec(npz: str) -> RunSpec:
    return RunSpec(stream=npz, method="er-ace", memory=4)


@pytest.mark.slow
def test_the_arithmetic_of_a_machine_is_the_same_each_time_and_another_under_other_instructions() -> None:
    assert arithmetic() == arithmetic()
    assert arithmetic(ATEN_CPU_CAPABILITY="default", ONEDNN_MAX_CPU_ISA="SSE41") != arithmetic() or (
        machine.limits().get("ATEN_CPU_CAPABILITY") == "default"
    )


def test_a_record_says_what_its_bits_depend_on(spec: RunSpec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    record = run(spec, tmp_path)
    environment = record["environment"]
    assert environment["arithmetic"] == machine.conditions()["arithmetic"]
    assert environment["limits"]["ONEDNN_MAX_CPU_ISA"] == "AVX2"
    assert {"torch", "threads", "device", "processor", "cpu"} <= environment.keys()
    assert environment["elsewhere"] == []
    assert record["precision"] == {"name": "float32", "why": record["precision"]["why"]}


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From now on we are on another kind of processor."""

    def move() -> None:
        monkeypatch.setattr(machine, "_arithmetic", lambda threads, precision: "another")

    return move


def halfway(spec: RunSpec, root: Path) -> bytes:
    begun = Run(plan(spec, source(spec.stream, root)))
    while begun.learner.step < len(begun.stream) // 2:
        begun.advance()
    begun.precision = Precision("bf16", "it was tried there")
    return begun.snapshot()


def gone_on(spec: RunSpec, root: Path, snapshot: bytes) -> tuple[list[str], dict[str, Any]]:
    events = list(perform(Job(spec, snapshot), lambda: source(spec.stream, root)))
    (record,) = [event.record for event in events if isinstance(event, Finished)]
    return [event.text for event in events if isinstance(event, Noted)], json.loads(json.dumps(record))


def test_a_run_that_goes_on_where_it_was_keeps_its_precision(spec: RunSpec, tmp_path: Path) -> None:
    notes, record = gone_on(spec, tmp_path, halfway(spec, tmp_path))
    assert notes == []
    assert record["precision"]["name"] == "bf16" and record["environment"]["elsewhere"] == []


def test_a_run_that_goes_on_on_another_processor_says_so(
    spec: RunSpec, tmp_path: Path, elsewhere: Callable[[], None]
) -> None:
    snapshot, there = halfway(spec, tmp_path), machine.conditions()
    elsewhere()
    notes, record = gone_on(spec, tmp_path, snapshot)
    (note,) = notes
    assert f"arithmetic another here and {there['arithmetic']} there" in note
    assert record["environment"]["elsewhere"] == [there]
    assert record["precision"]["name"] == "float32"  # what was found there may crash here


@pytest.mark.slow
def test_records_made_elsewhere_or_in_another_precision_are_said_to_be(
    npz: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["run", "--stream", npz, "--method", "er", "--seeds", "1", "--net", "mlp", "--out", str(tmp_path / "out")]
    command += ["--jobs", "1"]

    def said(*more: str) -> str:
        assert main([*command, *more]) == 0
        return " ".join(capsys.readouterr().err.split())

    said()
    assert "already (--fresh repeats them)" in said()
    assert "1 of them not in bf16" in said("--precision", "bf16")
    monkeypatch.setattr(machine, "_arithmetic", lambda threads, precision: "another")
    assert "1 of them under other conditions (processor, torch, threads)" in said()
    assert said("--quiet") == ""
    assert main([*command, "--quiet"]) == 0
    assert "1 of 1 runs were made under other conditions" in " ".join(capsys.readouterr().out.split())


def test_an_empty_id_is_no_run(npz: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(tmp_path / "out")]
    assert main(["run", "--stream", npz, "--method", "er", "--seeds", "1", "--jobs", "1", *out]) == 0
    assert main(["runs", "rm", "", *out]) == 2
    assert "id is empty" in capsys.readouterr().err
    assert main(["runs", "list", *out]) == 0
    assert "1 runs" in capsys.readouterr().out
