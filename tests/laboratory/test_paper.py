"""`holdfast.paper`: what `holdfast paper` makes, as a function call."""

import json
from pathlib import Path

import pytest

import holdfast
from holdfast.commands.main import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("paper")


@pytest.fixture(scope="module")
def found(folder: Path) -> holdfast.PaperResults:
    return holdfast.paper("T7", quick=True, only="method=er", seeds=1, out=folder, progress=False)


def test_it_has_the_numbers_of_a_table(found: holdfast.PaperResults) -> None:
    made = [cell for cell in found.cells("T7") if cell.values]
    assert {cell.row for cell in made} == {"ER"}
    assert {run for cell in made for run in cell.runs} == {record["id"] for record in found.results}
    assert found.tables("T7")
    assert any("miniature" in note for note in found.notes("T7"))


def test_the_command_makes_the_same_of_these_runs(found: holdfast.PaperResults, folder: Path, tmp_path: Path) -> None:
    words = ["paper", "T7", "--quick", "--only", "method=er", "--seeds", "1", "--render", "--out", str(folder)]
    assert main(words) == 0
    paths = found.write("T7", tmp_path)
    assert [path.name for path in paths] == ["T7-miniature.md", "T7-miniature.json"]
    for path in paths:
        assert path.read_bytes() == (folder / "paper" / path.name).read_bytes()
    assert any(cell["values"] for cell in json.loads(paths[1].read_text()))


def test_a_notebook_shows_it(found: holdfast.PaperResults) -> None:
    page = found._repr_html_()
    assert page.count("<table") == len({cell.column for cell in found.cells("T7")})
    assert "missing" in page


def test_what_is_there_can_be_drawn_without_running(found: holdfast.PaperResults, folder: Path) -> None:
    again = holdfast.paper("T7", "F1", quick=True, seeds=1, out=folder, render=True, progress=False)
    assert again.figure("F1").count("<svg") == 1
    assert any(cell.values for cell in again.cells("T7"))
    with pytest.raises(holdfast.InputError, match="nothing is run"):
        _ = again.results


def test_mistakes_are_found_before_anything_runs(found: holdfast.PaperResults, tmp_path: Path) -> None:
    out = tmp_path / "none"
    for names, how, match in (
        (["T77"], {}, "did you mean 'T7'"),
        ([], {}, "name a table or figure"),
        (["T7"], {"seeds": 0}, "1 or more"),
        (["T7"], {"picks": "ours"}, "unknown set of picks"),
        (["T7"], {"colour": "red"}, "unknown argument"),
        (["T7"], {"only": "method=none"}, "no run of T7"),
        (["T7"], {"render": True}, "no runs"),
    ):
        with pytest.raises(holdfast.InputError, match=match):
            holdfast.paper(*names, out=out, progress=False, **how)
    assert not out.exists()
    with pytest.raises(holdfast.InputError, match="is a table"):
        found.figure("T7")
    with pytest.raises(holdfast.InputError, match="unknown table or figure"):
        found.cells("T1")
