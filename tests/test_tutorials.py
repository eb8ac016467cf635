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


MARKDOWN = sorted(FOLDER.glob("*.md"))
FAST = ("box", "label-free", "your-own-file")
"""Tutorials that run in a few seconds; `make docs` runs all, and so does -m slow."""


@pytest.mark.parametrize(
    "path", [pytest.param(p, id=p.stem, marks=[] if p.stem in FAST else pytest.mark.slow) for p in MARKDOWN]
)
def test_tutorial_in_markdown(path, request, tmp_path, monkeypatch, fair_unique_variance, capsys):
    text = path.read_text()
    cells = re.findall(r"```\{code-cell\}\n(.*?)```", text, flags=re.DOTALL)
    assert len(cells) >= 3
    if "ASCRIBO_DATA" in text:
        monkeypatch.setenv("ASCRIBO_DATA", str(request.getfixturevalue("data_dir")))
    monkeypatch.setenv("ASCRIBO_QUICK", "1")
    monkeypatch.chdir(tmp_path)
    there: dict = {}
    for cell in cells:
        exec(compile(cell, str(path), "exec"), there)
    FOUND[path.stem](there)


def _six_of_each_kind(there):
    calls = there["calls"]
    called = calls[calls.called.eq(True)].groupby("space").channel.nunique()
    assert called["position"] >= 5 and called["direction"] >= 5 and list(Path.cwd().rglob("report.html"))


def _same_everywhere(there):
    """The sweep is done, also on the cluster, where each model is the same as in this process."""
    assert set(there["found"].cells().state) == set(there["there"].cells().state) == {"done"}
    assert (there["here"].transform(there["one"]) == there["other"].transform(there["one"])).all()
    assert there["page"].exists()


FOUND = {
    "box": lambda there: next(Path.cwd().rglob("report.html")),
    "cluster": lambda there: _same_everywhere(there),
    "grid-cells": lambda there: there["calls"].called.all() or pytest.fail("a cell with fields was not called"),
    "identifiability": lambda there: _above(there["found"]["Laplace (true)"].scores.mcc[0], 0.95),
    "label-free": lambda there: _above(there["moved"]["saliency"], 2 * there["moved"]["ten pixels at random"]),
    "nwb": lambda there: _above(there["calls"].query("space == 'place' and called").shape[0], 6.5),
    "reaching": lambda there: _above(there["calls"].called.sum(), 20),
    "sessions": lambda there: _above(there["agree"].r2_unaligned.min(), 0.8),
    "your-own-file": _six_of_each_kind,
}
"""What each page tells its reader holds in the quick form, too."""


def _above(value, least):
    assert value > least


@pytest.mark.parametrize("path", [*MARKDOWN, *TUTORIALS], ids=lambda path: path.stem)
def test_tutorials_say_what_they_need(path):
    text = path.read_text()
    reads = 'os.environ["ASCRIBO_DATA"]' in text.replace('\\"', '"')
    assert reads == ("ASCRIBO_DATA` " in text), "a page that reads real data says what to set, and no other does"
    assert reads == (path.stem in ("grid-cells", "reaching", "track"))
    assert path.stem in FOUND or path.suffix == ".ipynb"
