"""Figures of results come from `asc.figures`, and every result that is kept can be drawn."""

import json
import re
from pathlib import Path

import pytest

import experiments
from ascribo.figures.style import _figure_class

ROOT = Path(__file__).parents[2]
KEPT = sorted(path.stem for path in (ROOT / "results").glob("*.json"))


def test_experiments_and_tutorials_draw_by_asc_figures_alone():
    pages = [path for path in (ROOT / "docs").rglob("*") if path.suffix in (".ipynb", ".md")]
    for path in [*(ROOT / "experiments").rglob("*.py"), *pages]:
        assert not re.search(r"import matplotlib\.pyplot|import pyplot", path.read_text()), path
    drawing = re.compile(r"\bax\w*\.(bar|barh|scatter|boxplot|imshow|fill_between|errorbar)\(")
    found = [str(path) for path in (ROOT / "experiments").rglob("*.py") if drawing.search(path.read_text())]
    assert not found


@pytest.mark.parametrize("name", KEPT)
def test_a_result_is_drawn(name):
    result = json.loads((ROOT / "results" / f"{name}.json").read_text())
    ax = experiments.find(name).draw(result)
    assert isinstance(ax.figure, _figure_class()) and ax.has_data()
    assert (ROOT / "results" / f"{name}.png").is_file()
