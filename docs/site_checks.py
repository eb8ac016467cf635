"""What must hold of the site once it is built: every link on it leads somewhere, every public name has a place."""

import inspect
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sphinx.errors import ExtensionError

import ascribo as asc


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors |= {given[key] for key in ("id", "name") if given.get(key)}
        self.links += [given[key] for key in ("href", "src") if given.get(key)]


def check_site(app, error):
    """Called when a build is finished."""
    if error is None and app.builder.name == "html":
        site = Path(app.outdir)
        pages = {path: Page(path) for path in site.rglob("*.html") if "_static" not in path.parts}
        wrong = broken_links(pages) + [f"{name} has no place on the site" for name in unplaced(pages)]
        if wrong:
            raise ExtensionError("\n".join(wrong))


def broken_links(pages):
    """Sentences about links to files or anchors that are not there. Those to other sites are not followed."""
    wrong = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = target.exists()
            if there and parts.fragment and target in pages and parts.fragment not in ("", "top"):
                there = unquote(parts.fragment) in pages[target].anchors
            if not there:
                wrong.append(f"{path.name}: the link {link} leads nowhere")
    return wrong


def unplaced(pages):
    """Public names that no page has an anchor for."""
    anchors = {anchor for page in pages.values() for anchor in page.anchors}
    folders = {name for name in asc.__all__ if inspect.ismodule(getattr(asc, name))}
    names = [f"ascribo.{name}" for name in asc.__all__ if name not in folders and not name.startswith("__")]
    names += [f"ascribo.{folder}.{name}" for folder in folders for name in getattr(asc, folder).__all__]
    pointed = {anchor.removeprefix("module-") for anchor in anchors}
    return sorted(name for name in names if name not in pointed)
