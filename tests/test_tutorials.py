"""The tutorials run from top to bottom, briefly trained."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "docs" / "tutorials"


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.ipynb")))
def test_tutorial(name, data_dir, tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    monkeypatch.setenv("ASCRIBO_QUICK", "1")
    monkeypatch.setenv("ASCRIBO_DATA", str(data_dir))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()  # raises with the cell and its error
    assert all(cell.get("execution_count") for cell in notebook.cells if cell.cell_type == "code")
