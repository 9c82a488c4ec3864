"""What must never happen does not, and if it did, it would be seen."""

import inspect
import os
import re
import sqlite3
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from types import FunctionType as Function
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import holdfast
from holdfast import machine
from holdfast.durable import durable, history, log
from holdfast.durable.folder import Folder
from holdfast.durable.snapshot import Place
from holdfast.learner import answers, soundness, state, transaction, versions
from holdfast.memory import class_index, reservoir, thinning
from holdfast.nets import encoders, heads
from holdfast.runs.store import Store
from holdfast.storage import checkpoint, files, locks
from holdfast.storage.files import Appendix
from reliability import (
    acts,
    clocks,
    containers,
    crashes,
    cuts,
    damage,
    durable_learner,
    endurance,
    entries,
    exhaustion,
    folders,
    forgeries,
    growth,
    interrupts,
    learners,
    moments,
    moves,
    odds,
    readers,
    requests,
    seals,
    services,
    signals,
    writes,
)
from reliability.__main__ import FIGURES
from reliability.disk import FaultyDisk
from reliability.outcome import Measure, Outcome, Skipped, counted
from reliability.scenarios import scenarios
from reliability.watch import Watch

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", FIGURES)
def test_figures(name: str) -> None:
    outcome = FIGURES[name].measure(1)
    assert (outcome.tried > 0 or outcome.skipped) and not outcome.lost


def test_what_cannot_be_tried_here_is_said_and_not_counted() -> None:
    @counted
    def figure(effort: int) -> Iterator[str | None]:
        yield from (None, Skipped("no mounts"), "lost")

    assert figure(1) == Outcome(2, ["lost"], ["no mounts"])


def test_only_what_is_done_inside_goes_through_the_disk(tmp_path: Path) -> None:
    with FaultyDisk(tmp_path) as disk:
        files.write(tmp_path / "file", b"content")
        of_files = disk.operations
        Store(tmp_path / "runs.sqlite").open()
        of_both = disk.operations
    files.write(tmp_path / "file", b"content")
    Store(tmp_path / "others.sqlite").open()
    assert 0 < of_files < of_both == disk.operations


@pytest.mark.parametrize(
    ("function", "part", "instead", "figure"),
    [
        ("_replace", "os.fsync(file.fileno())", "pass", crashes.power_loss),
        ("_replace", "_sync_folder(path.parent)", "pass", crashes.power_loss),
        ("_replace", "os.replace", "path.exists() and os.unlink(path); os.replace", crashes.crash_at_every_operation),
        ("write", "raise WriteError", "raise KeyError", crashes.disk_full_or_failing),
        ("make_folder", "_sync_folder(each.parent)", "pass", crashes.power_loss),
    ],
)
def test_careless_files_are_noticed(
    function: str, part: str, instead: str, figure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = "a new store" if function == "make_folder" else "a checkpoint over an older one"
    only(scenario, monkeypatch)
    monkeypatch.setattr(files, function, changed(getattr(files, function), part, instead))
    assert figure(1).lost


@pytest.mark.parametrize(
    ("method", "part", "instead", "figure"),
    [
        (Appendix.append, "self._sync()", "pass", crashes.power_loss),
        (Appendix._cut_back, "os.ftruncate(self._handle, size)", "pass", crashes.killed_after_a_failure),
        (Appendix.append, "raise self._failed(error) from error", "return", crashes.killed_after_a_failure),
        (Appendix.make_safe, "raise self._failed(error) from error", "return", crashes.disk_full_or_failing),
        (
            Folder.checkpoint,
            "following =",
            "self._place and files.remove(self.path / self._place.name); following =",
            crashes.crash_at_every_operation,
        ),
        (Folder.go_on, "anew or", "False and", crashes.crash_at_every_operation),
        (Folder.go_back, "self.checkpoint(serialized)", "pass", crashes.killed_after_a_failure),
    ],
)
def test_a_careless_durable_learner_is_noticed(
    method: Function, part: str, instead: str, figure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = {"Appendix": Appendix, "Folder": Folder}[method.__qualname__.split(".")[0]]
    monkeypatch.setattr(crashes, "scenarios", lambda effort: [])
    monkeypatch.setattr(owner, method.__name__, changed(method, part, instead))
    assert any(trials_of(figure))


@pytest.mark.parametrize("scenario", ["a new store", "a store", "a store that is also read"])
def test_a_store_that_does_not_sync_is_noticed(scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connected = Store._connected

    @contextmanager
    def careless(store: Store) -> Iterator[sqlite3.Connection]:
        with connected(store) as db:
            db.execute("PRAGMA synchronous = OFF")
            yield db

    only(scenario, monkeypatch)
    monkeypatch.setattr(Store, "_connected", careless)
    assert crashes.power_loss(1).lost


def test_a_store_that_takes_missing_bytes_for_zeros_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "_check_length", lambda *_: None)
    assert any(cuts.cut_store(1, runs=40, evaluations=0))


@pytest.mark.parametrize(
    ("function", "part", "instead", "figure"),
    [
        (log._entry, "right == frame", "True", damage.bits_flipped),
        (log.examined, "safe > place", "False", damage.bits_flipped),
        (checkpoint.unpack, "digest(tensors, text) != checksum", "False", damage.bits_flipped),
        (checkpoint.distrust, "except Exception", "except AttributeError", forgeries.forged_files),
        (encoders.built_in, "shapes != {", "None is {", forgeries.forged_files),
    ],
)
def test_trust_is_noticed(
    function: Function, part: str, instead: str, figure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    careless = changed(function, part, instead)
    monkeypatch.setattr(f"{function.__module__}.{function.__name__}", careless)
    monkeypatch.setattr(state, "built_in", encoders.built_in)
    assert any(trials_of(figure))


@pytest.mark.parametrize(
    ("function", "part", "instead", "figure"),
    [
        (heads._resized, "resized[:rows] = value[:rows]", "pass", growth.rows_stay),
        (heads.Head.grow, "] = parameter.detach()", "] = 0", growth.rows_stay),
        (reservoir.Reservoir._admit, "rng.integers(0, arrival + 1)", "rng.integers(0, 9, n)", odds.reservoirs_are_fair),
        (thinning.Thinning.fit, "** (1 / self._now)", "** 0", odds.encoded_reservoirs_are_fair),
        (versions.Versions._current, "not version.readers", "True", readers.changed_at_every_line_of_an_answer),
        (versions.Version.keep_memory, ".copy()", "", readers.changed_at_every_line_of_an_answer),
        (versions.Versions.storing, "True", "False", readers.asked_at_every_line_of_a_change),
        (answers.scores_at, "version.labels", "learner.labels.known", readers.changed_at_every_line_of_an_answer),
        (answers._predictor, "version.net", "learner.net", readers.asked_at_every_line_of_a_change),
        (versions.Version.give_back, "torch._foreach_copy_(live, copies)", "pass", interrupts.interrupted_anywhere),
        (class_index.Journal.undo, "self._undo[-1]()", "self._undo.pop()(); continue", interrupts.interrupted_anywhere),
        (transaction.Changes.mend, "change.journal.undo()", "pass", interrupts.interrupted_anywhere),
        (transaction.Changes.settle, "change.closing.undo()", "pass", interrupts.interrupted_anywhere),
    ],
)
def test_a_careless_learner_is_noticed(
    function: Function, part: str, instead: str, figure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{function.__module__}.{function.__qualname__}", changed(function, part, instead))
    assert any(trials_of(figure))


def test_a_lock_that_is_entered_in_python_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lock:
        def __init__(self) -> None:
            self._lock = threading.RLock()

        def __enter__(self) -> None:
            self._lock.acquire()

        def __exit__(self, *how: object) -> None:
            self._lock.release()

    monkeypatch.setattr(transaction, "threading", SimpleNamespace(RLock=Lock, Lock=threading.Lock))
    monkeypatch.setattr(signals, "FOLLOWED", (*signals.FOLLOWED, __file__))
    monkeypatch.setattr(interrupts, "OPERATIONS", {"checkpoint": interrupts.OPERATIONS["checkpoint"]})
    monkeypatch.setattr(interrupts, "LONG", 1.0)
    assert any("a lock is lost" in line for line in trials_of(interrupts.interrupted_anywhere, effort=10) if line)


def test_a_folder_that_stays_locked_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holdfast, "open", changed(durable.open, "folder.abandon()", "pass"))
    assert any(trials_of(interrupts.opened_and_closed))


@pytest.mark.parametrize(
    ("method", "part", "instead", "act"),
    [
        (locks.FolderLock._take, "_flocked(folder, os.O_RDONLY)", "os.open(folder, 0)", acts.copied),
        (Folder._check, "not self._lock.is_in_place", "False", acts.moved),
        (Folder._check, "not self._lock.is_in_place", "False", acts.replaced),
        (Place.is_of_this_learner, "identity is not None and self", "True or self", acts.strangers),
        (Folder.__init__, "path.absolute()", "path", acts.directory_changed),
        (locks.FolderLock._write, "self.is_signature(self._name)", "True", acts.lock_of_another),
    ],
)
def test_a_careless_folder_is_noticed(
    method: Function, part: str, instead: str, act: acts.Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not any(folders.walk([act, act], "relative"))
    monkeypatch.setattr(f"{method.__module__}.{method.__qualname__}", changed(method, part, instead))
    assert any(folders.walk([act, act], "relative"))


@pytest.mark.parametrize(
    ("function", "part", "instead", "figure"),
    [
        (log._entry, "right == frame", "True", entries.entries_mixed_up),
        (log.framed, "key=chain", "key=salt", entries.entries_mixed_up),
        (log.examined, "safe > place", "False", entries.entries_mixed_up),
        (heads.Head._exchange, "setattr(self, name, new)", "old.data, new = new.data, old", moments.steps_that_failed),
        (versions.Version.give_back, "torch._foreach_copy_(live, copies)", "pass", moments.steps_that_failed),
        (class_index.Journal.undo, "while self._undo", "while False", exhaustion.out_of_memory_anywhere),
        (files.write, "raise WriteError", "raise KeyError", writes.disk_becomes_read_only),
        (files._replace, "os.replace", "path.exists() and os.unlink(path); os.replace", writes.calls_interrupted),
        (Appendix._write, "rest = rest[os.write", "rest = memoryview(b'')[os.write", writes.written_in_parts),
    ],
)
def test_carelessness_in_a_bad_moment_is_noticed(
    function: Function, part: str, instead: str, figure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{function.__module__}.{function.__qualname__}", changed(function, part, instead))
    assert any(trials_of(figure))


@pytest.mark.parametrize(
    ("check", "kind", "tensor", "forge"),
    [
        ("_is_state", 4, "optimizer/0/exp_avg_sq", None),
        ("_is_state", 4, "optimizer/0/step", lambda step: step - 99),
        ("_takes_its_features", 0, "net/head.weight", lambda weight: weight[:, :3]),
        ("_is_kept", 1, "memory/column/logits", None),
    ],
)
def test_trust_in_right_checksums_is_noticed(
    check: str, kind: int, tensor: str, forge: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors, manifest = checkpoint.unpack(seals.KINDS[kind].content())
    there = tensors.pop(tensor)
    tensors |= {} if forge is None else {tensor: forge(there)}
    content = checkpoint.pack(tensors, manifest)
    assert seals.forged(seals.KINDS[kind], content) is None
    monkeypatch.setattr(soundness, check, lambda *_: True)
    assert seals.forged(seals.KINDS[kind], content)


def test_a_log_that_is_synced_by_the_clock_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_the_clock(log: Any) -> None:
        with suppress(OSError):
            while True:
                until = time.monotonic() + log._sync_every
                while time.monotonic() < until:
                    threading.Event().wait(0.001)
                os.fsync(log._handle)
                log.synced = log.size

    monkeypatch.setattr(Appendix, "_keep_syncing", by_the_clock)
    monkeypatch.setattr(clocks, "PATIENCE", 0.3)
    assert any(trials_of(clocks.clocks_jump))


def test_checkpoints_that_are_kept_by_the_clock_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "TICK", -(10**12))
    assert any(trials_of(clocks.clocks_jump_between_checkpoints))


def look_without_a_lock(folder: Path, messages: Connection) -> None:
    vars(locks)["_flocked"] = os.open
    containers.look(folder, messages)


def test_a_second_container_that_is_not_refused_is_noticed(tmp_path: Path) -> None:
    try:
        trials = containers.flaws_of_sharing(tmp_path, "one", "two", 0.0, look_without_a_lock)
        assert "not refused" in (next(trials) or "")
        trials.close()  # type: ignore[attr-defined]
    except containers.NotAllowed as error:
        pytest.skip(str(error))


def test_what_a_learner_loses_on_its_way_is_noticed(tmp_path: Path) -> None:
    for name, value in (("right", 1.0), ("arrived", 1.0001)):
        files.write(tmp_path / name, checkpoint.pack({"weight": torch.tensor([value])}, {}))
    there = {**machine.conditions(), "threads": 99}
    told: dict[str, Any] = {"arrived": moves.OPERATIONS, "hash": "same", "conditions": there, "warned": True}

    def flaw(has_log: bool = True, **changes: Any) -> str:
        return moves.flaw_of_arriving(told | changes, tmp_path, "same", has_log=has_log) or ""

    assert not flaw()
    assert "operations acknowledged" in flaw(arrived=moves.OPERATIONS - 1)
    assert "not told of other bits" in flaw(warned=False)
    assert "another one" in flaw(has_log=False, hash="other")
    assert "not told" in (moves.flaw_of_warning([], there, has_log=True) or "")
    files.write(tmp_path / "arrived", checkpoint.pack({"weight": torch.tensor([2.0])}, {}))
    assert "too unlike" in flaw()


def test_a_learner_that_lost_a_deed_or_did_another_is_noticed(tmp_path: Path) -> None:
    with durable_learner.opened(tmp_path) as learner:
        for _ in range(4):
            done = learners.operation(learner)
    assert learners.flaw_at_the_end(tmp_path, done, more=0) is None
    assert learners.flaw_at_the_end(tmp_path, done + 1, more=0) == "5 operations acknowledged, 4 there"
    with durable_learner.opened(tmp_path) as learner:
        learner.observe(*durable_learner.batch(30))
    assert learners.flaw_at_the_end(tmp_path, done + 1, more=0) == "after 5 operations it is another learner"


def test_what_grows_is_noticed() -> None:
    calm: dict[str, Any] = {"resident": [2**30] * 50, "slower": 1.1, "disk": [5000] * 50, "most_slower": 1.2}
    assert not any(endurance.flaws(**calm))
    for growing, told in (
        ({"resident": [2**30] * 49 + [2**30 + 2**21]}, "memory grew by 2.0 MiB"),
        ({"slower": 1.3}, "1.30 times as long"),
        ({"disk": [5000] * 49 + [10**6]}, "more bytes"),
    ):
        assert told in " ".join(filter(None, endurance.flaws(**(calm | growing))))
    seconds = np.ones((100, 2))
    seconds[90:] = 2.6, 2
    assert endurance.slower_at_the_end(seconds) == 1.3


def test_what_a_forged_file_does_is_noticed(tmp_path: Path) -> None:
    def imports() -> None:
        sys.modules.pop("this_is_new", None)
        sys.modules["this_is_new"] = sys

    for operation, told in (
        (lambda: (tmp_path / "file").write_text("x"), "open"),
        (lambda: os.system("true"), r"os\.system"),
        (lambda: eval("1"), "compile"),
        (lambda: time.sleep(2.1), "took"),
        (lambda: torch.ones(2**28), "MiB"),
        (lambda: vars(files)["missing"], "KeyError"),
        (imports, "this_is_new"),
    ):
        assert re.search(told, Watch(ZeroDivisionError).flaw(operation) or "")
    assert Watch(ZeroDivisionError).flaw(lambda: 1 / 0) is None


def trials_of(figure: Measure, effort: int = 1) -> Iterator[str | None]:
    """One after the other, so that the first that notices is the last."""
    trials: Iterator[str | None] = inspect.unwrap(figure)(effort)
    return trials


def only(scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        crashes, "scenarios", lambda effort: [each for each in scenarios(effort) if each.what == scenario]
    )
    monkeypatch.setattr(durable_learner, "scenarios", lambda effort: [])


def changed(function: Any, part: str, instead: str) -> Any:
    """A function or method, with a part of it exchanged."""
    function = inspect.unwrap(function)
    source = "from __future__ import annotations\n" + textwrap.dedent(inspect.getsource(function))
    assert part in source
    found: dict[str, Any] = {}
    exec(source.replace(part, instead), function.__globals__, found)
    return found[function.__name__]


def test_a_batch_that_a_service_lost_doubled_or_learned_in_another_order_is_seen(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    load = services.Load("", batches=1, acknowledged={number: number + 1 for number in range(services.CLIENTS)})
    with services.opened(tmp_path / "served") as learner:
        for number in (1, 0, *range(2, services.CLIENTS)):
            learner.observe(*services.batch(number), key=f"batch {number}")
    assert "another state" in str(services.flaw_of_what_was_learned(tmp_path, load))
    for step in (1, 3):
        load.acknowledged[0] = step
        found = services.flaw_of_what_was_learned(tmp_path, load)
        assert "another state" in str(found) if step == 1 else found == "a batch was lost, or learned twice"


def test_a_service_that_tells_too_much_of_a_failing_disk_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.serve import app
    from holdfast.serve.refusals import Refused

    monkeypatch.setattr(app, "refusal", lambda error: Refused(503, str(error)))
    assert services.disks_and_folders_that_fail(1).lost


def test_a_service_that_waits_for_ever_is_seen(tmp_path: Path) -> None:
    server = services.Server(tmp_path / "served", "--timeout", "60")
    with services.running(server), holdfast.Client(server.address) as client:
        client.observe(*services.batch(0))
        slow = (b"GET / HTTP/1.1\r\n", 1.0, True)
        assert services.flaw_of_manners(server, client, slow) == "it waits for ever"


def test_an_answer_that_fails_or_changes_what_it_should_not_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with requests.watched(tmp_path / "served") as (service, _):
        assert service.flaw(422, "{}", tmp_path) is None
        assert "500" in str(service.flaw(500, "", tmp_path))
        assert "too much" in str(service.flaw(422, f"in {tmp_path}", tmp_path))
        service.service.learner.observe(*services.batch(1))
        assert "has changed" in str(service.flaw(422, "{}", tmp_path))
        monkeypatch.setattr(requests, "MOST_MORE", -1)
        assert "bytes more" in str(service.flaw(200, "{}", tmp_path))
