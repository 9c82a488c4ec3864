"""A learner that was trained elsewhere goes on in a folder."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from torch import nn

import holdfast
from holdfast import ERACE, Learner, Reservoir, mlp
from holdfast.commands.main import main
from holdfast.errors import CheckpointError, InputError, LabelError
from tests.durable.small import opened

X = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)


def observe(learner: Learner, x: NDArray[np.float32]) -> None:
    for start in range(0, len(x), 4):
        learner.observe(x[start : start + 4], ["wren", "kite"] * 2)


def trained(encoder: nn.Module | None = None) -> Learner:
    learner = Learner(encoder or mlp((3,), width=8), ERACE(), memory=20, average=0.9, progress=10)
    observe(learner, X[:20])
    learner.ask(X[:2])
    return learner


@pytest.mark.parametrize("saved", [False, True])
def test_it_goes_on_with_the_same_bits(saved: bool, tmp_path: Path) -> None:
    home, file, learner = tmp_path / "deep" / "birds", tmp_path / "birds.learner", trained()
    learner.save(file)
    holdfast.adopt(file if saved else learner, home)
    assert holdfast.verify(home, deep=True).ok and not holdfast.verify(home).notes
    opened(tmp_path / "made").close()
    here, made = (holdfast.inspect(folder).checkpoint.written_by for folder in (home, tmp_path / "made"))
    assert here == made
    with holdfast.open(home) as birds:
        assert birds.state_hash() == learner.state_hash()
        observe(birds, X[20:])
        observe(learner, X[20:])
    with holdfast.open(home) as birds:
        assert birds.state_hash() == learner.state_hash()
    assert Learner.load(file).step == 5  # it is as it was


def test_what_is_not_built_in_is_passed_when_it_is_opened(tmp_path: Path) -> None:
    def net() -> nn.Module:
        return nn.Sequential(nn.Linear(3, 8), nn.ReLU())

    learner = trained(net())
    learner.save(tmp_path / "birds.learner")
    holdfast.adopt(tmp_path / "birds.learner", tmp_path / "birds")
    with pytest.raises(CheckpointError):
        holdfast.open(tmp_path / "birds")
    with holdfast.open(tmp_path / "birds", net()) as birds:
        assert birds.state_hash() == learner.state_hash()


def test_the_codec_is_among_its_conditions(tmp_path: Path) -> None:
    x = np.zeros((4, 3, 8, 8), np.uint8)
    learner = Learner(holdfast.small_cnn((3, 8, 8), width=2), ERACE(), memory=Reservoir(nbytes=9000, codec="png"))
    learner.observe(x, list("abab"))
    learner.save(tmp_path / "a.learner")
    holdfast.adopt(learner, tmp_path / "a")
    holdfast.adopt(tmp_path / "a.learner", tmp_path / "b")
    one, other = (holdfast.inspect(tmp_path / name).checkpoint.written_by for name in "ab")
    assert one == other and one["codec"]


def test_what_lives_in_a_folder_gets_another_one(tmp_path: Path) -> None:
    with opened(tmp_path / "one") as learner:
        observe(learner, X[:20])
        holdfast.adopt(learner, tmp_path / "other")
        with holdfast.open(tmp_path / "other") as other:
            assert other.state_hash() == learner.state_hash()


def test_what_cannot_be_adopted_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "notes").touch()
    learner, new = trained(), tmp_path / "new"
    learner.save(tmp_path / "good")
    (tmp_path / "bad").write_bytes((tmp_path / "good").read_bytes()[:-9])
    holdfast.export_memory(learner, tmp_path / "memory")
    opened(tmp_path / "home").close()
    learner.observe(X[:4], [object(), "a", "b", "c"])
    with pytest.raises(InputError, match="exists already: name a new folder"):
        holdfast.adopt(tmp_path / "good", tmp_path / "there")
    for missing in ("bad", "memory", "missing", "home"):
        with pytest.raises(CheckpointError, match=missing):
            holdfast.adopt(tmp_path / missing, new)
    with pytest.raises(InputError, match="lives in a folder: holdfast learner backup"):
        holdfast.adopt(tmp_path / "home" / "learner", new)
    with pytest.raises((CheckpointError, LabelError)):
        holdfast.adopt(learner, new)
    with pytest.raises(InputError, match="learner must be a Learner or the file of one, not int"):
        holdfast.adopt(3, new)  # type: ignore[arg-type]
    assert not new.exists() and [file.name for file in (tmp_path / "there").iterdir()] == ["notes"]
    assert not list(tmp_path.glob(".*"))


def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    learner = trained()
    learner.save("birds.learner")
    with pytest.raises(InputError, match=r"a learner is given a folder by holdfast\.adopt"):
        holdfast.open("birds", learner)  # type: ignore[arg-type]
    for look in (holdfast.open, holdfast.inspect, holdfast.verify, holdfast.repair):
        with pytest.raises(InputError, match=r"holdfast\.adopt in Python"):
            look("birds.learner")
    for words in (["learner", "show", "birds.learner"], ["serve", "birds.learner", "--port", "0"]):
        assert main(words) == 2
        assert "holdfast learner adopt birds.learner FOLDER" in capsys.readouterr().err
    assert main(["learner", "adopt", "birds.learner", "birds"]) == 0
    assert capsys.readouterr().out == "birds has the learner of birds.learner at step 5\n"
    assert main(["learner", "adopt", "birds.learner", "birds"]) == 2
    assert capsys.readouterr().err == "holdfast: birds exists already: name a new folder\n"
