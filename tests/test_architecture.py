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
