import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from holdfast.commands.explained import EXPLAINED
from holdfast.commands.main import main, parser
from holdfast.datasets.base import Dataset
from holdfast.learner import Learner
from holdfast.runs.store import Store
from holdfast.streams import source
from holdfast.streams.named import OPTIONS, ORDERS

HOLDFAST = [sys.executable, "-m", "holdfast"]


@pytest.fixture
def own(blobs: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """`holdfast run` on a small stream of one's own, in an empty folder."""
    np.savez(tmp_path / "blobs.npz", **{k: getattr(blobs, k) for k in ("train_x", "train_y", "test_x", "test_y")})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path / "data"))
    return ["run", "--stream", "arrays:blobs.npz", "--out", "out"]


def test_help_names_every_option_of_a_stream(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    of_streams = capsys.readouterr().out.partition("--stream NAME  ")[2].partition("--method NAME")[0]
    for name in (*OPTIONS, *ORDERS):
        assert name in of_streams


def test_help_answers_without_torch() -> None:
    code = (
        "import sys; from holdfast.commands.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: assert 'torch' not in sys.modules"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "holdfast run" in shown


@pytest.mark.slow
def test_run_ends_with_a_table_a_picture_and_records(own: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*own, "--seeds", "2", "--method", "er", "--method", "er-ace:head=linear", "--json", "all.json"]) == 0
    shown = capsys.readouterr().out
    assert "er-ace:head=linear" in shown
    assert "±" in shown
    assert "the plain net's answer on 100.0 % of 120 test samples" in shown
    assert Path("out/anytime.png").read_bytes().startswith(b"\x89PNG")
    records = json.loads(Path("all.json").read_text())
    assert [(r["method"], r["seed"]) for r in records] == [("er", 0), ("er-ace", 0), ("er", 1), ("er-ace", 1)]
    assert records[1]["options"] == {"head": "linear"}
    assert main(["runs", "list", "--out", "out"]) == 0
    assert "4 runs" in capsys.readouterr().out


@pytest.mark.slow
def test_what_is_there_is_not_run_again(own: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    command = [*own, "--seeds", "1", "--method", "er", "--json", "all.json"]
    assert main(command) == 0
    first = Path("all.json").read_text()
    capsys.readouterr()
    assert main(command) == 0
    assert "1 of 1 runs are in out/runs.sqlite already" in capsys.readouterr().err
    assert Path("all.json").read_text() == first
    assert main([*command, "--fresh"]) == 0
    assert Path("all.json").read_text() != first  # at least the seconds differ


@pytest.mark.slow
def test_names_are_shown_as_they_are(own: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever they mean to the library that prints them."""
    Path("[").mkdir()
    name, out = "[/b] c.npz", "a[/y]:cat:"
    Path("blobs.npz").rename(name)
    command = ["run", "--stream", f"arrays:{name}", "--out", out, "--seeds", "1", "--method", "er"]
    assert main(command) == 0
    assert main(command) == 0
    shown, noted = capsys.readouterr()
    assert f"picture: {out}/anytime.png" in shown
    assert f"1 of 1 runs are in {out}/runs.sqlite already" in noted
    assert f"arrays:{name}, 5 samples a class" in shown
    assert main(["cost", "--stream", f"arrays:{name}", "--method", "er"]) == 0
    assert f"arrays:{name}, 5 samples a class" in capsys.readouterr().out.replace("\n", " ")


@pytest.mark.slow
def test_a_dash_is_stdout_and_nothing_else_is_written_there(
    own: list[str], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    command = [*own, "--seeds", "1", "--method", "er", "--keep-learners", "--json", "-"]
    assert main(command) == 0
    (record,) = json.loads(capfdbinary.readouterr().out)
    assert main(["runs", "export", "--csv", "-", "--out", "out"]) == 0
    assert capfdbinary.readouterr().out.splitlines()[1].startswith(record["id"].encode())
    assert main(["runs", "export", "--json", "-", "--out", "out"]) == 0
    assert json.loads(capfdbinary.readouterr().out) == [record]
    assert main(["runs", "export", "--parquet", "-", "--out", "out"]) == 0
    assert capfdbinary.readouterr().out.startswith(b"PAR1")
    assert main(["runs", "save", record["id"], "-", "--out", "out"]) == 0
    saved = capfdbinary.readouterr().out
    assert main(["runs", "save", record["id"], "file", "--out", "out"]) == 0
    assert Path("file").read_bytes() == saved
    assert not Path("-").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--method", "er-acee"], "did you mean 'er-ace'? there are er, er-ace, er-aml"),
        (["--stream", "cifar1"], "did you mean 'cifar10'?"),
        (["--stream", "cifar10"], "holdfast data get cifar10"),
        (["--stream", "folder:nowhere"], "nowhere"),
        (["--stream", "folder:"], "folder:PATH"),
        (["--stream", "fashion:tasks=11"], "between 1 and 10"),
        (["--stream", "fashion:task=2"], "did you mean 'tasks'"),
        (["--method", "er:replay"], "unknown method 'er:replay'"),
        (["--method", "er:replay=x"], "must be an int"),
        (["--memory", "-1"], "0 or more"),
        (["--memory", "many"], "--memory"),
        (["--seeds", "0"], "1 or more"),
        (["--lr", "0"], "above 0"),
        (["--eval", "sometimes"], "exact or rotating:K"),
        (["--eval-every", "0"], "1 or more"),
        (["--jobs", "0"], "1 or more"),
        (["--net", "resnet"], "slim-resnet18"),
        (["--net", "slim-resnet18"], "32×32"),
        (["--augment"], "images"),
        (["--json", "nowhere/all.json"], "--json"),
        (["--snapshot-every", "0"], "above 0, not 0"),
        (["--log", "tensorbord"], "did you mean 'tensorboard'"),
        (["--address", "auto"], "for --backend ray"),
        (["--backend", "ray", "--address", "127.0.0.1:9"], "no Ray cluster answers there"),
        (["--bogus"], "--bogus"),
    ],
)
def test_bad_input_is_one_line_exit_code_2_and_nothing_written(
    own: list[str], arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(os.listdir())
    try:
        code = main([*own, *arguments])
    except SystemExit as ended:
        code = int(str(ended.code))
    error = capsys.readouterr().err
    assert code == 2
    assert said in error
    assert error.count("\n") == 1
    assert sorted(os.listdir()) == before


@pytest.mark.slow
def test_a_trained_learner_is_kept_and_saved(own: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*own, "--seeds", "1", "--method", "er", "--keep-learners", "--memory", "4"]) == 0
    (row,) = Store(Path("out/runs.sqlite")).rows()
    assert main(["runs", "save", row["id"][:6], "learner.safetensors", "--out", "out"]) == 0
    assert main(["runs", "save", "method=er,seed=0", "again.safetensors", "--out", "out"]) == 0
    assert Path("again.safetensors").read_bytes() == Path("learner.safetensors").read_bytes()
    assert main(["runs", "save", "seed=1", "none.safetensors", "--out", "out"]) == 2
    assert "0 runs have seed=1" in capsys.readouterr().err
    learner = Learner.load("learner.safetensors")
    assert learner.step == row["updates"]
    assert all(isinstance(label, str) for label in learner.classes)
    names = source(own[own.index("--stream") + 1], Path()).dataset.classes
    learner.labels.restore([names.index(str(label)) for label in learner.classes])
    assert learner.state_hash() == Store(Path("out/runs.sqlite")).record(row["id"])["state_hash"]
    assert main([*own, "--seeds", "1", "--method", "er-ace"]) == 0
    other = next(row for row in Store(Path("out/runs.sqlite")).rows() if row["method"] == "er-ace")
    assert main(["runs", "save", other["id"], "other.safetensors", "--out", "out"]) == 2
    assert "--keep-learners" in capsys.readouterr().err
    assert main(["runs", "show", "seed=0", "--out", "out"]) == 2
    assert f"2 runs have seed=0: {row['id'][:8]}, {other['id'][:8]}" in capsys.readouterr().err
    assert not Path("other.safetensors").exists()


BROKEN = """
import os
from holdfast import ER

class Broken(ER):
    def loss(self, net, new, old=None):
        if not os.path.exists("mended"):
            raise RuntimeError("as it must")
        return super().loss(net, new, old)
"""


@pytest.mark.slow
def test_a_sweep_goes_through_its_grid_and_repeats_what_failed_when_asked(
    own: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("broken.py").write_text(BROKEN)
    Path("grid.toml").write_text(
        'stream = "arrays:blobs.npz"\nmethod = ["er", "broken.py:Broken"]\nmemory = [2, 4]\nseeds = 2\n'
    )
    command = ["sweep", "grid.toml", "--out", "out"]
    assert main(command) == 1
    shown = capsys.readouterr()
    assert shown.err.splitlines().count("RuntimeError: as it must") == 4  # the tracebacks, after the progress
    assert "memory=2" in shown.out and "memory=4" in shown.out
    assert Path("out/anytime-memory=2.png").exists() and Path("out/anytime-memory=4.png").exists()
    Path("mended").touch()
    assert main(command) == 1
    assert "4 of 8 runs failed before (--retry-failed repeats them)" in capsys.readouterr().err
    assert main([*command, "--retry-failed"]) == 0
    rows = Store(Path("out/runs.sqlite")).rows()
    assert len(rows) == 8 and {row["status"] for row in rows} == {"done"}


@pytest.mark.slow
def test_runs_are_listed_shown_exported_and_removed(own: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*own, "--seeds", "2", "--method", "er"]) == 0
    ids = {row["seed"]: row["id"] for row in Store(Path("out/runs.sqlite")).rows()}
    first, second = ids[0], ids[1]
    at = ["--out", "out"]
    capsys.readouterr()
    assert main(["runs", "list", "--where", "seed=1", *at]) == 0
    shown = capsys.readouterr().out
    assert second[:8] in shown and first[:8] not in shown
    assert main(["runs", "show", first[:6], *at]) == 0
    one = capsys.readouterr()
    assert json.loads(one.out)["id"] == first
    assert "evaluations and what it answered: --json" in one.err
    assert main(["runs", "show", first[:6], "--json", *at]) == 0
    whole = capsys.readouterr()
    assert json.loads(whole.out)["evaluations"] and not whole.err
    assert main(["runs", "export", "--json", "one.json", "--where", "seed=0", *at]) == 0
    (exported,) = json.loads(Path("one.json").read_text())
    Path("one.json").write_text(json.dumps([{**exported, "finished": "2001-02-03 04:05:06"}]))
    assert main(["runs", "rm", first, *at]) == 0
    assert main(["runs", "import", "one.json", *at]) == 0
    assert Store(Path("out/runs.sqlite")).record(first)["finished"] == "2001-02-03 04:05:06"
    assert main(["runs", "import", "one.json", *at]) == 0
    assert "0 runs taken in, 1 were there already" in capsys.readouterr().out
    assert main([*own, "--seeds", "2", "--method", "er"]) == 0
    assert "2 of 2 runs are in out/runs.sqlite already" in capsys.readouterr().err


@pytest.mark.slow
def test_records_outlive_the_file_of_their_method(own: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("own.py").write_text("from holdfast import ER\nclass Own(ER): needs_task_ids = True\n")
    assert main([*own, "--seeds", "1", "--method", "own.py:Own"]) == 0
    Path("elsewhere").mkdir()
    Path("own.py").rename("elsewhere/own.py")
    assert main([*own, "--seeds", "1", "--method", "elsewhere/own.py:Own"]) == 0
    assert "1 of 1 runs are in out/runs.sqlite already (--fresh" in capsys.readouterr().err
    Path("elsewhere/own.py").unlink()
    (run,) = (row["id"] for row in Store(Path("out/runs.sqlite")).rows())
    for words in ("list", "show 0", "export --csv runs.csv --json runs.json", "import runs.json"):
        assert main(["runs", *words.replace(" 0", f" {run}").split(), "--out", "out"]) == 0
    assert "own.py:Own†" in capsys.readouterr().out
    assert main(["report", "out"]) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["list", "--where", "sed=0"], "did you mean 'seed'?"),
        (["list", "--where", "seed"], "field=value"),
        (["show", "0"], "unknown run '0'"),
        (["rm", "0"], "unknown run '0'"),
        (["export"], "--csv FILE"),
        (["export", "--csv", "nowhere/runs.csv"], "nowhere/runs.csv"),
        (["import", "blobs.npz"], "blobs.npz"),
        (["import", "nowhere.json"], "nowhere.json cannot be read"),
        (["list", "--where", "augment=maybe"], "augment is true or false, not 'maybe'"),
        (["list", "--where", "lr=small"], "lr is a number, not 'small'"),
        (["list", "--where", "seed=1.5"], "seed is a whole number, not '1.5'"),
        (["list", "--where", "options=head"], "options is written as JSON"),
        (["list", "--out", "nowhere"], "holdfast run --out nowhere"),
    ],
)
def test_mistakes_in_what_is_asked_of_the_store(
    own: list[str], arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Store(Path("out/runs.sqlite")).open()
    words = ["runs", *arguments] if "--out" in arguments else ["runs", *arguments, "--out", "out"]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_data_commands(own: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "list"]) == 0
    shown = capsys.readouterr().out
    assert "fashion" in shown
    assert "holdfast data get cifar100" in shown
    assert main(["data", "verify", "cifar10"]) == 2
    assert "holdfast data get cifar10" in capsys.readouterr().err
    assert main(["data", "get", "cifar"]) == 2
    assert "did you mean 'cifar10'" in capsys.readouterr().err
    assert main(["data", "verify", "fashion"]) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("signal_sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopping_keeps_what_is_finished(own: list[str], signal_sent: signal.Signals, code: int) -> None:
    """The first run is short, the second would take hours."""
    Path("slow.py").write_text(
        "import time\nfrom holdfast import ER\n"
        "class Slow(ER):\n"
        "    def loss(self, net, new, old=None):\n"
        "        time.sleep(60)\n"
    )
    command = [*HOLDFAST, *own, "--seeds", "1", "--jobs", "1", "--method", "er", "--method", "slow.py:Slow"]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it, and so would ours
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 300
        store = Store(Path("out/runs.sqlite"))
        while not (store.file.exists() and store.rows()) and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(0.5)
        process.send_signal(signal_sent)
        try:
            shown, error = process.communicate(timeout=300)  # a busy machine is no failure
        finally:
            process.kill()
    assert process.returncode == code
    assert "1 of 2 runs are kept in out" in error.splitlines()[-1] and "Traceback" not in error
    assert "er" in shown
    assert [row["status"] for row in store.rows()] == ["done"]


ENDS = """
import atexit, os, signal, sys
from holdfast.commands.explained import EXPLAINED
from holdfast.commands.main import main, parser
signal.signal(signal.SIGINT, signal.default_int_handler)
atexit.register(lambda: os.kill(os.getpid(), int(sys.argv.pop())))
number, sys.argv[1:] = sys.argv[1], ["data", "list"]
code = main()
sys.argv.append(number)
sys.exit(code)
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_told_to_stop_when_it_has_ended_it_says_nothing(sent: signal.Signals) -> None:
    done = subprocess.run([sys.executable, "-c", ENDS, str(int(sent))], capture_output=True, text=True, check=False)
    assert "fashion" in done.stdout and done.stderr == "" and done.returncode == -sent


def test_signals_are_as_before_when_a_command_has_ended(own: list[str]) -> None:
    def handlers() -> list[object]:
        return [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]

    before = handlers()
    assert main(["data", "list"]) == 0
    assert handlers() == before


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
def test_a_full_stdout_is_one_line(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "holdfast", "data", "list", "--data", str(tmp_path)]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "holdfast: stdout cannot be written: No space left on device\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--out", ""], "--out"),
        (["run", "--lr", "inf"], "--lr must be a finite number above 0 and at most 1000"),
        (["run", "--lr", "5000"], "--lr must be a finite number above 0 and at most 1000"),
        (["run", "--snapshot-every", "nan"], "--snapshot-every must be a finite number above 0"),
    ],
)
def test_numbers_and_names_that_cannot_be(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        code: object = main(arguments)
    except SystemExit as end:
        code = end.code
    error = capsys.readouterr().err
    assert code == 2 and said in error and error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_options_are_not_abbreviated(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "--seed", "2"])
    assert ended.value.code == 2
    assert "--seed" in capsys.readouterr().err


def test_a_shell_completes_commands_and_options(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "completion.sh"
    script.write_text(capsys.readouterr().out)
    for typed, wanted in (("holdfast fron", "frontier"), ("holdfast runs list --so", "--sort")):
        words = " ".join(f"'{word}'" for word in typed.split())
        ask = f"source {script}; COMP_WORDS=({words}); COMP_CWORD={len(typed.split()) - 1}; _shtab_holdfast; "
        ask += 'echo "${COMPREPLY[@]}"'
        done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=False)
        assert wanted in done.stdout.split(), done.stderr


def test_every_command_and_action_is_explained_by_examples_that_it_takes() -> None:
    whole = parser(whole=True)
    for name, (description, examples) in EXPLAINED.items():
        assert description and examples, name
        for example in examples:
            program, *words = shlex.split(example)
            assert program == "holdfast" and words[: len(name.split())] == name.split()
            assert whole.parse_args(words).command


def test_help_has_a_description_and_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["run"], ["runs", "list"], ["learner", "verify"]):
        with pytest.raises(SystemExit):
            main([*words, "--help"])
        shown = capsys.readouterr().out
        assert f"\nexamples:\n  holdfast {' '.join(words)}" in shown
        assert " ".join(EXPLAINED[" ".join(words)][0].split()) in " ".join(shown.split())


def test_results_are_on_stdout_and_what_is_under_way_on_stderr(
    own: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*own, "--seeds", "1", "--method", "ncm", "--jobs", "1"]) == 0
    shown, noted = capsys.readouterr()
    assert "ncm seed 0: Acc" in noted and "ncm seed 0: Acc" not in shown
    assert "(majority)" in shown and "majority" not in noted
    assert main([*own, "--seeds", "1", "--method", "ncm", "--jobs", "1", "--fresh", "--quiet"]) == 0
    shown, noted = capsys.readouterr()
    assert "(majority)" in shown and noted == ""


def test_a_command_that_is_stopped_while_it_is_loaded_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("holdfast.commands.main.import_module", stopped)
    assert main(["run"]) == 130
    assert capsys.readouterr() == ("", "holdfast: stopped\n")
