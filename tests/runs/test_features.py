"""Runs with a frozen pretrained encoder: its features are computed once, and what was learned answers images."""

from pathlib import Path

import numpy as np
import pytest

from holdfast import Learner, pretrained
from holdfast.commands.main import main
from holdfast.errors import InputError
from holdfast.runs.plan import Plan, plan
from holdfast.runs.run import Run
from holdfast.runs.spec import RunSpec
from holdfast.runs.store import Store
from holdfast.streams import source

STREAM = "fashion:first=6,tasks=2"
FACTORY = """
import torch
from pathlib import Path

def net():
    with Path("made").open("a") as file:
        file.write("x")
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 5), torch.nn.ReLU())
"""


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("holdfast.nets.pretrained._MADE", {})
    Path("nets.py").write_text(FACTORY)


def planned(net: str, **more: object) -> Plan:
    spec = RunSpec(stream=STREAM, method="er-ace", net=net, memory=2, **more)  # type: ignore[arg-type]
    return plan(spec, source(spec.stream, Path()))


def test_a_run_is_the_same_wherever_the_file_lies_and_another_if_it_changes() -> None:
    first = planned("nets.py:net").run_id
    Path("elsewhere").mkdir()
    Path("elsewhere/other.py").write_text(FACTORY)
    assert planned("elsewhere/other.py:net").run_id == first
    assert planned("nets.py:net,frozen=true").run_id == first
    assert planned("nets.py:net,frozen=false").run_id != first
    Path("nets.py").write_text(FACTORY + "\n")
    assert planned("nets.py:net").run_id != first


@pytest.mark.slow
def test_features_are_computed_once_for_all_methods_and_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", "--stream", STREAM, "--net", "nets.py:net", "--method", "er", "--method", "er-ace"]
    assert main([*command, "--seeds", "2", "--jobs", "1", "--out", "out", "--keep-learners", "--data", "cache"]) == 0
    assert Path("made").read_text() == "x"
    assert any(Path("cache/features").iterdir())
    assert "er-ace" in capsys.readouterr().out
    row = Store(Path("out/runs.sqlite")).rows()[0]
    assert main(["runs", "save", row["id"], "learner", "--out", "out"]) == 0
    learner = Learner.load("learner", encoder=pretrained("nets.py:net"))
    dataset = source(STREAM, Path()).dataset
    correct = np.mean(np.array(learner.predict(dataset.test_x)) == np.array(dataset.classes)[dataset.test_y])
    assert correct == pytest.approx(row["acc"], abs=0.02)


def test_damaged_features_are_refused() -> None:
    Run(planned("nets.py:net"))
    for file in Path("features").iterdir():
        if not file.suffix:
            file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(Exception, match="remove it, and the features are computed again"):
        Run(planned("nets.py:net"))


def test_an_encoder_that_learns_sees_the_images() -> None:
    run = Run(planned("nets.py:net,frozen=false"))
    run.advance()
    assert run.learner.sample_template is not None and run.learner.sample_template.shape[1:] == (1, 28, 28)
    assert not Path("features").exists()


@pytest.mark.parametrize(
    ("net", "more", "said"),
    [
        ("nets.py:net", {"augment": True}, "--augment is for images"),
        ("nets.py:net", {"codec": "png"}, "--codec png is for images"),
        ("other.py:net", {}, "no file other.py"),
        ("tim:resnet18", {}, "timm:NAME"),
        ("resnet", {}, "did you mean 'slim-resnet18'"),
    ],
)
def test_mistakes(net: str, more: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        planned(net, **more)
