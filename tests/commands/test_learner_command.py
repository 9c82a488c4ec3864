"""`holdfast learner`, as it is used on the command line."""

import doctest
import json
import os
import random
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import holdfast
from holdfast import ERACE, mlp
from holdfast.commands.main import main
from holdfast.durable import backups, verification
from holdfast.durable.log import HEAD
from reliability.forgeries import Forge, change_tensors, change_values

X = np.random.default_rng(0).standard_normal((5, 4, 3)).astype(np.float32)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with holdfast.open("weather", mlp((3,), width=8), ERACE(), memory=20) as learner:
        for x in X:
            learner.observe(x, ["calm", "calm", b"raw", ("a", 1)])
    return Path("weather")


def damage(home: Path) -> Path:
    (log,) = home.glob("log.*")
    whole = bytearray(log.read_bytes())
    whole[len(whole) // 2] ^= 1
    log.write_bytes(whole)
    return log


def test_show(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["learner", "show", "weather"]) == 0
    shown = capsys.readouterr().out
    for part in ("step        5", "3 (in memory at step 0", "'calm' 0 + 10", "b'raw' 0 + 5", "ERACE(", "mlp (3,)"):
        assert part in shown
    assert main(["learner", "show", "weather", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["step"] == 5 and found["log"]["sealed"] and found["folder"] == "weather"
    assert [each["label"] for each in found["classes"]] == ["calm", {"bytes": "726177"}, {"tuple": ["a", 1]}]


def test_a_great_many_classes_are_not_all_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with holdfast.open(tmp_path / "many", mlp((3,), width=8), ERACE(), memory=20) as learner:
        learner.observe(np.zeros((50, 3), np.float32), range(50))
    assert main(["learner", "show", str(tmp_path / "many")]) == 0
    assert "and 30 more" in capsys.readouterr().out


def test_verify_says_by_its_exit_code_whether_all_is_right(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "notes").touch()
    assert main(["learner", "verify", "weather", "--deep"]) == 0
    shown = capsys.readouterr().out
    assert "weather is right: it opens at step 5" in shown and "note: notes is not the learner's" in shown
    log = damage(home)
    assert main(["learner", "verify", "weather"]) == 1
    shown = capsys.readouterr().out
    assert f"damaged: {log.name} at byte" in shown and "what to do: holdfast learner repair weather keeps" in shown
    assert main(["learner", "verify", "weather", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["ok"] and found["problems"][0]["offset"] >= HEAD.size
    assert main(["learner", "verify", "nowhere"]) == 2
    assert capsys.readouterr().err == "holdfast: there is no learner in nowhere\n"


def test_backup(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["learner", "backup", "weather", "deep/copy"]) == 0
    assert "deep/copy has the learner of weather at step 5" in capsys.readouterr().out
    assert main(["learner", "backup", "weather", "deep/copy"]) == 2
    assert "deep/copy exists already" in capsys.readouterr().err
    with holdfast.open("deep/copy") as copy, holdfast.open("weather") as learner:
        assert copy.state_hash() == learner.state_hash()


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("", 1), ("no", 1)])
def test_repair_asks_who_sits_there(
    home: Path, answer: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = damage(home)
    damaged = log.read_bytes()
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: answer)
    assert main(["learner", "repair", "weather"]) == code
    shown = capsys.readouterr().out
    assert "lost        at least 3 entries, steps 3 to 5" in shown
    if code:
        assert "nothing was changed" in shown and log.read_bytes() == damaged
    else:
        assert "repaired: it opens at step 2" in shown
        (before,) = home.glob("before-repair-*")
        assert (before / log.name).read_bytes() == damaged


def test_repair_of_what_is_whole(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["learner", "repair", "weather"]) == 0
    assert "there is nothing to repair" in capsys.readouterr().out
    assert main(["learner", "repair", "weather", "--to-step", "3", "--yes"]) == 0
    assert "lost        2 entries, steps 4 to 5" in capsys.readouterr().out
    assert main(["learner", "verify", "weather"]) == 0
    assert main(["learner", "repair", "weather", "--to-step", "4"]) == 2
    assert "to_step must be from 0" in capsys.readouterr().err


def test_what_is_kept_is_shown_and_gone_back_to(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["learner", "show", "weather"]) == 0
    assert "kept        no earlier checkpoints" in capsys.readouterr().out
    with holdfast.open("weather", keep=3) as learner:
        learner.checkpoint()
        hashed = learner.state_hash()
        for x in X:
            learner.observe(x, ["calm"] * 4)
        learner.checkpoint()
    os.utime(home / "kept" / "5", (86400, 86400))
    size = (home / "kept" / "5").stat().st_size
    assert main(["learner", "show", "weather"]) == 0
    shown = capsys.readouterr().out
    when = f"{datetime.fromtimestamp(86400):%Y-%m-%d at %H:%M:%S}"
    assert f"step 5, written on {when}, {size:,} bytes" in shown and "kept        step 10, " in shown
    found = holdfast.inspect("weather")
    assert [each.step for each in found.kept] == [10, 5] and found.files["kept/5"] == size
    assert main(["learner", "show", "weather", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kept"][1] == {"name": "5", "step": 5, "time": 86400.0, "nbytes": size}
    assert main(["learner", "roll-back", "weather", "7", "--yes"]) == 2
    assert capsys.readouterr().err == "holdfast: step 7 is not kept; kept are: 10, 5\n"
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    assert main(["learner", "roll-back", "weather", "5"]) == 2
    assert capsys.readouterr().err == "holdfast: nothing was changed: --yes does it\n"
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: "no")
    assert main(["learner", "roll-back", "weather", "5"]) == 1
    assert "undone      steps 6 to 10" in capsys.readouterr().out and holdfast.inspect("weather").step == 10
    assert main(["learner", "roll-back", "weather", "5", "--yes"]) == 0
    assert "rolled back: it opens at step 5" in capsys.readouterr().out
    with holdfast.open("weather") as learner:
        assert learner.state_hash() == hashed


def test_a_checkpoint_that_is_damaged_can_be_rolled_back(home: Path) -> None:
    with holdfast.open("weather", keep=1) as learner:
        learner.checkpoint()
    (home / "learner").write_bytes(b"")
    assert main(["learner", "roll-back", "weather", "5", "--yes"]) == 0
    assert holdfast.inspect("weather").step == 5


@pytest.mark.slow
def test_without_a_terminal_repair_wants_to_be_told(home: Path) -> None:
    log = damage(home)
    damaged = log.read_bytes()
    command = [sys.executable, "-m", "holdfast", "learner", "repair", "weather"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 2 and done.stderr == "holdfast: nothing was changed: --yes does it\n"
    assert "lost        at least 3 entries" in done.stdout and log.read_bytes() == damaged
    done = subprocess.run([*command, "--yes"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stderr) == (0, "") and "repaired" in done.stdout
    with holdfast.open("weather") as learner:
        assert learner.step == 2


@pytest.mark.slow
@pytest.mark.parametrize("forge", [change_values, change_tensors])
def test_whatever_a_file_says_there_is_an_answer_or_an_error_of_ours(
    home: Path, forge: Forge, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = (home / "learner").read_bytes()
    for number in range(25):
        (home / "learner").write_bytes(forge(whole, random.Random(number)))
        assert main(["learner", "show", "weather"]) in (0, 2)
        assert main(["learner", "show", "weather", "--json"]) in (0, 2)
        right = main(["learner", "verify", "weather"])
        assert right in (0, 1)
        assert main(["learner", "repair", "weather"]) == (2 if right else 0)
    capsys.readouterr()


@pytest.mark.parametrize("module", [backups, verification])
def test_the_examples_in_the_docstrings(module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = doctest.testmod(module)
    assert found.attempted >= 3 and not found.failed


@pytest.mark.slow
def test_export_writes_what_answers_while_another_has_it(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with holdfast.open(home) as learner:
        assert main(["learner", "export", "weather", "model.pt2"]) == 0
        assert "model.pt2 answers as weather at step 5" in capsys.readouterr().out
        learner.save("weather.ckpt")
        assert main(["learner", "export", "weather.ckpt", "again.pt2"]) == 0
        for file in ("model.pt2", "again.pt2"):
            probabilities = torch.export.load(file).module()(torch.from_numpy(X[0]))[1]
            np.testing.assert_allclose(probabilities.numpy(), learner.predict_proba(X[0]), atol=1e-5)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["nowhere", "model.pt2"], "there is no learner nowhere"),
        (["weather", "model.tflite"], "exported as .onnx or .pt2, not .tflite"),
        (["weather", "model.pt2", "--shape", "5"], "this learner takes samples of (3,)"),
        (["weather", "model.pt2", "--net", "resnet18"], "a pretrained net is timm:NAME"),
    ],
)
def test_export_says_what_is_wrong(home: Path, words: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["learner", "export", *words]) == 2
    assert why in capsys.readouterr().err and not list(Path().glob("model.*"))
