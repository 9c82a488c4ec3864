"""A learner in a folder: nothing acknowledged is lost, whatever happens to its process."""

import copy
import enum
import gc
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import holdfast
from holdfast import ER, ERACE, Learner, Reservoir, machine, mlp
from holdfast.durable import DurableLearner
from holdfast.errors import (
    CheckpointError,
    HoldfastError,
    InputError,
    InUse,
    LabelError,
    NonFiniteError,
    OtherBits,
    TicketError,
    WriteError,
)
from tests.durable.small import opened
from tests.reachable import bytes_within

RNG = np.random.default_rng(0)
BATCHES = [(RNG.standard_normal((4, 3)).astype(np.float32), [f"k{i // 3}"] * 4) for i in range(12)]


def plain(batches: int = len(BATCHES)) -> Learner:
    learner = Learner(mlp((3,), width=8), ERACE(), memory=20)
    for x, y in BATCHES[:batches]:
        learner.observe(x, y)
    return learner


@pytest.mark.slow
@pytest.mark.parametrize("checkpoint_every", [1, 5, 1000])
@pytest.mark.parametrize("sync_every", [0.0, 0.01])
def test_reopening_after_any_batch_gives_the_same_bits(home: Path, checkpoint_every: int, sync_every: float) -> None:
    for number, (x, y) in enumerate(BATCHES):
        with opened(home, checkpoint_every=checkpoint_every, sync_every=sync_every) as learner:
            assert learner.state_hash() == plain(number).state_hash()
            learner.observe(x, y)
    with holdfast.open(home) as learner:  # a built-in encoder and method need not be named again
        assert learner.state_hash() == plain().state_hash()


def test_the_log_is_bounded(home: Path) -> None:
    with opened(home, checkpoint_every=4) as learner:
        sizes = []
        for x, y in BATCHES * 3:
            learner.observe(x, y)
            sizes.append(sum(file.stat().st_size for file in home.glob("log.*")))
    entry = sizes[0]
    assert max(sizes) <= 4 * entry + 200 and len(list(home.glob("log.*"))) == 1


def test_what_a_killed_writer_leaves_behind_is_removed(home: Path) -> None:
    kills = "import os, sys; from pathlib import Path; from holdfast.storage import files\n"
    kills += "os.replace = lambda *_: os._exit(9)\nfiles.write(Path(sys.argv[1]), b'half of it')"
    opened(home).close()
    there = sorted(home.iterdir())
    assert subprocess.run([sys.executable, "-c", kills, str(home / "learner")], check=False).returncode == 9
    assert sorted(home.iterdir()) != there
    (home / ".learner.4711").touch()  # as earlier versions named them
    opened(home).close()
    assert sorted(home.iterdir()) == there


def test_closed_it_answers_but_learns_no_more(home: Path) -> None:
    with opened(home) as learner:
        learner.observe(*BATCHES[0])
    assert learner.predict(BATCHES[0][0]) == ["k0"] * 4
    before = learner.state_hash()
    with pytest.raises(WriteError, match="closed"):
        learner.observe(*BATCHES[1])
    with pytest.raises(WriteError, match="closed"):
        learner.ask(BATCHES[1][0])
    assert learner.state_hash() == before


def test_a_step_that_fails_is_not_in_the_log(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(home) as learner:
        learner.observe(*BATCHES[0])
        with monkeypatch.context() as patch:
            patch.setattr(ERACE, "loss", lambda self, net, new, old=None: net(new.x).sum() * torch.inf)
            with pytest.raises(NonFiniteError):
                learner.observe(*BATCHES[5])
        learner.observe(*BATCHES[1])
        there = learner.state_hash()
    with holdfast.open(home) as learner:
        assert learner.state_hash() == there == plain(2).state_hash()


@pytest.mark.parametrize("change", ["observe", "ask", "forget"])
def test_interrupted_between_the_log_and_the_return(change: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is taken back here, but it is in the log: what follows must not build on that."""
    arguments: dict[str, tuple[Any, ...]] = {"observe": BATCHES[5], "ask": BATCHES[5][:1], "forget": ("k0",)}
    with opened(home) as learner:
        learner.observe(*BATCHES[0])
        commit = DurableLearner._commit

        def interrupted(self: DurableLearner, *arguments: Any) -> None:
            commit(self, *arguments)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(DurableLearner, "_commit", interrupted)
            with pytest.raises(KeyboardInterrupt):
                getattr(learner, change)(*arguments[change])
        assert learner.state_hash() == plain(1).state_hash()
        learner.observe(*BATCHES[1])
    with holdfast.open(home) as learner:
        assert learner.state_hash() == plain(2).state_hash()


@pytest.mark.slow
def test_a_second_opener_is_told_who_has_it(home: Path) -> None:
    with opened(home) as learner:
        learner.observe(*BATCHES[0])
        with pytest.raises(InUse, match=str(os.getpid())):
            opened(home)
        code = f"import holdfast; holdfast.open({str(home)!r})"
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert f"is in use by process {os.getpid()}" in other.stderr
        learner.observe(*BATCHES[1])  # neither took anything from the first
    opened(home).close()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"memory": 30}, "memory"),
        ({"lr": 0.5}, "lr"),
        ({"seed": 3}, "seed"),
        ({"pending": 3}, "pending"),
        ({"method": ER(head="cosine")}, "method"),
        ({"encoder": mlp((3,), width=9)}, "encoder"),
        ({"memory": Reservoir(nbytes=10_000)}, "memory"),
    ],
)
def test_settings_that_do_not_fit_are_refused_and_change_nothing(
    home: Path, given: dict[str, Any], message: str
) -> None:
    with opened(home) as learner:
        learner.observe(*BATCHES[0])
    there = {file: file.read_bytes() for file in home.iterdir()}
    with pytest.raises(CheckpointError, match=message):
        holdfast.open(home, **given)
    assert {file: file.read_bytes() for file in home.iterdir()} == there
    holdfast.open(home, memory=20, lr=0.1, seed=0).close()


def test_what_is_not_a_learners_folder_is_left_alone(tmp_path: Path) -> None:
    with opened(tmp_path / "mine"):
        (tmp_path / "mine" / "notes.txt").write_text("of no interest to it")
    opened(tmp_path / "mine").close()
    assert (tmp_path / "mine" / "notes.txt").exists()

    tmp_path /= "not mine"
    tmp_path.mkdir()
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"thesis\.tex"):
        opened(tmp_path)
    with pytest.raises(InputError, match="is a file"):
        opened(tmp_path / "thesis.tex")
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, "give it an encoder"),
        ({"method": ERACE()}, "give it an encoder"),
        ({"encoder": mlp((3,)), "method": 3}, "method must be"),
        ({"encoder": mlp((3,)), "method": ER(), "memory": -1}, "memory"),
        ({"encoder": mlp((3,)), "method": ER(), "lr": 0}, "lr"),
        (
            {"encoder": mlp((3,)), "method": ER(), "optimizer": lambda p: torch.optim.SGD(p, lr=torch.ones(()))},
            "Tensor",
        ),
        ({"encoder": mlp((3,)), "method": ER(), "sync_every": "often"}, "sync_every must be"),
        ({"encoder": mlp((3,)), "method": ER(), "checkpoint_every": 1.5}, "checkpoint_every must be"),
    ],
)
def test_what_is_refused_leaves_no_folder(tmp_path: Path, parts: dict[str, Any], message: str) -> None:
    with pytest.raises(HoldfastError, match=message):
        holdfast.open(tmp_path / "new" / "deep", **parts)
    assert list(tmp_path.iterdir()) == []


def test_a_learning_rate_beside_an_optimizer_is_refused_every_time(home: Path) -> None:
    def adam(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.Adam(parameters, lr=1e-3)

    with pytest.raises(InputError, match="lr is for the built-in SGD"):
        opened(home, lr=0.1, optimizer=adam)
    for _ in range(2):
        opened(home, optimizer=adam).close()
    with pytest.raises(InputError, match="lr is for the built-in SGD"):
        opened(home, lr=0.1, optimizer=adam)


def test_an_optimizer_of_ones_own_may_rest_but_not_run_away(home: Path) -> None:
    def resting(parameters: Any) -> torch.optim.Optimizer:
        first, *others = parameters
        return torch.optim.SGD([{"params": [first], "lr": 0.0}, {"params": others, "lr": 0.1}])

    with opened(home, optimizer=resting) as learner:
        learner.observe(*BATCHES[0])
        there = learner.state_hash()
    with opened(home, optimizer=resting) as learner:
        assert learner.state_hash() == there
    for rate in (math.inf, 1e30):
        with pytest.raises(InputError, match="lr of the optimizer must be a finite number of 0 or more"):
            opened(home.with_name("other"), optimizer=lambda p: torch.optim.SGD(p, lr=rate))  # noqa: B023
    assert not home.with_name("other").exists()


def test_an_encoder_that_counts_outside_a_buffer_is_refused_at_once_and_not_when_it_is_opened_again(home: Path) -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.drop, self.calls = nn.Linear(3, 4), nn.Dropout(), 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += self.training
            return self.drop(self.layer(x))  # type: ignore[no-any-return]

    with holdfast.open(home, Counting(), ERACE(), memory=20) as learner:
        before = learner.state_hash()
        for _ in range(2):
            with pytest.raises(InputError, match=r"the encoder changes calls while it learns: .* needs a buffer"):
                learner.observe(*BATCHES[0])
        assert learner.state_hash() == before


def test_the_same_line_with_numpys_numbers_works_every_time(home: Path) -> None:
    numbers: dict[str, Any] = {"memory": np.int64(20), "seed": np.uint8(3), "classes": np.int32(9)}
    numbers |= {"lr": np.float32(0.1), "pending": np.int64(5), "checkpoint_every": np.int64(2)}
    for number in range(4):
        with opened(home, **numbers, sync_every=np.float32(0)) as learner:
            learner.observe(*BATCHES[number], task=np.int64(number))  # type: ignore[arg-type]
            there = learner.state_hash()
    with holdfast.open(home) as learner:
        assert learner.state_hash() == there and learner.seed == 3


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


def test_labels_of_ones_own_types_are_found_again(home: Path) -> None:
    for _ in range(3):
        with opened(home) as learner:
            learner.observe(BATCHES[0][0], [Level.LOW, (Level.HIGH, "x")] * 2)
            assert learner.classes == [Level.LOW, (Level.HIGH, "x")]


def test_labels_that_could_not_be_logged_are_refused_before_anything_is_learned(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(home) as learner:
        learner.observe(*BATCHES[0])
        ticket = learner.ask(BATCHES[1][0])
        before = learner.state_hash()
        with monkeypatch.context() as patch:
            patch.setattr(ERACE, "learn", lambda *_: pytest.fail("it has begun to learn"))
            with pytest.raises(LabelError, match="labels of type frozenset cannot be saved"):
                learner.observe(BATCHES[1][0], [frozenset("a")] * 4)
            with pytest.raises(LabelError, match="labels of type date cannot be saved"):
                learner.tell(ticket, [date(2020, 1, 1)] * 4)
        assert learner.state_hash() == before


def test_a_half_precision_encoder_with_tied_weights(home: Path) -> None:
    def net() -> nn.Module:
        torch.manual_seed(0)
        layers = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3)).bfloat16()
        layers.get_submodule("2").weight = layers.get_parameter("0.weight")
        return layers

    for number in range(3):
        with holdfast.open(home, net(), ER(), memory=20) as learner:
            assert learner.step == number
            learner.observe(*BATCHES[number])
            encoder = learner.net.encoder.module
            assert encoder.get_parameter("0.weight") is encoder.get_submodule("2").weight


def test_a_net_and_optimizer_of_ones_own(home: Path) -> None:
    def net() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 5), nn.Tanh())

    def adam(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.Adam(parameters, lr=0.01)

    reference = Learner(net(), ER(), memory=20, optimizer=adam)
    for x, y in BATCHES:
        reference.observe(x, y)
        with holdfast.open(home, net(), ER(), memory=20, optimizer=adam) as learner:
            learner.observe(x, y)
    assert learner.state_hash() == reference.state_hash()
    with pytest.raises(CheckpointError, match="encoder"):
        holdfast.open(home, method=ER(), optimizer=adam)


def test_questions_survive_too(home: Path) -> None:
    with opened(home) as learner:
        learner.observe(*BATCHES[0])
        tickets = [learner.ask(x) for x, _ in BATCHES[1:4]]
        learner.tell(tickets[0], BATCHES[1][1])
        there = learner.state_hash()
    with holdfast.open(home) as learner:
        assert learner.state_hash() == there
        with pytest.raises(TicketError, match="has been told"):
            learner.tell(tickets[0], BATCHES[1][1])
        learner.tell(tickets[2].number, BATCHES[3][1])
        there = learner.state_hash()
    with holdfast.open(home) as learner:
        assert learner.state_hash() == there and len(learner.pending) == 1


def test_what_is_forgotten_is_nowhere_on_the_disk(home: Path) -> None:
    secret = np.array([[12.345, -98.725, 55.125]], np.float32)
    with opened(home) as learner:
        learner.observe(*BATCHES[0])
        learner.observe(secret, ["a name"])
        learner.ask(secret)
        learner.checkpoint()
        learner.observe(secret, ["a name"])
        assert any(secret.tobytes() in file.read_bytes() for file in home.iterdir())
        assert learner.forget_samples(secret) == 2
        assert learner.forget("a name") == 0
        assert secret.tobytes() not in bytes_within(learner)
        there = learner.state_hash()
        for file in home.rglob("*"):
            assert secret.tobytes() not in file.read_bytes() and b"a name" not in file.read_bytes()
    with holdfast.open(home) as learner:
        assert learner.state_hash() == there and learner.classes == ["k0"]


STREAM = """
import sys
import numpy as np
import holdfast
from holdfast import ERACE, mlp
with holdfast.open(sys.argv[1], mlp((3,), width=8), ERACE(), memory=20, checkpoint_every=7) as learner:
    while True:
        rng = np.random.default_rng(learner.step)
        learner.observe(rng.standard_normal((4, 3)).astype(np.float32), rng.integers(0, 5, 4))
        print(learner.step, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_ended_at_any_moment_it_goes_on_where_it_was(home: Path, how: signal.Signals) -> None:
    def reference(steps: int) -> str:
        learner = Learner(mlp((3,), width=8), ERACE(), memory=20)
        for step in range(steps):
            rng = np.random.default_rng(step)
            learner.observe(rng.standard_normal((4, 3)).astype(np.float32), rng.integers(0, 5, 4))
        return learner.state_hash()

    command = [sys.executable, "-c", STREAM, str(home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        for _ in range(20):
            acknowledged = int(process.stdout.readline())
        process.send_signal(how)
        rest = process.stdout.read().split()
        process.wait()
    acknowledged = int(rest[-1]) if rest else acknowledged
    with holdfast.open(home) as learner:  # free at once
        assert learner.step in (acknowledged, acknowledged + 1)
        assert learner.state_hash() == reference(learner.step)


def test_damage_in_the_middle_of_the_log_is_no_end_of_it(home: Path) -> None:
    with opened(home) as learner:
        for x, y in BATCHES[:4]:
            learner.observe(x, y)
    (file,) = home.glob("log.*")
    whole = bytearray(file.read_bytes())
    whole[len(whole) // 2] ^= 1
    file.write_bytes(whole)
    with pytest.raises(CheckpointError, match="damaged at byte"):
        holdfast.open(home)
    assert file.read_bytes() == whole


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_after_a_fork_only_the_process_that_opened_it_can_change_it(home: Path) -> None:
    with opened(home) as learner:
        learner.observe(*BATCHES[0])
        child = os.fork()
        if child == 0:
            try:
                answers = learner.predict(BATCHES[0][0])
                changes: list[Callable[[], object]] = [
                    lambda: learner.observe(*BATCHES[1]),
                    lambda: learner.ask(BATCHES[1][0]),
                    lambda: learner.forget("k0"),
                    learner.checkpoint,
                ]
                refused = 0
                for change in changes:
                    try:
                        change()
                    except WriteError as error:
                        refused += f"belongs to process {os.getppid()}" in str(error)
                learner.close()  # harmless: it is not this process's to close
                os._exit(0 if answers == ["k0"] * 4 and refused == len(changes) else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        learner.observe(*BATCHES[1])
    with opened(home) as learner:
        assert learner.state_hash() == plain(2).state_hash()


def test_samples_that_are_only_remembered_are_an_entry_of_the_log(home: Path) -> None:
    x, y = np.ones((50, 3), np.float32), ["kept"] * 50
    with opened(home, memory=500) as learner:
        learner.observe(*BATCHES[0])
        written = (home / "learner").stat().st_mtime_ns
        learner.remember(x, y)
        assert (home / "learner").stat().st_mtime_ns == written
        learner.observe(*BATCHES[1])
        before = learner.state_hash()
    with holdfast.open(home) as learner:
        assert learner.state_hash() == before


def test_a_log_from_another_kind_of_processor_is_said_to_be_one(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(home) as learner:
        learner.observe(*BATCHES[0])
    there = machine.conditions()["arithmetic"]
    monkeypatch.setattr(machine, "_arithmetic", lambda threads, precision: "another")
    with pytest.warns(OtherBits, match=f"arithmetic another here and {there} there"):
        opened(home).close()
    with opened(home) as learner:  # a checkpoint has its bits wherever it is read
        learner.observe(*BATCHES[1])
    opened(home).close()


@pytest.mark.slow
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_would_be_a_second_learner_in_the_folder_and_is_refused(home: Path, copied: Any) -> None:
    with opened(home) as learner:
        with pytest.raises(InputError, match="a folder has one learner"):
            copied(learner)
        gc.collect()
        learner.observe(*BATCHES[0])  # it is still open
