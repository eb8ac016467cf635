"""`ascribo info`: what is in the folder of a fitted model, for people and as JSON.

It reads what the folder says and makes no model of it, so that it needs no module of the user's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from torch import Tensor

from ..model.number_of_seeds import describe_batch, describe_spent
from ..model.run_folder import damage_explained, read_run
from ..model.saving import KIND_SESSIONS
from ..model.stored_checks import check_parameter_types, check_types
from ..support.progress import say
from ..support.stored_parameters import decode
from .output import print_goodness, print_line, print_table

__all__ = ["info"]


def info(run: str, as_json: bool, progress: bool) -> None:
    """`ascribo info`."""
    say(f"reading {run}", progress)
    known = _facts(Path(run))
    with damage_explained(run):
        spaces = {name: _spelled(space) for name, space in known["spaces"].items()}
    if as_json:
        print(json.dumps(known, indent=1))
        return
    sessions = known.get("sessions")
    print_line(f"run:       {run}")
    print_line(f"ascribo:   {known['ascribo']}")
    if sessions is None:
        _print_recording(known)
    else:
        print_line(f"sessions:  {len(sessions)}")
        print_line(f"seeds:     {known['seeds']}")
        where = "in the shortest session"
        for batch in {describe_batch(**part["batch_size"], where=where) for part in sessions.values()} - {None}:
            print_line(f"batch:     {batch}")
    for name, space in spaces.items():
        print_line(f"space:     {name} = {space}")
    if sessions is None:
        print_goodness(pd.DataFrame(known["goodness_of_fit"]))
        return
    rows = [
        {
            "session": name,
            "channels": len(of_session["channels"]),
            "steps": of_session["steps"]["done"],
            "λ": ", ".join(f"{value:.3g}" for value in of_session["lambda"]),
            "spaces": ", ".join(of_session["spaces"]),
        }
        for name, of_session in sessions.items()
    ]
    print_table(pd.DataFrame(rows), "Sessions")
    print_goodness(
        pd.DataFrame(
            [{"session": name, **row} for name, part in sessions.items() for row in part["goodness_of_fit"]]
        )
    )


def _facts(folder: Path) -> dict[str, Any]:
    """What `--json` prints: of several sessions what they share, and of each one what is known of a single one."""
    facts, tensors = read_run(folder)
    with damage_explained(folder):
        return _described(folder, facts, tensors)


def _described(folder: Path, facts: dict[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    check_parameter_types(folder, facts["parameters"])
    shared = {
        "run": str(folder),
        "ascribo": facts["ascribo"],
        "seeds": (facts.get("spent") or facts["parameters"])["seeds"],
        "spaces": {name: space for name, space in facts["spaces"]["items"]},
    }
    if facts.get("kind") == KIND_SESSIONS:
        parts = {each["name"]: _facts(folder / f"session-{k}") for k, each in enumerate(facts["sessions"])}
        return {**shared, "sessions": parts, "overlap": _rows(facts["overlap"])}
    check_types(folder, facts)
    given = facts["channel_names"] or [f"channel{k}" for k in range(facts["features"])]
    kept = set(facts["kept_channels"])
    treatment = decode(facts["treatment"])
    return {
        **shared,
        "data": (facts.get("data") or {}).get("path"),
        "channels": facts["channels"],
        "dropped_channels": [name for k, name in enumerate(given) if k not in kept],
        "treatment": None if treatment is None else str(treatment),
        "goodness_of_fit": _rows(facts["goodness_of_fit"]),
        "lambda": facts["lambda"],
        "steps": {"asked": facts["parameters"]["steps"], "done": len(tensors["history.lambda"])},
        "spent": facts.get("spent"),
        "batch_size": {"asked": facts["parameters"]["batch_size"], "used": facts["batch_size"]},
    }


def _print_recording(known: dict[str, Any]) -> None:
    names = known["channels"]
    shown = ", ".join(names) if len(names) <= 8 else f"{', '.join(names[:4])}, ..., {names[-1]}"
    print_line(f"data:      {known['data'] or 'not recorded'}")
    print_line(f"channels:  {len(names)} ({shown})")
    if known["dropped_channels"]:
        print_line(f"dropped:   {', '.join(known['dropped_channels'])} (constant)")
    if known["treatment"]:
        print_line(f"treatment: {known['treatment']}")
    print_line(f"seeds:     {known['seeds']}")
    print_line("steps:     {done} of {asked}".format(**known["steps"]))
    if known["spent"]:
        for line in describe_spent(known["spent"]):
            print_line(f"spent:     {line}")
    if batch := describe_batch(**known["batch_size"]):
        print_line(f"batch:     {batch}")
    print_line(f"λ:         {', '.join(f'{value:.3g}' for value in known['lambda'])}")


def _rows(columns: dict[str, list]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _spelled(value: Any) -> str:
    """What stands in model.json as it would be written in Python; fields that are empty or False are left out.

    >>> _spelled({"type": "Follow", "variables": ["x"], "dim": 2, "circular": [], "similarity": {"type": "Dot"}})
    "Follow(variables=['x'], dim=2, similarity=Dot())"
    """
    if not isinstance(value, dict):
        return repr(value)
    fields = [f"{k}={_spelled(v)}" for k, v in value.items() if k != "type" and v is not False and v != []]
    return f"{value['type'].rpartition(':')[2]}({', '.join(fields)})"
