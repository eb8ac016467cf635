"""The API reference names every public name, and nothing else; every one has a docstring."""

import inspect
import re
from pathlib import Path

import ascribo as asc

ROOT = Path(__file__).parents[1]


def public():
    """Folder -> the public names in it."""
    folders = {name for name in asc.__all__ if inspect.ismodule(getattr(asc, name))}
    names = {"ascribo": {name for name in asc.__all__ if name not in folders and not name.startswith("__")}}
    return names | {f"ascribo.{folder}": set(getattr(asc, folder).__all__) for folder in folders}


def listed():
    text = (ROOT / "docs" / "api.md").read_text()
    found = {}
    for part in text.split("\n## ")[1:]:
        lines = re.findall(r"^(?:   |\.\. py:data:: )(\w+)$", part, flags=re.MULTILINE)
        found[part.split("\n")[0]] = set(lines)
    return found


def test_every_public_name_is_on_the_page():
    assert listed() == public()


def test_every_public_name_says_what_it_is():
    for folder, names in public().items():
        place = asc if folder == "ascribo" else getattr(asc, folder.split(".")[1])
        for name in names:
            thing = getattr(place, name)
            if inspect.isclass(thing) or inspect.isroutine(thing):
                assert (inspect.getdoc(thing) or "").strip(), f"{folder}.{name} has no docstring"


def test_every_page_of_the_folder_is_on_the_site():
    index = (ROOT / "docs" / "index.md").read_text()
    pages = {
        p.relative_to(ROOT / "docs").with_suffix("").as_posix()
        for p in (ROOT / "docs").rglob("*")
        if p.suffix in (".md", ".ipynb")
    }
    pages = {page for page in pages if not page.startswith(("build", "generated"))}
    assert pages - {"index"} == set(re.findall(r"^([\w/-]+)$", index, flags=re.MULTILINE))
