"""Pages from templates: everything that is put into one is escaped, unless the template says otherwise."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from .words import listed, percent, q_value, short

__all__ = ["as_json", "encoded", "part", "render"]


def render(template: str, **words: Any) -> str:
    """The page of a template in this package's `templates` folder."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(part),
    )
    environment.filters |= {"short": short, "percent": percent, "q_value": q_value, "listed": listed}
    return environment.get_template(template).render(style=part("style.css"), **words)


def part(name: str) -> str:
    """The text of a file of the templates."""
    return (files("ascribo.report") / "templates" / name).read_text(encoding="utf-8")


def encoded(text: str) -> bytes:
    """A page as bytes; a lone surrogate in a name has no code and is written out."""
    return text.encode("utf-8", "backslashreplace")


def as_json(value: Any) -> str:
    """JSON that may stand inside a script element: nothing in it can end the element or begin a comment.

    >>> as_json({"name": "</script>"})
    '{"name":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
