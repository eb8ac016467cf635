"""The tables of docs/screening.md, from results/situations.json.

    python -m experiments.validation.situations_page

Each table stands between two comments that name its set of situations, and is written anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.validation.situations_blind import BLIND
from experiments.validation.situations_data import SITUATIONS
from experiments.validation.situations_events import EVENTS
from experiments.validation.situations_further import FURTHER
from experiments.validation.situations_history import HISTORIES
from experiments.validation.situations_late import LATE
from experiments.validation.situations_states import STATES

__all__ = ["PAGE", "RESULT", "main", "with_tables"]

CHECKOUT = Path(__file__).parents[2]
PAGE, RESULT = CHECKOUT / "docs" / "screening.md", CHECKOUT / "results" / "situations.json"
SETS = {
    "SITUATIONS": SITUATIONS,
    "FURTHER": FURTHER,
    "BLIND": BLIND,
    "LATE": LATE,
    "EVENTS": EVENTS,
    "HISTORIES": HISTORIES,
    "STATES": STATES,
}
HEAD = (
    "| situation | FDR [95% interval] | power | GLM | changes | GLM with history | warned |\n"
    "|---|---|---|---|---|---|---|\n"
)


def with_tables(page: str, result: Mapping[str, Any]) -> str:
    """The page with its tables as `result`, of the experiment `situations`, has them."""
    rows = {each["situation"]: _row(each) for each in result["summary"]}
    for name, situations in SETS.items():
        before, rest = page.split(f"<!-- {name} -->\n")
        after = rest.split(f"<!-- end {name} -->\n")[1]
        table = HEAD + "".join(rows[situation] for situation in situations)
        page = f"{before}<!-- {name} -->\n\n{table}\n<!-- end {name} -->\n{after}"
    return page


def _row(each: Mapping[str, Any]) -> str:
    low, high = each["screen_fdp_ci95"]
    peers = [f"{each[f'{peer}_fdp']:.2f}, {each[f'{peer}_power']:.2f}" for peer in ("glm", "changes", "history")]
    found = f"{each['screen_fdp']:.2f} [{low:.2f}, {high:.2f}]", f"{each['screen_power']:.2f}"
    name = each["situation"].replace("|", "\\|")
    return "| " + " | ".join([name, *found, *peers, f"{each['warned']:.0%}"]) + " |\n"


def main() -> None:
    """Write the page anew."""
    PAGE.write_text(with_tables(PAGE.read_text(), json.loads(RESULT.read_text())))


if __name__ == "__main__":
    main()
