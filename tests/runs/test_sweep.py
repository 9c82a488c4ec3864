"""What a sweep promises, with real processes."""

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.commands.main import main
from holdfast.datasets.base import from_arrays
from holdfast.errors import InUse
from holdfast.report import tables
from holdfast.runs.backends import local
from holdfast.runs.backends.inside import Inside
from holdfast.runs.backends.local import Local
from holdfast.runs.grid import grid
from holdfast.runs.run import run
from holdfast.runs.spec import RunSpec
from holdfast.runs.store import Store
from holdfast.runs.sweep import MOST_DEATHS, Sweep
from holdfast.runs.worker import Advanced, Event, Finished, Job, Started
from holdfast.storage.locks import NameLocks
from holdfast.streams import Source

serve = local._serve
Same = Callable[[dict[str, Any]], dict[str, Any]]


@pytest.mark.slow
def test_every_record_is_the_one_a_single_run_gives(npz: str, tmp_path: Path, store: Store, same: Same) -> None:
    specs = grid(stream=npz, method=["er", "er-aml", "iid++"], memory=5, seeds=2, updates=1)
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


@pytest.mark.slow
def test_the_same_run_written_in_two_ways_is_done_once(npz: str, tmp_path: Path, store: Store) -> None:
    sweep = Sweep(grid(stream=npz, method=["er-ace", "er-ace:compete=batch"], seeds=1), store, tmp_path)
    sweep.run(Local(tmp_path, 2))
    assert len(store.rows()) == 1


def test_the_same_data_under_another_name_is_shown_by_that_name(npz: str, tmp_path: Path, store: Store) -> None:
    renamed = f"arrays:{shutil.copy(npz.removeprefix('arrays:'), tmp_path / 'renamed.npz')}"
    before, now = (Sweep(grid(stream=name, method="ncm", seeds=1), store, tmp_path) for name in (npz, renamed))
    before.run(Inside(before.sources, {}))
    assert not now.to_do()
    assert [each["stream"] for each in (*now.rows(), *now.records())] == [renamed] * 2
    assert list(now.sources) == [renamed] == [setting.stream for setting in now.baselines()]


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


def test_a_failure_of_our_own_is_one_line_and_the_table_names_its_method(tmp_path: Path, store: Store) -> None:
    y = np.arange(40) % 2
    wide = (np.c_[y, 1e6 * (y + np.random.default_rng(0).random(40))]).astype(np.float32)
    source = Source(from_arrays(wide, y, wide, y), {"order": "split", "batch": 5, "tasks": 2})
    specs = grid(stream="wide", method=["er", "ncm"], seeds=2, lr=10.0)
    sweep = Sweep(specs, store, tmp_path, sources={"wide": source})
    sweep.run(Inside(sweep.sources, {}))
    for spec in sweep.failed():
        (why,) = store.record(sweep.ids[spec])["why"].splitlines()
        assert why.endswith("a smaller lr may help, or standardise=True where columns differ in scale")
    *_, last = tables.summarised(sweep.rows(), failed=sweep.failures()).notes
    assert last == "failed and not in the table: er (2 runs)"
    assert last in str(tables.summary(sweep.rows(), failed=sweep.failures()).caption)


def test_a_run_that_fails_does_not_stop_the_others(npz: str, tmp_path: Path, store: Store) -> None:
    file = tmp_path / "broken.py"
    file.write_text(BROKEN)
    broken, killed, fine = grid(stream=npz, method=[f"{file}:Broken", f"{file}:Killed", "er"], seeds=1, updates=1)
    sweep = Sweep([broken, killed, fine], store, tmp_path)
    sweep.run(Local(tmp_path, 2))
    assert sweep.failed() == [broken, killed] and sweep.done() == [fine]
    why = {spec: store.record(sweep.ids[spec])["why"] for spec in sweep.failed()}
    assert "Traceback" in why[broken] and why[broken].rstrip().endswith("RuntimeError: as it must")
    assert f"died {MOST_DEATHS} times" in why[killed] and str(-signal.SIGKILL) in why[killed]
    assert sweep.failures() == {"broken.py:Broken": 1, "broken.py:Killed": 1}
    events: list[Event] = []
    sweep.run(Local(tmp_path, 2), events.append)
    assert events == [], "what failed is left alone until asked for"
    sweep.run(Local(tmp_path, 2), events.append, repeat=[broken])
    assert {event.spec for event in events} == {broken}


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
    goes, fine = grid(stream=npz, method=[f"{file}:Goes", "er"], seeds=1, updates=1)
    sweep = Sweep([goes, fine], store, tmp_path)
    sweep.run(Local(tmp_path, 1))
    assert sweep.failed() == [goes] and sweep.done() == [fine]
    assert goes.title == "goes.py:Goes"


CUT_OFF = """
import os, signal
from multiprocessing.connection import Connection
from pathlib import Path
from holdfast import ER

def cut_off(self, content, write=os.write):
    if len(content) > 1000:  # no message but a snapshot is that long in the middle of a run
        Path(__file__).with_suffix(".cut").touch()
        os.write(self.fileno(), content[: len(content) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    return os.write(self.fileno(), content)

class CutOff(ER):
    def loss(self, net, new, old=None):
        if old is not None and not Path(__file__).with_suffix(".cut").exists():
            Connection._send = cut_off
        return super().loss(net, new, old)
"""


AS_INSTALLED = "import sys; from holdfast.commands.main import main; sys.exit(main(sys.argv[1:]))"


@pytest.mark.slow
def test_files_beside_the_user_are_not_taken_for_modules_of_python(npz: str, tmp_path: Path) -> None:
    command, here = tmp_path / "bin" / "holdfast", tmp_path / "here"
    command.parent.mkdir()
    here.mkdir()
    command.write_text(AS_INSTALLED)
    (here / "json.py").write_text(
        "from dataclasses import dataclass\nfrom holdfast import ER\n\n"
        "@dataclass(frozen=True, kw_only=True)\nclass Own(ER): ...\n"
    )
    (here / "warnings.py").write_text("raise RuntimeError")
    run = [sys.executable, str(command), "run", "--stream", npz, "--method", "json.py:Own", "--seeds", "1"]
    done = subprocess.run([*run, "--jobs", "1"], cwd=here, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr


@pytest.mark.slow
def test_a_worker_may_die_in_the_middle_of_a_message(npz: str, tmp_path: Path, store: Store, same: Same) -> None:
    file = tmp_path / "method.py"
    file.write_text(CUT_OFF)
    specs = grid(stream=npz, method=[f"{file}:CutOff", "er"], seeds=1, updates=1)
    sweep = Sweep(specs, store, tmp_path, snapshot_every=1e-6)
    sweep.run(Local(tmp_path, 1))
    assert file.with_suffix(".cut").exists()
    assert sweep.done() == specs
    assert same(store.record(sweep.ids[specs[0]]))["state_hash"] == run(specs[0], tmp_path)["state_hash"]


def killed_before_it_speaks(root: Path, sources: Mapping[str, Source], connection: Connection) -> None:
    """Six times; then workers are as they always are."""
    for number in range(6):
        with suppress(FileExistsError):
            (root / f"killed {number}").touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)
    serve(root, sources, connection)


@pytest.mark.slow
def test_workers_that_are_killed_never_end_a_sweep(
    npz: str, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_serve", killed_before_it_speaks)
    sweep = Sweep(grid(stream=npz, method="er", seeds=3), store, tmp_path)
    sweep.run(Local(tmp_path, 2))
    assert len(list(tmp_path.glob("killed *"))) == 6
    assert len(sweep.done()) == 3


INTERRUPTED = """
import os, signal, sys, threading, time
from pathlib import Path
from holdfast.commands.main import main
from holdfast.runs.backends import local

def context():
    found = local.multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["takes_long_to_import"])
    return found

def interrupt():
    while not Path("importing").exists():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)

local._context = context
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=interrupt, daemon=True).start()
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_nobody_waits_for_processes_that_are_still_starting(npz: str, tmp_path: Path) -> None:
    """Not even who reads what the command and its processes print."""
    (tmp_path / "takes_long_to_import.py").write_text("open('importing', 'w').close()\nimport time\ntime.sleep(600)\n")
    (tmp_path / "script.py").write_text(INTERRUPTED)
    command = [sys.executable, "script.py", "run", "--stream", npz, "--out", "out"]
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 130
    assert done.stderr.splitlines()[-1].startswith("holdfast: stopped; 0 of 9 runs")
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_ctrl_c_saves_and_the_next_time_goes_on(slow: RunSpec, tmp_path: Path, store: Store) -> None:
    reached: list[int] = []

    def interrupt(event: Event) -> None:
        if isinstance(event, Advanced):
            reached.append(event.progress.step)
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
    assert first.progress.step > reached[0], "it went on, it did not begin again"
    assert isinstance(seen[-1], Finished) and len(again.done()) == 1
    assert list((tmp_path / "runs.snapshots").iterdir()) == []


NOTHING_STARTS = """
import sys
from holdfast.runs.backends import local
local._serve.__module__ = "nowhere"  # for processes that are started; here it is
sys.modules["nowhere"] = local
"""


@pytest.mark.slow
def test_where_no_process_can_start_it_ends_at_once(npz: str, tmp_path: Path) -> None:
    script = NOTHING_STARTS + "from holdfast.commands.main import main\nraise SystemExit(main(ARGUMENTS))"
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


def test_a_holder_in_another_container_has_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NameLocks, "_lock", lambda *_: 0)  # as Linux says it
    with NameLocks(tmp_path / "claims") as claims, pytest.raises(InUse, match="in use by another process") as refused:
        claims.take({"a": "er seed 0"})
    assert refused.value.pid is None


HOLD = """
import sys, time
from pathlib import Path
from holdfast.storage.locks import NameLocks
from holdfast.commands.main import main

claims = NameLocks(Path(sys.argv[1]))
claims.take({sys.argv[2]: "the second"})
print("held", flush=True)
time.sleep(600)
"""


def test_what_another_process_is_at_is_refused_with_its_pid_and_free_when_it_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "claims"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(file), "b"], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        with NameLocks(file) as claims:
            with pytest.raises(InUse, match=f"the second is in use by process {other.pid};"):
                claims.take({"a": "the first", "b": "the second"})
            claims.take({"c": "the third"})
            other.kill()
            other.wait()
            claims.take({"a": "the first", "b": "the second"})


@pytest.mark.slow
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


def test_a_record_stays_until_its_repetition_is_done(npz: str, tmp_path: Path) -> None:
    """Whatever ends the command meanwhile."""
    specs = grid(stream=npz, method="er", seeds=1, updates=1)
    store = Store(tmp_path / "runs.sqlite")
    store.open()
    sweep = Sweep(specs, store, tmp_path)
    sweep.run(Local(tmp_path, 1))
    before = store.record(sweep.ids[specs[0]])

    class Stopped(Local):
        def start(self, job: Job) -> None:
            raise KeyboardInterrupt

    sweep.run(Stopped(tmp_path, 1), repeat=specs)
    assert sweep.stopped and store.record(sweep.ids[specs[0]]) == before
