"""Which columns of a table are channels and which are variables, where the command line does not say."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pandas as pd

from ..support.names import first_few

__all__ = ["Roles", "propose_roles"]

NUMBERED = re.compile(r"(.*?[^\d\W_])[\W_]*\d+")
"""A name and a number at its end, such as unit7 or CA1_12."""
FEWEST = 4
"""Numbered columns of one name that are taken for channels: a position has three at most."""


@dataclass(frozen=True)
class Roles:
    """channels, variables : names of columns. assumed : what was assumed, in a sentence."""

    channels: list[str]
    variables: list[str]
    assumed: str


def propose_roles(
    table: pd.DataFrame, elsewhere: Collection[str] = (), channels: str | Sequence[str] | None = None
) -> Roles | None:
    """Columns that are numbered are the channels, all others variables; None if no columns are numbered.

    elsewhere : columns that are known to be something else than channels: variables, time stamps, epochs.
    channels : the channels, or what they begin with ("unit*"), if they are known.

    >>> table = pd.DataFrame(0.0, index=[0], columns=["time", "unit0", "unit1", "unit2", "unit3", "x", "hand0"])
    >>> roles = propose_roles(table, ["time"])
    >>> roles.channels, roles.variables
    (['unit0', 'unit1', 'unit2', 'unit3'], ['x', 'hand0'])
    >>> roles.assumed
    'The channels are the columns unit and a number (4); x, hand0 are variables. --channels says otherwise.'
    """
    if channels is not None:
        chosen = _chosen(list(table), channels)
        variables = [name for name in table if name not in {*chosen, *elsewhere}]
        return Roles(list(chosen), variables, f"All other columns are variables: {first_few(variables) or 'none'}.")
    families: dict[str, list[str]] = {}
    for name in table:
        found = NUMBERED.fullmatch(name)
        if found and name not in elsewhere and pd.api.types.is_numeric_dtype(table[name]):
            families.setdefault(found[1], []).append(name)
    families = {stem: members for stem, members in families.items() if len(members) >= FEWEST}
    if not families:
        return None
    chosen = [name for members in families.values() for name in members]
    variables = [name for name in table if name not in {*chosen, *elsewhere}]
    stems = first_few([f"{stem} and a number ({len(members)})" for stem, members in families.items()])
    others = f"{first_few(variables)} {'is a variable' if len(variables) == 1 else 'are variables'}"
    said = f"The channels are the columns {stems}; {others if variables else 'there are no other variables'}."
    return Roles(chosen, variables, f"{said} --channels says otherwise.")


def _chosen(columns: Sequence[str], channels: str | Sequence[str]) -> list[str]:
    """Columns by their names, or by what they begin with; `ascribo.read` says what is wrong with those there are
    not."""
    if isinstance(channels, str) and channels.endswith("*"):
        return [name for name in columns if name.startswith(channels[:-1])] or [channels]
    return [channels] if isinstance(channels, str) else list(channels)
