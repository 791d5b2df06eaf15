"""Each notebook runs from the first cell to the last, whose checks are in its cells, and is kept with what it shows."""

from __future__ import annotations

import base64

import nbclient
import nbformat
import pytest

from conftest import ROOT

NOTEBOOKS = sorted((ROOT / "python" / "notebooks").glob("*.ipynb"))


def shown(notebook) -> list[list[str]]:
    """Return by cell what kinds of results it shows; what is printed may come in any number of parts."""
    return [[o.output_type for o in cell.get("outputs", []) if o.output_type != "stream"] for cell in notebook.cells]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_it_runs(path, binary, tmp_path, monkeypatch):
    monkeypatch.setenv("BLANKOUT", str(binary))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(path, as_version=4)
    kept = shown(notebook)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert shown(notebook) == kept
    figures = [o.data["image/png"] for cell in notebook.cells for o in cell.get("outputs", []) if "image/png" in o.get("data", {})]
    assert all(base64.b64decode(figure).startswith(b"\x89PNG") for figure in figures)
    assert [p.name for p in tmp_path.iterdir()] in ([], ["ipython"])  # it tidies up


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_it_is_kept_with_what_it_shows(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert path.stat().st_size < 300_000 and any(cell.get("outputs") for cell in notebook.cells)
    text = path.read_text()
    assert "/tmp/" not in text and "/home/" not in text and '"stderr"' not in text


def test_there_are_three():
    assert {p.stem for p in NOTEBOOKS} == {"dying-sensors", "late-labels", "river-and-scikit-learn"}
