"""Runs are told to the real clients and read back with the tools' own readers."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast import loggers
from holdfast.errors import InputError, UnknownName
from holdfast.loggers import Loggers
from holdfast.loggers.base import FIGURES, Logger, Row, Tool
from holdfast.runs.run import Progress
from holdfast.runs.spec import RunSpec
from holdfast.runs.worker import Advanced, Died, Failed, Finished, Saved, Started

pytestmark = pytest.mark.slow

DONE = RunSpec(stream="fashion", method="der", options={"alpha": "0.5"}, seed=1, lr=0.05)
FAILED = RunSpec(stream="fashion", method="er-ace")
STOPPED = RunSpec(stream="fashion", method="ss-il")  # its title has a † that a file name had better not have
IDS = {DONE: "d0ne" * 4, FAILED: "fa11" * 4, STOPPED: "5709" * 4}

STEPS = (10, 20, 30, 40, 50)
ACCURACY = {step: step / 80 for step in STEPS}
FIRST_TASK = {10: 0.1, 20: 0.2, 30: 0.3, 40: 0.4, 50: 0.5}
SECOND_TASK = {30: 0.6, 40: 0.8, 50: 1.0}  # met after step 20
RECORD: dict[str, Any] = {
    "acc": ACCURACY[50],
    "aaa": 0.375,
    "forgetting": 0.25,
    "train_macs": 3 * 2**40,
    "memory_bytes": 4096.0,
    "seconds": 12.5,
    "updates": 50,
    "tasks": [[0, 1], [2]],
    "evaluations": [
        {
            "step": step,
            "seen": 10 * step,
            "aa": ACCURACY[step],
            "correct": [0, round(20 * FIRST_TASK[step]), round(10 * SECOND_TASK.get(step, 0))],
            "total": [10, 10, 10 if step in SECOND_TASK else 0],
        }
        for step in STEPS
    ],
}
FINAL = {name: RECORD[name] for name in FIGURES}
CURVES = {"AA": ACCURACY, "tasks/1": FIRST_TASK, "tasks/2": SECOND_TASK}


def advanced(spec: RunSpec, *steps: int) -> Advanced:
    return Advanced(spec, Progress(max(steps, default=0), 50, 1.0), [(step, ACCURACY[step]) for step in steps])


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pytest.MonkeyPatch]:
    """Nobody's own settings, nothing outside the temporary folder, no telemetry, no network."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "WANDB_PROJECT", "WANDB_DIR"):
            patch.delenv(name, raising=False)
        for name in ("WANDB_CONFIG_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR"):
            patch.setenv(name, str(home))
        patch.setenv("WANDB_MODE", "offline")
        patch.setenv("WANDB_ERROR_REPORTING", "false")
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        yield patch


@pytest.fixture(scope="module")
def out(environment: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs at a time: one is done although its worker dies, one fails, one is stopped by Ctrl-C."""
    out = tmp_path_factory.mktemp("out")
    events = (
        Started(DONE),
        Started(FAILED),
        advanced(DONE, 10, 20),
        advanced(DONE),
        Started(STOPPED),
        Saved(DONE, b"30 steps"),  # the accuracy at step 30 was not reported yet
        advanced(FAILED, 10),
        advanced(DONE, 40),
        Died(DONE, "out of memory"),
        Started(DONE),
        Failed(FAILED, "Traceback:\n  somewhere\nValueError: it broke\n"),
        advanced(DONE, 40),
        advanced(STOPPED, 10, 20),
        Finished(DONE, RECORD),
    )
    with suppress(KeyboardInterrupt), Loggers(list(loggers.TOOLS), out, IDS) as shown:
        for event in events:
            shown.show(event)
        raise KeyboardInterrupt
    return out


@pytest.fixture(scope="module")
def later(out: Path, environment: pytest.MonkeyPatch) -> Path:
    """Another process goes on with the run that was stopped at step 30."""
    environment.setenv("WANDB_DIR", str(out / "later"))  # offline, W&B cannot go on with what it has
    with Loggers(list(loggers.TOOLS), out, IDS) as shown:
        for event in (Started(STOPPED), advanced(STOPPED, 40), Finished(STOPPED, RECORD)):
            shown.show(event)
    return out


class TestTensorBoard:
    def test_a_folder_a_run(self, out: Path) -> None:
        names = {"der_alpha=0.5-s1-d0ned0ne", "er-ace-s0-fa11fa11", "ss-il-s0-57095709"}
        assert {path.name for path in (out / "tensorboard").iterdir()} == names
        assert not [path for path in (out / "tensorboard").glob("*/*") if path.is_dir()]

    def test_a_run_that_is_done(self, out: Path) -> None:
        run = self.read(out, "der*")
        final = {f"final/{name}": {50: value} for name, value in FINAL.items()}
        assert self.curves(run) == {name: pytest.approx(curve) for name, curve in (CURVES | final).items()}
        hparams = self.session(run, "start").session_start_info.hparams
        assert hparams["options.alpha"].string_value == "0.5"
        assert hparams["lr"].number_value == 0.05
        assert hparams["seed"].number_value == 1
        assert "net" not in hparams
        assert self.session(run, "end").session_end_info.status == 1  # STATUS_SUCCESS

    def test_a_run_that_failed(self, out: Path) -> None:
        run = self.read(out, "er-ace*")
        assert self.curves(run) == {"AA": {10: ACCURACY[10]}}
        (note,) = run.Tensors("failed/text_summary")
        assert note.tensor_proto.string_val == [b"ValueError: it broke"]

    def test_a_run_that_went_on_later(self, later: Path) -> None:
        curves = self.curves(self.read(later, "ss-il*"))
        assert {name: curves[name] for name in CURVES} == {name: pytest.approx(curve) for name, curve in CURVES.items()}

    def test_other_numbers_take_the_place_of_earlier_ones(self, out: Path, tmp_path: Path) -> None:
        for accuracy in (0.25, 0.75):
            with Loggers(["tensorboard"], tmp_path, IDS) as shown:
                shown.show(Advanced(DONE, Progress(20, 50, 1.0), [(10, accuracy), (20, accuracy)]))
        assert self.curves(self.read(tmp_path, "der*")) == {"AA": {10: 0.75, 20: 0.75}}

    def read(self, out: Path, folder: str) -> Any:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        (found,) = (out / "tensorboard").glob(folder)
        return EventAccumulator(str(found)).Reload()

    def curves(self, run: Any) -> dict[str, dict[int, float]]:
        curves = {}
        for name in run.Tags()["scalars"]:
            points = [(point.step, point.value) for point in run.Scalars(name)]
            assert points == sorted(set(points))
            curves[name] = dict(points)
        return curves

    def session(self, run: Any, which: str) -> Any:
        from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

        metadata = run.SummaryMetadata(f"_hparams_/session_{which}_info")
        return HParamsPluginData.FromString(metadata.plugin_data.content)


class TestMLflow:
    def test_a_run_that_is_done(self, out: Path) -> None:
        client, run = self.read(out, DONE)
        assert run.info.status == "FINISHED"
        assert run.info.run_name == "der:alpha=0.5 seed 1"
        assert run.data.params["options.alpha"] == "0.5"
        assert run.data.params["lr"] == "0.05"
        assert "net" not in run.data.params
        assert run.data.metrics == pytest.approx(FINAL | {name: curve[50] for name, curve in CURVES.items()})
        self.check_curves(client, run)

    def test_a_run_that_failed(self, out: Path) -> None:
        client, run = self.read(out, FAILED)
        assert run.info.status == "FAILED"
        assert run.data.tags["holdfast.why"] == "ValueError: it broke"
        assert [(point.step, point.value) for point in client.get_metric_history(run.info.run_id, "AA")] == [
            (10, 0.125)
        ]

    def test_a_run_that_went_on_later(self, later: Path) -> None:
        client, run = self.read(later, STOPPED)  # one run, not two
        assert run.info.status == "FINISHED"
        self.check_curves(client, run)

    def test_what_other_code_began_is_not_gone_on_with(
        self, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for code in "ab":
            monkeypatch.setattr("holdfast.loggers.mlflow.code_hash", lambda method, code=code: code)
            with Loggers(["mlflow"], tmp_path, IDS) as shown:
                shown.show(advanced(DONE, 10))
        assert [run.info.status for run in self.runs(tmp_path)[1]] == ["KILLED", "KILLED"]

    def test_its_own_environment_counts(self, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        elsewhere = tmp_path / "elsewhere"
        monkeypatch.setenv("MLFLOW_TRACKING_URI", (elsewhere / "mlruns").as_uri())
        monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
        with Loggers(["mlflow"], tmp_path, IDS) as shown:
            shown.show(Started(DONE))
        assert len(self.runs(elsewhere, "mine")[1]) == 1
        assert {path.name for path in tmp_path.iterdir()} == {"elsewhere"}

    def test_what_it_cannot_do_is_said_at_once(
        self, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", "nowhere://there")
        with pytest.raises(InputError, match=r"^--log mlflow: .*nowhere"), Loggers(["mlflow"], tmp_path, IDS):
            pass

    def runs(self, out: Path, experiment: str = "holdfast") -> tuple[Any, list[Any]]:
        from mlflow import MlflowClient

        database = out / "mlflow.db"  # if there is all of mlflow
        client = MlflowClient(f"sqlite:///{database}" if database.exists() else (out / "mlruns").as_uri())
        found = client.get_experiment_by_name(experiment)
        assert found is not None
        return client, client.search_runs([found.experiment_id])

    def read(self, out: Path, spec: RunSpec) -> tuple[Any, Any]:
        client, runs = self.runs(out)
        (run,) = [run for run in runs if run.data.tags["holdfast.id"] == IDS[spec]]
        return client, run

    def check_curves(self, client: Any, run: Any) -> None:
        for name, curve in CURVES.items():
            points = [(point.step, point.value) for point in client.get_metric_history(run.info.run_id, name)]
            assert sorted(points) == [(step, pytest.approx(value)) for step, value in curve.items()]


class TestWandB:
    def test_a_run_that_is_done(self, out: Path) -> None:
        run, rows, summary, exit_code = self.read(out, DONE)
        assert (run["run_id"], run["display_name"], run["project"]) == (IDS[DONE], "der:alpha=0.5 seed 1", "holdfast")
        config = run["config"]
        assert (config["options"], config["lr"], config["seed"]) == ({"alpha": "0.5"}, 0.05, 1)
        assert "net" not in config
        assert self.curves(rows) == {name: pytest.approx(curve) for name, curve in CURVES.items()}
        assert {name: summary[name] for name in (*FINAL, "AA", "step")} == FINAL | {"AA": ACCURACY[50], "step": 50}
        assert exit_code == 0

    def test_a_run_that_failed(self, out: Path) -> None:
        _, rows, summary, exit_code = self.read(out, FAILED)
        assert self.curves(rows) == {"AA": {10: ACCURACY[10]}}
        assert (summary["why"], exit_code) == ("ValueError: it broke", 1)

    def test_a_run_that_went_on_later(self, later: Path) -> None:
        _, rows, _, exit_code = self.read(later, STOPPED)
        assert self.curves(rows) == {"AA": {10: ACCURACY[10], 20: ACCURACY[20]}}
        assert exit_code == 255
        run, rows, _, exit_code = self.read(later / "later", STOPPED)
        assert self.curves(rows) == {name: pytest.approx(curve) for name, curve in CURVES.items()}
        assert (run["run_id"], exit_code) == (IDS[STOPPED], 0)

    def read(self, out: Path, spec: RunSpec) -> tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any], int]:
        (file,) = out.glob(f"wandb/offline-run-*-{IDS[spec]}/*.wandb")
        run: dict[str, Any] = {}
        rows: list[dict[str, Any]] = []
        summary: dict[str, Any] = {}
        exit_code = -1
        for record in wandb_records(file.read_bytes()):
            match record.WhichOneof("record_type"):
                case "run":
                    names = ("run_id", "display_name", "project")
                    run = {name: getattr(record.run, name) for name in names}
                    run["config"] = {item.key: json.loads(item.value_json) for item in record.run.config.update}
                case "history":
                    rows.append({item.nested_key[0]: json.loads(item.value_json) for item in record.history.item})
                case "summary":
                    summary |= {item.key: json.loads(item.value_json) for item in record.summary.update}
                case "exit":
                    exit_code = record.exit.exit_code
        return run, rows, summary, exit_code

    def curves(self, rows: list[dict[str, Any]]) -> dict[str, dict[int, float]]:
        curves: dict[str, dict[int, float]] = {}
        for row in rows:
            for name in row.keys() & CURVES.keys():
                assert row["step"] not in curves.setdefault(name, {})
                curves[name][row["step"]] = row[name]
        return curves


def wandb_records(data: bytes) -> Iterator[Any]:
    """A .wandb file is a log as LevelDB has it: blocks of 32 KiB, records in one or several pieces."""
    from wandb.proto import wandb_internal_pb2

    parse = wandb_internal_pb2.Record.FromString  # type: ignore[attr-defined]
    block, header, whole_or_last = 32768, 7, (1, 4)
    at, pieces = header, b""
    while at < len(data):
        if block - at % block < header:
            at += block - at % block
        size, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        pieces += data[at + header : at + header + size]
        at += header + size
        if kind in whole_or_last:
            yield parse(pieces)
            pieces = b""


def test_a_wrong_name() -> None:
    with pytest.raises(UnknownName, match="did you mean 'mlflow'"):
        Loggers(["mlfow"], Path(), {})


def test_a_client_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"^--log mlflow needs mlflow: pip install 'holdfast\[mlflow\]'$"):
        Loggers(["mlflow"], Path(), {})


def test_nothing_is_written_for_nothing(tmp_path: Path) -> None:
    Loggers(list(loggers.TOOLS), tmp_path, IDS)
    with Loggers([], tmp_path, IDS) as shown:
        shown.show(Started(DONE))
    assert not list(tmp_path.iterdir())


class Diary(Logger):
    """Notes what it is told; breaks when told of step 40."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def send(self, rows: Any) -> None:
        if 40 in rows:
            raise ConnectionError("the server\nis gone")
        self.told += [str(step) for step in rows]

    def end(self, step: int, figures: Row) -> None:
        self.told.append("done")

    def fail(self, why: str) -> None:
        self.told.append(why)

    def stop(self) -> None:
        self.told.append("stopped")


class DiaryOfAll(Tool):
    def __init__(self, out: Path) -> None:
        self.diary = Diary()

    def start(self, spec: RunSpec, run: str) -> Logger:
        return self.diary


def test_a_tool_that_breaks_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tool = DiaryOfAll(tmp_path)
    monkeypatch.setitem(loggers.TOOLS, "wandb", lambda out: tool)
    with Loggers(["wandb", "tensorboard"], tmp_path, IDS) as shown:
        for event in (advanced(DONE, 10), Started(STOPPED), advanced(DONE, 40), advanced(STOPPED, 10)):
            shown.show(event)
        shown.show(Finished(DONE, RECORD))
    assert tool.diary.told == ["10"]
    assert caplog.messages == ["--log wandb is left out from here on: the server is gone"]
    assert TestTensorBoard().curves(TestTensorBoard().read(tmp_path, "der*"))["AA"] == pytest.approx(ACCURACY)
