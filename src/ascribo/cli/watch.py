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
from ..support.progress import say
from .info import info
from .output import print_line, print_table

__all__ = ["progress_of", "watch"]


def watch(*, run: str, every: float, once: bool, progress: bool) -> None:
    """`ascribo watch`."""
    folder, shown = Path(run), None
    while True:
        if (folder / "model.json").is_file() and not _files(folder):
            read_run(folder)  # it is whole
            print_line("done")
            info(run, as_json=False, progress=progress)
            return
        table = progress_of(folder)
        if table is None and once:
            raise ValueError(
                f"{folder} has neither a fitted model nor the state of a fit that is running: a fit writes "
                "its first after ten seconds."
            )
        if table is not None and (shown is None or not table.drop(columns="age").equals(shown)):
            print_table(table.assign(age=[_age(seconds) for seconds in table["age"]]), "Fitting")
            sys.stdout.flush()
            shown = table.drop(columns="age")
        elif table is None:
            say(f"waiting for {folder}", progress and shown is None)
            shown = pd.DataFrame()
        if once:
            return
        time.sleep(every)


def progress_of(folder: Path) -> pd.DataFrame | None:
    """A row for each process of a fit that is running: seeds, steps done, loss in nats, bits on held-out time, λ,
    and the age of the file in seconds. None if there is none."""
    rows = [row for file in _files(folder) if (row := _row(file)) is not None]
    return pd.DataFrame(rows) if rows else None


def _files(folder: Path) -> list[Path]:
    return sorted((folder / ".checkpoint").glob("seeds-*.safetensors"))


def _row(file: Path) -> dict[str, Any] | None:
    """What a checkpoint says; None if it is gone meanwhile, or is none."""
    try:
        with safe_open(file, "np") as content:
            facts = content.metadata() or {}
            if facts.get("ascribo") != "checkpoint":
                return None
            curves = {key: content.get_tensor(f"curve.{key}") for key in ("infonce", "mse", "lambda")}
            held_out = content.get_tensor("curve.held_out") if "curve.held_out" in content.keys() else None
        age = max(0.0, time.time() - file.stat().st_mtime)
    except (SafetensorError, OSError, KeyError):
        return None
    loss = curves["infonce"].sum(-1) + curves["mse"].sum(-1)
    return {
        "seeds": loss.shape[1],
        "steps": int(facts["done"]),
        "loss": float(np.mean(loss[-50:])),
        "bits": float(np.nan if held_out is None else np.mean(held_out[-1])),
        "λ": float(np.mean(curves["lambda"][-1])),
        "age": age,
    }


def _age(seconds: float) -> str:
    return f"{seconds:.0f} s ago" if seconds < 120 else f"{seconds / 60:.0f} min ago"
