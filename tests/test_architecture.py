"""The picture of the folders says what the import contract checks, and the folders are all in it."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def contract() -> list[set[str]]:
    """The layers of the import contract, highest first."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    lines = parser["importlinter:contract:layers"]["layers"].split("\n")
    return [set(re.findall(r"ascribo\.(\w+)", line)) for line in lines if line.strip()]


def picture() -> list[set[str]]:
    """The layers that docs/architecture.md draws, highest first."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    drawn = text.split("<!-- layers: checked against .importlinter -->")[1].split("<!-- end of layers -->")[0]
    names = [re.split(r"\s{2,}", line.strip())[0] for line in drawn.split("\n") if line.strip()]
    return [set(name.split(" | ")) for name in names]


def test_the_picture_is_the_contract():
    assert picture() == contract()


def test_contributing_lists_the_layers_of_the_contract():
    """From below, a line for each."""
    text = (ROOT / "CONTRIBUTING.md").read_text().split("## The map of the house")[1].split("## ")[0]
    listed = [
        set(re.findall(r"`(\w+)(?:\.py)?`", line)) for line in re.findall(r"^\d+\. (.*)$", text, re.MULTILINE)
    ]
    assert listed == contract()[::-1]


def test_every_folder_and_module_of_the_package_is_in_it():
    inside = {
        p.stem for p in (ROOT / "src" / "ascribo").iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()
    }
    assert inside - {"__init__", "__main__", "version"} == set.union(*contract())


def test_the_contract_has_no_exception():
    text = (ROOT / ".importlinter").read_text()
    assert "ignore_imports" not in text and "exclude_type_checking_imports" not in text


def test_nothing_of_numpy_is_used_that_its_oldest_version_has_elsewhere():
    """`make lowest` runs the core with numpy 1.26; what moved in 2.0 would show there alone."""
    there = re.compile(r"(?:numpy|np)\.lib\.(?!format|stride_tricks)\w+")
    found = {str(file): there.findall(file.read_text()) for file in (ROOT / "src").rglob("*.py")}
    assert not {file: names for file, names in found.items() if names}
