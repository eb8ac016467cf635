"""`ascribo watch`: how far a fit has come, from its files; and what came of it when it is done."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors import SafetensorError, safe_open

from ..model.run_folder import read_run
from ..support.progress import duration, say
from ..training.checkpoints import is_readable
from .info import info
from .output import print_line, print_table

__all__ = ["read_progress", "watch"]


def watch(*, run: str, every: float, once: bool, progress: bool) -> None:
    """`ascribo watch`."""
    folder, shown = Path(run), None
    while True:
        if (folder / "model.json").is_file() and not _files(folder):
            read_run(folder)  # it is whole
            print_line("done")
            info(run, as_json=False, progress=progress)
            return
        table = read_progress(folder)
        if table is None and once:
            raise ValueError(
                f"{folder} has neither a fitted model nor the state of a fit that is running: a fit writes "
                "its first after ten seconds."
            )
        if table is not None and (shown is None or not table.drop(columns=["left", "age"]).equals(shown)):
            _print(table)
            sys.stdout.flush()
            shown = table.drop(columns=["left", "age"])
        elif table is None:
            say(f"waiting for {folder}", progress and shown is None)
            shown = pd.DataFrame()
        if once:
            return
        time.sleep(every)


def read_progress(folder: Path) -> pd.DataFrame | None:
    """A row for each stack of models of a fit that is running: seeds, steps done and how many there are to be at
    most, loss in nats, bits above chance and what they were measured on, λ, seconds left for it and those that its
    process trains after it, and the age of the file in seconds. None if there is none."""
    rows = [row for file in _files(folder) if (row := _row(file)) is not None]
    return pd.DataFrame(rows) if rows else None


def _files(folder: Path) -> list[Path]:
    """The states in a folder; not pipes and devices, which may never end."""
    return sorted(file for file in (folder / ".checkpoint").glob("seeds-*.safetensors") if file.is_file())


def _row(file: Path) -> dict[str, Any] | None:
    """What a checkpoint says; None if it is gone meanwhile, or is none."""
    try:
        with safe_open(file, "np") as content:
            facts = content.metadata() or {}
            if not is_readable(facts):
                return None
            curves = {key: content.get_tensor(f"curve.{key}") for key in ("infonce", "mse", "lambda")}
        age = max(0.0, time.time() - file.stat().st_mtime)
        loss, done = curves["infonce"].sum(-1) + curves["mse"].sum(-1), int(facts["done"])
        # a file of an older version does not say these
        total, speed = float(facts.get("total", "nan")), float(facts.get("seconds_per_step", "nan"))
        later = int(facts.get("rounds", "1")) - int(facts.get("round", "1"))
        return {
            "seeds": loss.shape[1],
            "steps": done,
            "of": total,
            "loss": float(np.mean(loss[-50:])),
            "bits": float(facts.get("bits", "nan")),
            "measured on": facts.get("measured_on", ""),
            "λ": float(np.mean(curves["lambda"][-1])),
            "left": float(np.maximum(0.0, speed * (total - done + later * total) - age)),
            "age": age,
        }
    except (SafetensorError, OSError, KeyError, ValueError):
        return None


def _print(table: pd.DataFrame) -> None:
    """The table for people."""
    done = table["steps"] == table["of"]
    shown = table.assign(
        of=[f"{total:,.0f}" if np.isfinite(total) else "-" for total in table["of"]],
        left=[_left(seconds, finished) for seconds, finished in zip(table["left"], done, strict=True)],
        age=[f"{duration(seconds)} ago" for seconds in table["age"]],
    )
    print_table(shown, "Fitting: bits above chance, and the time left at most, with the seeds to come")


def _left(seconds: float, finished: bool) -> str:
    if finished:
        return "done"
    return duration(seconds) if np.isfinite(seconds) else "-"
