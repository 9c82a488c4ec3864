"""The learning rate for a stream of one's own is found on samples that are withheld from training."""

from pathlib import Path

import numpy as np
import pytest

from holdfast.commands.main import main
from holdfast.commands.tune_stream import best_rate
from holdfast.runs.store import Store

RNG = np.random.default_rng(0)


@pytest.fixture
def stream(tmp_path: Path) -> str:
    y = np.arange(120) % 4
    x = (RNG.normal(size=(120, 6)) + 3 * np.eye(6)[y]).astype(np.float32)
    np.savez(tmp_path / "mine.npz", train_x=x, train_y=y, test_x=x[:8], test_y=y[:8])
    return f"arrays:{tmp_path / 'mine.npz'}"


def test_it_names_the_command_with_the_best_rate(
    stream: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    command = ["tune", "--stream", stream, "--method", "er", "--seeds", "1", "--lr", "0.1", "--lr", "1e-7"]
    assert main([*command, "--standardise", "--out", str(out)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"holdfast run --stream {stream} --method er --memory 5 --standardise --lr 0.1" in said
    assert "[bold]" not in said
    rows = Store(out / "runs.sqlite").rows()
    assert {row["lr"] for row in rows} == {0.1, 1e-7}
    assert all(row["stream"].endswith(":holdout=20") and row["standardise"] for row in rows)


@pytest.mark.parametrize(
    ("more", "what"),
    [
        (["--dataset", "cifar10"], "--stream is for a stream of your own"),
        (["--method", "slda"], "no learning rate to find"),
        (["--memory", "1", "--memory", "2"], "one size at a time"),
        (["--method", "er", "--lr", "0"], "--lr must be"),
    ],
)
def test_mistakes_are_one_line(
    stream: str, more: list[str], what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", "--stream", stream, "--out", str(tmp_path / "out"), *more]) == 2
    assert what in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_what_is_for_streams_needs_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "--net", "mlp", "--out", str(tmp_path / "out")]) == 2
    assert "--net goes with --stream" in capsys.readouterr().err


def test_of_equal_rates_the_smallest_wins_and_incomplete_ones_cannot() -> None:
    rows = [{"lr": lr, "acc": acc} for lr, acc in ((0.1, 0.5), (0.1, 0.5), (0.3, 0.5), (0.3, 0.5), (0.01, 0.9))]
    assert best_rate(rows) == 0.1
