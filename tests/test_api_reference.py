"""The API reference names every public name, and nothing else; every one has a docstring with an example."""

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


def test_nothing_but_public_names_is_offered_when_one_types():
    assert dir(asc) == sorted(asc.__all__)


def things():
    """Public classes and functions by their dotted name."""
    for folder, names in public().items():
        place = asc if folder == "ascribo" else getattr(asc, folder.split(".")[1])
        for name in sorted(names):
            thing = getattr(place, name)
            if inspect.isclass(thing) or inspect.isroutine(thing):
                yield f"{folder}.{name}", thing


def example(thing):
    """The lines of a docstring that run as a test."""
    return "\n".join(re.findall(r"^\s*(?:>>>|\.\.\.) .*$", thing.__doc__ or "", flags=re.MULTILINE))


def test_every_public_name_says_what_it_is():
    for name, thing in things():
        assert (inspect.getdoc(thing) or "").strip(), f"{name} has no docstring"


def test_every_public_name_has_an_example():
    without = [name for name, thing in things() if not example(thing)]
    assert not without, f"no example in the docstrings of {without}"


ASKED_BY_THE_LIBRARY = (asc.Space, asc.Lp, asc.Auto, asc.Constant, asc.Ramp, asc.MLP, asc.Convolution)
"""Their methods are for those who write a kind of their own: docs/extending.md has examples that run."""
TOO_LARGE = {"ascribo.simulate.Sprites.all_images", "ascribo.simulate.Sprites.codes"}
"""They are about all 737,280 images of the grid, gigabytes of them."""


def test_every_method_that_users_call_is_in_an_example():
    without = []
    for name, cls in things():
        if not inspect.isclass(cls) or issubclass(cls, ASKED_BY_THE_LIBRARY):
            continue
        for own, member in vars(cls).items():
            member = getattr(member, "__func__", getattr(member, "fget", member))
            if own.startswith("_") or not inspect.isfunction(member):
                continue
            if not example(member) and not re.search(rf"\.{own}\b", example(cls)):
                without.append(f"{name}.{own}")
    assert set(without) == TOO_LARGE, f"in no example: {set(without) - TOO_LARGE}"


def test_every_page_of_the_folder_is_on_the_site():
    index = (ROOT / "docs" / "index.md").read_text()
    pages = {
        p.relative_to(ROOT / "docs").with_suffix("").as_posix()
        for p in (ROOT / "docs").rglob("*")
        if p.suffix in (".md", ".ipynb")
    }
    pages = {page for page in pages if not page.startswith(("build", "generated"))}
    assert pages - {"index"} == set(re.findall(r"^([\w/-]+)$", index, flags=re.MULTILINE))
