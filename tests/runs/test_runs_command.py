"""What leaves a store and what comes into one, by `holdfast runs`."""

import csv
import json
import sqlite3
from pathlib import Path

import pytest

from holdfast.commands.main import main
from holdfast.runs.exported import packed
from holdfast.runs.spec import RunSpec
from holdfast.runs.store import Store

NO_RECORDS: list[tuple[object, str]] = [
    (5, "holds no records of runs; holdfast runs export --json makes such files"),
    ({}, "holds no records of runs; holdfast runs export --json makes such files"),
    ([5], "in number 1, there is no id"),
    ({"id": "0123"}, "the id is '0123', not 16 hexadecimal digits"),
    ({"id": "0123456789abcde\0"}, "not 16 hexadecimal digits"),
    ({"id": "../../etc/passwd"}, "not 16 hexadecimal digits"),
    ({"status": "over"}, "the status is 'over', neither done nor failed"),
    ({"acc": None}, "there is no acc"),
    ({"acc": "much"}, "acc is 'much'"),
    ({"seed": 2**70}, "seed is 1180591620717411303424"),
    ({"lr": float("nan")}, "lr is nan"),
    ({"title": "\ud800"}, "title is '\\ud800'"),
    ({"evaluations": 7}, "the evaluations are not what they should be"),
    ({"evaluations": [{"step": 1}]}, "the evaluations are not what they should be"),
    (
        {"evaluations": [{"step": 1, "seen": 1, "aa": 0.5, "correct": [1], "total": [2], "macs": 2**63}]},
        "the evaluations are not what they should be",
    ),
    ({"probes": [{"name": "drift", "step": 1, "value": 0}] * 2}, "the probes are not what they should be"),
]


def exported_record() -> dict[str, object]:
    spec = RunSpec(stream="fashion", method="er")
    counts = {"correct": [1], "total": [2]}
    figures: dict[str, object] = {
        "acc": 0.5,
        "aaa": 0.5,
        "forgetting": None,
        "train_macs": 1,
        "memory_bytes": 1.0,
        "seconds": 1.0,
    }
    figures |= {"updates": 1, "fast_path_agreement": 1.0, "tasks": [[0]], "task_ends": [1]}
    evaluations = [{"step": 1, "seen": 10, "aa": 0.5, **counts, "macs": 1}]
    about = {"id": "0123456789abcdef", "status": "done", "why": None, "title": "er", "environment": {"torch": "2.6"}}
    return {**spec.as_json(), **about, **figures, "evaluations": evaluations}


@pytest.mark.parametrize(("content", "said"), NO_RECORDS)
def test_what_is_no_record_is_not_taken_in(
    content: object, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if isinstance(content, dict) and content:
        content = [exported_record(), {**exported_record(), "id": "f" * 16, **content}]
    (tmp_path / "other.json").write_text(json.dumps(content))
    assert main(["runs", "import", str(tmp_path / "other.json"), "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert not (tmp_path / "runs.sqlite").exists()


def test_imported_records_that_differ_are_named_and_replace_only_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, again = exported_record(), {**exported_record(), "seconds": 9.0, "finished": "2001-02-03 04:05:06"}
    theirs = {**exported_record(), "acc": 0.75, "environment": {"torch": "2.9"}}
    files = {name: tmp_path / f"{name}.json" for name in ("ours", "again", "theirs")}
    for name, record in {"ours": ours, "again": again, "theirs": theirs}.items():
        files[name].write_text(json.dumps([record]))
    run = ["runs", "import", "--out", str(tmp_path)]
    store = Store(tmp_path / "runs.sqlite")
    assert main([*run, str(files["ours"]), str(files["again"])]) == 0
    assert capsys.readouterr() == ("1 runs taken in, 1 were there already\n", "")
    unlike = "0123456789abcdef er seed 0: Acc 50.0 % here and Acc 75.0 % there (torch 2.6 and 2.9)"
    assert main([*run, str(files["theirs"])]) == 0
    assert capsys.readouterr() == (
        "0 runs taken in, 0 were there already, 1 differ from those here\n",
        f"holdfast: {unlike}, left as it is; --replace takes the other one\n",
    )
    assert store.record("0123456789abcdef")["acc"] == 0.5
    assert main([*run, "--replace", str(files["theirs"])]) == 0
    assert f"holdfast: {unlike}, replaced\n" == capsys.readouterr().err
    assert store.record("0123456789abcdef")["acc"] == 0.75


@pytest.mark.parametrize(("part", "other"), [("confusion", [[1, 0, 5]]), ("mistakes", [[4, 0, 1]])])
def test_an_imported_record_with_other_answers_differs(
    part: str, other: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = {**exported_record(), "classes": ["a", "b"], "confusion": [[0, 1, 5]], "mistakes": [[3, 0, 1]]}
    theirs = {**ours, part: other}
    before = {name: value for name, value in ours.items() if name != part}  # of a version that did not keep it
    for name, record in {"ours": ours, "theirs": theirs, "before": before}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps([record]))
    run = ["runs", "import", "--out", str(tmp_path)]
    assert main([*run, str(tmp_path / "ours.json"), str(tmp_path / "before.json")]) == 0
    assert capsys.readouterr() == ("1 runs taken in, 1 were there already\n", "")
    assert main([*run, str(tmp_path / "theirs.json")]) == 0
    assert "1 differ from those here" in capsys.readouterr().out


def test_cells_of_a_table_are_no_formulas(tmp_path: Path) -> None:
    formula = '=HYPERLINK("http://example.org")'
    (tmp_path / "r.json").write_text(json.dumps([{**exported_record(), "title": formula, "aaa": -0.5, "net": "@x"}]))
    at = ["--out", str(tmp_path)]
    assert main(["runs", "import", str(tmp_path / "r.json"), *at]) == 0
    assert main(["runs", "export", "--csv", str(tmp_path / "r.csv"), "--json", str(tmp_path / "r.json"), *at]) == 0
    with open(tmp_path / "r.csv", newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["title"], row["net"], row["aaa"]) == (f"'{formula}", "'@x", "-0.5")
    assert json.loads((tmp_path / "r.json").read_text())[0]["title"] == formula


def test_what_a_terminal_takes_for_a_command_is_not_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r.json").write_text(json.dumps([{**exported_record(), "title": "er\x1b[2J\nseed"}]))
    assert main(["runs", "import", str(tmp_path / "r.json"), "--out", str(tmp_path)]) == 0
    assert main(["runs", "list", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "er�[2J�seed" in shown and len(shown.splitlines()) == 4
    assert main(["frontier", str(tmp_path)]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_of_a_damaged_store_what_is_sound_is_listed_and_the_rest_can_be_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sound, damaged = "0" * 16, "f" * 16
    (tmp_path / "r.json").write_text(json.dumps([{**exported_record(), "id": run} for run in (sound, damaged)]))
    at = ["--out", str(tmp_path)]
    assert main(["runs", "import", str(tmp_path / "r.json"), *at]) == 0
    with sqlite3.connect(tmp_path / "runs.sqlite") as db:
        db.execute("UPDATE runs SET acc = 0.6 WHERE id = ?", (damaged,))
    db.close()
    capsys.readouterr()
    for words in (
        ["list"],
        ["list", "--where", "acc=0.5"],
        ["show", damaged],
        ["export", "--csv", str(tmp_path / "r.csv")],
    ):
        assert main(["runs", *words, *at]) == 2
        shown = capsys.readouterr()
        assert f"damaged where it has {damaged}: holdfast runs rm" in shown.err and shown.err.count("\n") == 1
        assert (sound[:8] in shown.out) == (words[0] == "list")
    assert not (tmp_path / "r.csv").exists()
    assert main(["runs", "show", sound, *at]) == 0
    assert main(["runs", "rm", damaged, *at]) == 0
    assert main(["runs", "import", str(tmp_path / "r.json"), *at]) == 0
    assert main(["runs", "list", *at]) == 0
    assert "2 runs" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["r.json", "r.json.gz", "r.json.xz"])
def test_what_was_exported_compressed_or_not_is_imported_again(name: str, tmp_path: Path) -> None:
    (tmp_path / "first.json").write_text(json.dumps([exported_record()]))
    here, there = ["--out", str(tmp_path / "here")], ["--out", str(tmp_path / "there")]
    file, again = tmp_path / name, tmp_path / f"again-{name}"
    assert main(["runs", "import", str(tmp_path / "first.json"), *here]) == 0
    assert main(["runs", "export", "--json", str(file), *here]) == 0
    assert main(["runs", "import", str(file), *there]) == 0
    assert main(["runs", "export", "--json", str(again), *there]) == 0
    assert again.read_bytes() == file.read_bytes()
    assert file.read_bytes().startswith({".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ"}.get(file.suffix, b"[{"))


@pytest.mark.parametrize("name", ["r.json.gz", "r.json.xz"])
@pytest.mark.parametrize("cut", [0, 20])
def test_a_compressed_file_that_is_cut_short_is_one_line(
    name: str, cut: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / name
    file.write_bytes(packed([exported_record()], file)[:cut])
    assert main(["runs", "import", str(file), "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert f"{file} cannot be read" in error and error.count("\n") == 1


def test_a_small_file_that_unpacks_to_more_than_there_should_be_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("holdfast.runs.exported.MOST_BYTES", 100)
    file = tmp_path / "r.json.xz"
    file.write_bytes(packed([exported_record()], file))
    assert main(["runs", "import", str(file), "--out", str(tmp_path)]) == 2
    assert "more than 100 bytes" in capsys.readouterr().err


def test_the_list_can_be_sorted_cut_and_read_by_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    accuracies = {"a": 0.3, "b": 0.9, "c": 0.5}
    records = [{**exported_record(), "id": letter * 16, "acc": acc} for letter, acc in accuracies.items()]
    records[1] |= {"net": "mlp"}
    (tmp_path / "all.json").write_text(json.dumps(records))
    where = ["--out", str(tmp_path)]
    main(["runs", "import", str(tmp_path / "all.json"), *where])
    capsys.readouterr()
    assert main(["runs", "list", *where, "--sort=-acc", "--limit", "2", "--json"]) == 0
    assert [(row["id"][0], row["net"]) for row in json.loads(capsys.readouterr().out)] == [("b", "mlp"), ("c", None)]
    assert main(["runs", "list", *where, "--sort", "net"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "mlp" in lines[1] and "default" in lines[2], "those without a value come last"
    for wrong, said in ((["--sort", "accuracy"], "unknown field 'accuracy'"), (["--limit", "0"], "--limit must be")):
        assert main(["runs", "list", *where, *wrong]) == 2
        assert said in capsys.readouterr().err
