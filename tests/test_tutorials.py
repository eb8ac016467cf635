"""The tutorials run from top to bottom, briefly trained; only those that read real data need it."""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "docs" / "tutorials"
TUTORIALS = sorted(FOLDER.glob("*.ipynb"))


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_tutorial(path, request, tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    monkeypatch.delenv("ASCRIBO_DATA", raising=False)
    if any("ASCRIBO_DATA" in cell.source for cell in code):
        monkeypatch.setenv("ASCRIBO_DATA", str(request.getfixturevalue("data_dir")))
    monkeypatch.setenv("ASCRIBO_QUICK", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()  # raises with the cell and its error
    assert all(cell.get("execution_count") for cell in code)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.md")), ids=lambda path: path.stem)
def test_tutorial_in_markdown(path, tmp_path, monkeypatch, fair_unique_variance, capsys):
    cells = re.findall(r"```\{code-cell\}\n(.*?)```", path.read_text(), flags=re.DOTALL)
    assert len(cells) >= 3
    monkeypatch.setenv("ASCRIBO_QUICK", "1")
    monkeypatch.chdir(tmp_path)
    there: dict = {}
    for cell in cells:
        exec(compile(cell, str(path), "exec"), there)
    calls = there["calls"]
    if path.stem == "your-own-file":  # six units of each kind
        called = calls[calls.called.eq(True)].groupby("space").channel.nunique()
        assert called["position"] >= 5 and called["direction"] >= 5
    assert list(tmp_path.rglob("report.html"))


def test_one_tutorial_needs_no_data():
    sources = {path.stem: path.read_text() for path in TUTORIALS}
    assert "ASCRIBO_DATA" not in sources["navigation"] and "ASCRIBO_DATA" in sources["track"]
