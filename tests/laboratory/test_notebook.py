"""The notebook on the laboratory, executed by a kernel of its own."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "docs" / "laboratory.ipynb"


@pytest.mark.slow
def test_every_cell_works_and_shows_what_it_should(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "results are made, not kept"
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [cell.outputs[-1] for cell in notebook.cells if cell.cell_type == "code"]
    assert all(output.output_type == "execute_result" for output in shown)
    table, picture, comparison, frame, answers, own, sweep = (output.data for output in shown)
    assert "<table" in table["text/html"] and "er-ace" in table["text/html"]
    assert "image/png" in picture and "<table" in comparison["text/html"] and len(frame["text/html"]) > 500
    assert answers["text/plain"].startswith("[") and "Sharper" in own["text/html"]
    assert "memory=1, lr=0.01" in sweep["text/html"]
