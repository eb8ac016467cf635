"""Sphinx: the documentation site, `make docs`."""

import os
import re
import sys
import warnings
from pathlib import Path

from jupyter_client.manager import KernelManager

from ascribo.version import __version__

sys.path.insert(0, str(Path(__file__).parent))
from site_checks import check_site

project, author, release = "ascribo", "The ascribo authors", __version__
copyright = "the ascribo authors, Apache-2.0"
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["build"]
html_theme = "pydata_sphinx_theme"
html_theme_options = {"show_toc_level": 2, "navigation_with_keys": True, "secondary_sidebar_items": ["page-toc"]}
html_show_sourcelink = False
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
# Members of these are scikit-learn's, or Python's own.
OTHERS = "BaseEstimator,TransformerMixin,_SetOutputMixin,_MetadataRequester,ReprHTMLMixin,object"
autodoc_default_options = {"members": True, "inherited-members": OTHERS}
napoleon_use_ivar = True
# Tutorials run in their quick form, so that a page never shows what the code does not do; those that read real data
# run where it is.
os.environ.setdefault("ASCRIBO_QUICK", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
nb_execution_mode = "force"
nb_execution_timeout = 600
nb_execution_in_temp = True  # tutorials write files
nb_execution_raise_on_error = True
KernelManager.transport_encryption.default_value = "auto"  # else every kernel warns that there is none
TUTORIALS = Path(__file__).parent / "tutorials"
DATA = os.environ.get("ASCRIBO_DATA", "")
NOT_RUN = (
    [] if DATA and Path(DATA).is_dir() else [p for p in TUTORIALS.iterdir() if "ASCRIBO_DATA" in p.read_text()]
)
"""Tutorials that read real data, where there are none."""
nb_execution_excludepatterns = [f"tutorials/{path.name}" for path in NOT_RUN]
warnings.filterwarnings("ignore", category=UserWarning)


ENTRY = re.compile(r"(\w[\w, ]*?) : (.+)")
"""A parameter in a docstring without sections: its name and what it is, going on in indented lines."""


def as_restructured_text(app, what, name, obj, options, lines):
    """Docstrings are plain text for people who read the code; here they become what Sphinx reads."""
    out, code, section, bullet = [], False, False, None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        code = line.lstrip().startswith(">>>") or (code and bool(line.strip()))
        section = section or set(line.strip()) == {"-"}
        if not code:
            line = re.sub(r"(?<!\\)\|", r"\\|", line)
            line = re.sub(r"(?<![\w*`\\])\*(?=\w+[,)])", r"\\*", line)
            line = re.sub(r"(?<!\\)\*(?=\.\w)", r"\\*", line)  # *.nwb
            line = re.sub(r"(`[^`]+`)(?=[a-z])", r"\1\\ ", line)  # `Recording`s
        if out and out[-1].endswith(",") and re.fullmatch(r"[\w, ]+ :", line) and not code:
            out[-1] += f" {line.strip()}"  # names of parameters over two lines
            continue
        entry = None if section or code or indent else ENTRY.fullmatch(line)
        if entry:
            out += ["", f"- **{entry[1]}**: {entry[2]}"]
            bullet = 0
        elif bullet is not None and line.strip() and not line.lstrip().startswith("- ") and indent <= bullet:
            out += ["", line]
            bullet = None
        elif bullet == 0 and not section and line.strip():
            out.append("  " + line.strip())
        else:
            out.append(line)
        if line.lstrip().startswith("- ") and not code:
            bullet = indent
    lines[:] = out


OUTSIDE = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+[^)#]+)(?:#[^)]*)?\)")
"""A link that goes up: to another page of the site, or to a file of the sources that is none."""
NOT_RUN_HERE = """
:::{warning}
The data of this page were not there when the site was built: it shows the code and none of the results. Set
`ASCRIBO_DATA` to the folder that has them, and build again.
:::
"""


def prepare_page(app, name, source):
    """Links to files that are no pages become plain names; a tutorial that did not run says so below its title."""
    page = Path(__file__).parent / name

    def plain(link):
        target = (page.parent / link[2]).resolve()
        return link[0] if target.is_relative_to(Path(__file__).parent) else link[1]

    text = OUTSIDE.sub(plain, source[0])
    if name in [f"tutorials/{path.stem}" for path in NOT_RUN if path.suffix == ".md"]:
        text = re.sub(r"^(# .*\n)", lambda title: title[0] + NOT_RUN_HERE, text, count=1, flags=re.MULTILINE)
    source[0] = text


def setup(app):
    """What happens to pages and docstrings on their way to the site, and what is checked at the end."""
    app.connect("source-read", prepare_page)
    app.connect("build-finished", check_site)
    app.connect("autodoc-process-docstring", as_restructured_text, priority=400)  # before napoleon
    routing = re.compile(r"set_\w+_request|get_metadata_routing")  # scikit-learn's, for its own machinery
    app.connect("autodoc-skip-member", lambda app, what, name, *_: True if routing.fullmatch(name) else None)
