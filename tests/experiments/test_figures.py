"""Figures of results and tutorials come from `asc.figures`."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_experiments_and_tutorials_draw_by_asc_figures_alone():
    pages = [path for path in (ROOT / "docs").rglob("*") if path.suffix in (".ipynb", ".md")]
    for path in [*(ROOT / "experiments").rglob("*.py"), *pages]:
        assert not re.search(r"import matplotlib\.pyplot|import pyplot", path.read_text()), path
    drawing = re.compile(r"\bax\w*\.(bar|barh|scatter|boxplot|imshow|fill_between|errorbar)\(")
    found = [str(path) for path in (ROOT / "experiments").rglob("*.py") if drawing.search(path.read_text())]
    assert not found
