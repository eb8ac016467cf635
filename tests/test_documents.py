"""What the pages name is there: files, modules, links, experiments, make targets."""

import importlib
import re
from pathlib import Path

import pytest

import ascribo as asc
from experiments import EXPERIMENTS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BELOW = (ROOT, ROOT / "src/ascribo", ROOT / "benchmarks", ROOT / "docs")
"""Where a path on a page may begin."""

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@pages
def test_files_exist(page):
    named = re.findall(r"`([\w/.-]+(?:\.py|\.json|\.md|\.ipynb|/))(?: [^`]*)?`", page.read_text())
    gone = [name for name in named if not any((below / name).exists() for below in BELOW) and not _results(name)]
    assert not gone, f"{page.name} names files that are not there: {gone}"


@pages
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    broken = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not broken


@pages
def test_modules_and_functions_exist(page):
    folders = "|".join(path.parent.name for path in (ROOT / "src/ascribo").glob("*/__init__.py"))
    for name in re.findall(rf"`(?:ascribo\.)?((?:{folders})(?:\.\w+)+)(?:\([^`]*)?`", page.read_text()):
        own = name.removeprefix("model.")  # `model.fit`, `model.history_`: of a user's model
        estimator = own.endswith("_") or own in dir(asc.ContrastiveEmbedding)
        file = name.endswith((".py", ".json", ".md"))
        assert estimator or file or _exists(f"ascribo.{name}"), f"{page.name} names {name}"


@pages
def test_experiments_and_targets_exist(page):
    text = page.read_text()
    unknown = set(re.findall(r"ascribo reproduce ([a-z][\w-]*)", text)) - set(EXPERIMENTS)
    assert not unknown
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make\s([a-z]+)`", text)) <= targets


def _results(name: str) -> bool:
    """Whether the name is that of a result, of any result (`results/NAME.json`), or of a file in a user's run."""
    return (ROOT / "results" / name).exists() or "NAME" in name or name == "model.json"


def _exists(name: str) -> bool:
    """Whether a dotted name leads to a module or to something in one."""
    parts, k = name.split("."), 1
    thing: object = importlib.import_module(parts[0])
    for k in range(1, len(parts)):
        try:
            thing = importlib.import_module(".".join(parts[: k + 1]))
        except ModuleNotFoundError:
            break
    else:
        return True
    for part in parts[k:]:
        if not hasattr(thing, part) and part not in getattr(thing, "__annotations__", {}):
            return False
        thing = getattr(thing, part, None)
    return True
