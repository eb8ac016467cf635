"""Small tables of HTML, for notebooks. All text is escaped: names come from data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["html_table"]

LONGEST = 60
"""Characters of a cell that are shown."""
LONGEST_LINE = 400


def html_table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]], below: str = "") -> str:
    """A title, a table, and a line below it.

    >>> html_table("a & b", ["name"], [["<i>"]])
    '<div><strong>a &amp; b</strong><table><thead><tr><th>name</th></tr></thead><tbody><tr><td>&lt;i&gt;</td>...'
    """
    top = "".join(f"<th>{_cell(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>" for row in rows)
    under = f"<p>{_cell(below, LONGEST_LINE)}</p>" if below else ""
    table = f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div><strong>{_cell(title, LONGEST_LINE)}</strong>{table}{under}</div>"


def _cell(value: object, most: int = LONGEST) -> str:
    text = f"{value:.3g}" if isinstance(value, float) else str(value)
    return escape(text if len(text) <= most else text[: most - 1] + "…")
