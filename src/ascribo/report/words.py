"""What a report says in words: names made fit to be shown, numbers, the answer for each space, the verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..support.names import plural

__all__ = [
    "GRADES",
    "Verdict",
    "answer",
    "fit_verdict",
    "listed",
    "overall",
    "percent",
    "q_value",
    "question",
    "short",
]

LONGEST = 48
"""Characters of a name that a sentence shows."""
EMPTY = "(empty name)"
GRADES = ("good", "care", "bad")
"""From the best to the worst."""

Verdict = tuple[str, str]
"""A grade, and what it means in words."""


def short(name: object, most: int = LONGEST) -> str:
    """A name as a sentence shows it: not empty, and not too long.

    >>> short(""), short("x" * 100, 5)
    ('(empty name)', 'xxxx…')
    """
    text = str(name)
    if not text.strip():
        return EMPTY
    return text if len(text) <= most else text[: most - 1] + "…"


def percent(share: float) -> str:
    """A share for people, with two digits that mean something.

    >>> percent(0.314), percent(0.0314), percent(0.05), percent(0.00031), percent(-1e-6), percent(float("nan"))
    ('31%', '3.1%', '5%', '0.03%', '0%', 'not known')
    """
    if not math.isfinite(share):
        return "not known"
    digits = 0 if abs(share) >= 0.0995 else 1 if abs(share) >= 0.00995 else 2
    text = f"{100 * share:.{digits}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return ("0" if text == "-0" else text) + "%"


def q_value(value: float) -> str:
    """A q with its sign of equality, as a sentence has it.

    >>> q_value(0.01234), q_value(3e-7)
    ('= 0.012', '< 0.0001')
    """
    return f"= {value:.2g}" if value >= 1e-4 else "< 0.0001"


def listed(parts: Sequence[str], most: int = 3) -> str:
    """Some words as in a sentence.

    >>> listed(["a", "b"]), listed(["a", "b", "c", "d", "e"])
    ('a and b', 'a, b, c and 2 more')
    """
    shown = list(parts[:most]) + ([f"{len(parts) - most} more"] if len(parts) > most else [])
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def fit_verdict(row: dict[str, Any]) -> Verdict:
    """The verdict on the goodness of fit of a space, a row of `goodness_of_fit_`."""
    bits, low = float(row["bits"]), float(row["bits_low"] if row["bits_low"] is not None else math.nan)
    if row["collapsed"]:
        return "bad", "At chance: this part of the embedding tells nothing."
    if not row["held_out"]:
        return (
            "care",
            "Measured on the training data, where it is too good: the recording is too short to hold any out.",
        )
    if math.isfinite(low) and low <= 0:
        return "care", "Not clearly above chance: the interval reaches zero."
    if bits < 0.3:
        return "care", "Above chance, but by little."
    return "good", "Clearly above chance on time that the model has not seen."


def answer(space: dict[str, Any], channels: int, q: float) -> str:
    """What was found of a space, in a sentence; `space` as in the contents of a report."""
    if space["refused"]:
        return "No map: this part of the embedding is at chance."
    if not space["tested"]:
        return "Scores only: there is no test of which channels carry it."
    if space["undecided"]:
        return f"Not decided: {short(space['undecided'], 300)}"
    if space["called"] == 0:
        if channels == 1:
            return "The only channel was not found to carry it."
        return f"No channel of {channels} was found to carry it."
    if space["called"] == channels:
        return "The only channel carries it." if channels == 1 else f"All {channels} channels carry it."
    return f"{space['called']} of {channels} channels carry it; at most about {percent(q)} of such calls are wrong."


def question(spaces: Sequence[dict[str, Any]]) -> str:
    """What a report answers, for its title.

    >>> question([{"name": "place", "variables": ["x"]}, {"name": "rest", "variables": []}])
    'Which channels carry place?'
    """
    names = [short(space["name"], 24) for space in spaces if space["variables"]] or ["what"]
    return f"Which channels carry {listed(names)}?"


def overall(spaces: Sequence[dict[str, Any]], problems: Sequence[dict[str, str]], seeds: int = 1) -> Verdict:
    """Whether to trust the report, and why, in a sentence or two. seeds : number of models that were compared."""
    decided = [s for s in spaces if s["tested"] and not s["refused"] and not s["undecided"]]
    bad = [p for p in problems if p["grade"] == "bad"]
    care = [p for p in problems if p["grade"] == "care"]
    if not decided:
        return "bad", "Nothing here was tested: read the scores as a first look, not as a finding."
    asked = [s for s in spaces if s["variables"]]
    if asked and not any(s["variables"] for s in decided):
        return "bad", f"Nothing could be said about {listed([short(s['name'], 24) for s in asked])}: see why below."
    if bad:
        return "bad", f"{_count(bad, 'serious problem')}: {_titles(bad)}."
    if care:
        return "care", f"{_count(care, 'thing')} to look at first: {_titles(care)}."
    for words, key in (("at chance", "collapsed"), ("not clearly above chance", "unclear")):
        if lost := [short(s["name"], 24) for s in spaces if s[key]]:
            return "good", (
                f"No serious problem was found. The embedding is {words} for {listed(lost)}; calls for variables "
                "do not depend on it."
            )
    agree = ", and seeds agree" if seeds > 1 else ""
    return "good", f"No serious problem was found: the fit is above chance on time it has not seen{agree}."


def _titles(problems: Sequence[dict[str, str]], most: int = 3) -> str:
    """What the first problems are; a title may have an "and" of its own."""
    more = [f"{len(problems) - most} more"] if len(problems) > most else []
    return "; ".join([problem["title"] for problem in problems[:most]] + more)


def _count(problems: Sequence[object], what: str) -> str:
    return f"{len(problems)} {what}{plural(len(problems))}"
