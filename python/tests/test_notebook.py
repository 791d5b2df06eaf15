"""The notebook runs from the first cell to the last, which checks the numbers of its text."""

from __future__ import annotations

import base64

import nbclient
import nbformat
import pytest

from conftest import ROOT

PATH = ROOT / "python" / "notebooks" / "dying-sensors.ipynb"


@pytest.fixture
def notebook():
    return nbformat.read(PATH, as_version=4)


def test_it_runs(notebook, binary, tmp_path, monkeypatch):
    monkeypatch.setenv("BLANKOUT", str(binary))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    client = nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    outputs = [o for cell in notebook.cells for o in cell.get("outputs", [])]
    figures = [o.data["image/png"] for o in outputs if "image/png" in o.get("data", {})]
    assert len(figures) == 1 and base64.b64decode(figures[0]).startswith(b"\x89PNG")
    assert [p.name for p in tmp_path.iterdir()] in ([], ["ipython"])  # it tidies up


def test_it_is_kept_without_outputs(notebook):
    nbformat.validate(notebook)
    assert PATH.stat().st_size < 200_000
    for cell in notebook.cells:
        assert not cell.get("outputs") and cell.get("execution_count") is None
