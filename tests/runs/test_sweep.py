"""What a sweep promises, with real processes."""

import multiprocessing
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.claims import Claims
from holdfast.cli import main
from holdfast.errors import InUse
from holdfast.runs.grid import grid
from holdfast.runs.local import Local
from holdfast.runs.run import run
from holdfast.runs.spec import RunSpec
from holdfast.runs.store import Store
from holdfast.runs.sweep import LIVES, Sweep
from holdfast.runs.work import Advanced, Event, Finished, Started

Same = Callable[[dict[str, Any]], dict[str, Any]]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "runs.sqlite")
    store.open()
    return store


def test_every_record_is_the_one_a_single_run_gives(npz: str, tmp_path: Path, store: Store, same: Same) -> None:
    specs = grid(stream=npz, method=["er", "er-aml", "iid++"], memory=5, seeds=2)
    events: list[Event] = []
    sweep = Sweep(specs, store, tmp_path)
    sweep.run(Local(tmp_path, 2), events.append)
    assert {e.spec for e in events if isinstance(e, Started)} == set(specs) == set(sweep.done())
    for spec, record in zip(sweep.done(), sweep.records(), strict=True):
        kept = {key: value for key, value in record.items() if key not in ("id", "status", "why", "finished")}
        assert same(kept) == same(run(spec, tmp_path))
    again: list[Event] = []
    sweep.run(Local(tmp_path, 2), again.append)
    assert again == []


def test_the_same_run_written_in_two_ways_is_done_once(npz: str, tmp_path: Path, store: Store) -> None:
    sweep = Sweep(grid(stream=npz, method=["er-ace", "er-ace:compete=batch"], seeds=1), store, tmp_path)
    sweep.run(Local(tmp_path, 2))
    assert len(store.rows()) == 1


BROKEN = """
import os, signal
from holdfast import ER

class Broken(ER):
    def loss(self, net, new, old=None):
        raise RuntimeError("as it must")

class Killed(ER):
    def loss(self, net, new, old=None):
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_run_that_fails_does_not_stop_the_others(npz: str, tmp_path: Path, store: Store) -> None:
    file = tmp_path / "broken.py"
    file.write_text(BROKEN)
    broken, killed, fine = grid(stream=npz, method=[f"{file}:Broken", f"{file}:Killed", "er"], seeds=1)
    sweep = Sweep([broken, killed, fine], store, tmp_path)
    sweep.run(Local(tmp_path, 2))
    assert sweep.failed() == [broken, killed] and sweep.done() == [fine]
    why = {spec: store.record(sweep.ids[spec])["why"] for spec in sweep.failed()}
    assert "Traceback" in why[broken] and why[broken].rstrip().endswith("RuntimeError: as it must")
    assert f"died {LIVES} times" in why[killed] and str(-signal.SIGKILL) in why[killed]
    events: list[Event] = []
    sweep.run(Local(tmp_path, 2), events.append)
    assert events == [], "what failed is left alone until asked for"
    sweep.forget(sweep.failed())
    assert sweep.missing() == [broken, killed]


GOES = """
from pathlib import Path
from holdfast import ER

class Goes(ER):
    def loss(self, net, new, old=None):
        Path(__file__).unlink()
        raise RuntimeError("as it must")
"""


def test_a_methods_file_may_vanish_while_it_is_at_work(npz: str, tmp_path: Path, store: Store) -> None:
    file = tmp_path / "goes.py"
    file.write_text(GOES)
    goes, fine = grid(stream=npz, method=[f"{file}:Goes", "er"], seeds=1)
    sweep = Sweep([goes, fine], store, tmp_path)
    sweep.run(Local(tmp_path, 1))
    assert sweep.failed() == [goes] and sweep.done() == [fine]
    assert goes.title == "goes.py:Goes"


def test_ctrl_c_saves_and_the_next_time_goes_on(slow: RunSpec, tmp_path: Path, store: Store) -> None:
    def interrupt(event: Event) -> None:
        if isinstance(event, Advanced):
            raise KeyboardInterrupt

    sweep = Sweep([slow], store, tmp_path)
    sweep.run(Local(tmp_path, 1), interrupt)
    assert sweep.stopped
    assert multiprocessing.active_children() == []
    assert store.rows() == []
    seen: list[Event] = []
    again = Sweep([slow], store, tmp_path)
    again.run(Local(tmp_path, 1), seen.append)
    first = next(event for event in seen if isinstance(event, Advanced))
    assert first.progress.step > 5, "it went on, it did not begin again"
    assert isinstance(seen[-1], Finished) and len(again.done()) == 1
    assert list((tmp_path / "runs.snapshots").iterdir()) == []


def test_where_no_process_can_start_it_ends_at_once(npz: str, tmp_path: Path) -> None:
    script = "from holdfast.cli import main\nraise SystemExit(main(ARGUMENTS))"  # what stdin says cannot be imported
    arguments = ["run", "--stream", npz, "--out", str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, "-"],
        input=script.replace("ARGUMENTS", repr(arguments)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "holdfast: processes for runs end before they begin" in done.stderr
    assert Store(tmp_path / "out" / "runs.sqlite").rows() == []


HOLD = """
import sys, time
from pathlib import Path
from holdfast.claims import Claims
from holdfast.cli import main

claims = Claims(Path(sys.argv[1]))
claims.take({sys.argv[2]: "the second"})
print("held", flush=True)
time.sleep(600)
"""


def test_what_another_process_is_at_is_refused_with_its_pid_and_free_when_it_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "claims"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(file), "b"], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        with Claims(file) as claims:
            with pytest.raises(InUse, match=f"the second is in use by process {other.pid};"):
                claims.take({"a": "the first", "b": "the second"})
            claims.take({"c": "the third"})
            other.kill()
            other.wait()
            claims.take({"a": "the first", "b": "the second"})


def test_runs_are_repeated_only_where_no_other_process_is_at_them(
    npz: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command that is refused has changed nothing."""
    command = ["run", "--stream", npz, "--method", "er", "--seeds", "2", "--out", str(tmp_path), "--fresh"]
    assert main(command) == 0
    store = Store(tmp_path / "runs.sqlite")
    before = {row["seed"]: store.record(row["id"]) for row in store.rows()}
    hold = [sys.executable, "-c", HOLD, str(tmp_path / "runs.claims"), before[1]["id"]]
    with subprocess.Popen(hold, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        try:
            refused = main(command)
        finally:
            other.kill()
    assert refused == 2
    assert f"er seed 1 is in use by process {other.pid}" in capsys.readouterr().err
    assert {row["seed"]: store.record(row["id"]) for row in store.rows()} == before
    assert main(command) == 0
    assert all(row["seconds"] != before[row["seed"]]["seconds"] for row in store.rows())
