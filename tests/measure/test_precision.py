"""Precision is decided by a trial that may crash, hang or lie without any harm."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from holdfast import machine, slim_resnet18
from holdfast.errors import UnknownName
from holdfast.measure import precision, trial
from holdfast.measure.inference import suitable
from holdfast.measure.precision import Precision, tried
from holdfast.nets import LinearHead, Net, mlp, small_cnn

pytestmark = pytest.mark.skipif(not trial.possible(), reason="nothing can be tried in a forked child on this system")


class Doing(nn.Module):
    """Takes its time, as a net does; what else it does beside is told."""

    def __init__(self, seconds: float, act: Callable[[Tensor], Tensor] = lambda features: features) -> None:
        super().__init__()
        self.seconds, self.act = seconds, act

    def forward(self, x: Tensor) -> Tensor:
        time.sleep(self.seconds)
        return self.act(x.flatten(1).float() + 1)


def die(features: Tensor) -> Tensor:
    os.kill(os.getpid(), signal.SIGILL)
    return features


def hang(features: Tensor) -> Tensor:
    time.sleep(3600)
    return features


def fail(features: Tensor) -> Tensor:
    raise RuntimeError("could not create a primitive")


@pytest.fixture
def x() -> Tensor:
    return torch.randint(256, (8, 3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(precision.VARIABLE, raising=False)
    monkeypatch.setattr(precision, "folder", lambda: tmp_path / "precision")
    return tmp_path / "precision"


@pytest.mark.parametrize(
    ("act", "why"),
    [
        (die, "Illegal instruction"),
        (hang, "no answer in 0.5 s"),
        (fail, "could not create a primitive"),
        (lambda features: -features, "wrong answers"),
        (lambda features: features + torch.nan, "wrong answers"),
        (lambda features: features.roll(1, 0), "wrong answers"),
    ],
    ids=["kills itself", "hangs", "raises", "lies", "gives NaN", "mixes samples up"],
)
def test_what_does_not_work_is_not_used_and_does_no_harm(act: Callable[[Tensor], Tensor], why: str, x: Tensor) -> None:
    found = tried(Doing(0.002), lambda: Doing(0.0005, act), x, seconds=0.5)
    assert found.name == "float32" and why in found.why


def test_a_child_that_says_nonsense_is_not_believed(x: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    for nonsense in (None, "fast", [1], [2.0, float("nan")], [float("nan"), 0.0], {"speed": 3}):
        monkeypatch.setattr(precision, "_compared", lambda *_, said=nonsense: said)
        assert tried(Doing(0), lambda: Doing(0), x).name == "float32"


def test_what_works_is_used_only_if_it_is_faster_by_a_margin(x: Tensor) -> None:
    assert tried(Doing(0.02), lambda: Doing(0.002), x).name == "bf16"
    slow = tried(Doing(0.002), lambda: Doing(0.02), x)
    assert slow.name == "float32" and "not worth it" in slow.why


def test_a_trial_leaves_nothing_behind(
    x: Tensor, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fork, children = os.fork, []

    def watched() -> int:
        children.append(fork())
        return children[-1]

    monkeypatch.setattr(os, "fork", watched)

    def shout(features: Tensor) -> Tensor:
        os.write(2, b"a crash report")
        return die(features)

    random, open_files = torch.get_rng_state(), set(os.listdir("/proc/self/fd")) if os.path.exists("/proc") else set()
    for _ in range(3):
        tried(Doing(0), lambda: Doing(0, shout), x)
    assert capfd.readouterr() == ("", "")
    assert torch.equal(torch.get_rng_state(), random)
    assert not open_files or len(set(os.listdir("/proc/self/fd"))) == len(open_files)
    assert len(children) == 3
    for child in children:
        with pytest.raises(ChildProcessError):
            os.waitpid(child, os.WNOHANG)


def test_it_is_found_once_and_cached(x: Tensor, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[int] = []

    def found(*_: Any) -> Precision:
        times.append(1)
        return Precision("bf16", "it was tried")

    monkeypatch.setattr(precision, "tried", found)
    net = Net(slim_resnet18(), LinearHead()).eval()
    assert suitable(net, x) == suitable(net, x) == Precision("bf16", "it was tried")
    assert len(times) == 1
    suitable(Net(slim_resnet18(width=24), LinearHead()).eval(), x)  # another kind of net
    assert len(times) == 2
    monkeypatch.setattr(machine, "key", lambda: "another machine")
    suitable(net, x)
    assert len(times) == 3
    (kept, *_) = cache.glob("*.json")
    for damaged in ("", "{", json.dumps({"name": "fp4", "why": ""}), json.dumps([1])):
        for file in cache.glob("*.json"):
            file.write_text(damaged)
        assert suitable(net, x).name == "bf16"
    assert len(times) == 7 and kept.exists()


def test_a_cache_that_cannot_be_written_costs_a_trial_only(
    x: Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(precision, "folder", lambda: tmp_path / "file" / "below")
    monkeypatch.setattr(precision, "tried", lambda *_: Precision("bf16", "it was tried"))
    assert suitable(Net(slim_resnet18(), LinearHead()).eval(), x).name == "bf16"


@pytest.mark.parametrize("make", [mlp, small_cnn])
def test_a_small_net_is_not_worth_a_trial(make: Any, x: Tensor, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "in_child", lambda *_: pytest.fail("a trial was made"))
    found = suitable(Net(make((3, 32, 32)), LinearHead()).eval(), x)
    assert found.name == "float32" and "too small" in found.why and not cache.exists()


def test_it_can_be_forced(x: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net(slim_resnet18(), LinearHead()).eval()
    assert [suitable(net, x, name).name for name in ("float32", "bf16")] == ["float32", "bf16"]
    assert precision.asked(None) == "auto"
    monkeypatch.setenv(precision.VARIABLE, "bf16")
    assert precision.asked(None) == "bf16" and precision.asked("float32") == "float32"
    with pytest.raises(UnknownName, match="auto, float32, bf16"):
        precision.asked("fp8")
    monkeypatch.setenv(precision.VARIABLE, "fp8")
    with pytest.raises(UnknownName, match="HOLDFAST_PRECISION"):
        precision.asked(None)


def test_here_it_is_float32_or_bf16_that_agrees(x: Tensor) -> None:
    """On any processor, whatever it announces."""
    found = suitable(Net(slim_resnet18(), LinearHead()).eval(), x)
    assert found.name in ("float32", "bf16") and found.why


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"5",
        b"[]",
        b"{}",
        b'{"name": "fp4", "why": ""}',
        b'{"name": ["bf16"], "why": 3}',
        b"[" * 10**5,
    ],
)
def test_a_memory_of_an_outcome_that_is_damaged_is_made_anew(content: bytes, cache: Path) -> None:
    known = Precision("bf16", "found")
    file = precision.folder() / "key.json"
    file.parent.mkdir()
    file.write_bytes(content)
    assert precision._cached("key", lambda: known) == known
    assert json.loads(file.read_bytes()) == {"name": "bf16", "why": "found"}
