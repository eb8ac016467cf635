"""`ascribo sweep CONFIG`: sessions, spaces, settings and a grid in a TOML file.

sessions = "sessions/*.nwb"     # a folder, a pattern or a list of files, seen from where the file lies
out = "runs/sweep"

[read]                          # arguments of `ascribo.read`
bin_size = 0.05

[spaces]                        # as the options of `ascribo fit`
follow = ["position=x,y"]
time = ["rest:3"]

[settings]                      # parameters of `ascribo.ContrastiveEmbedding`
seeds = 2

[grid]                          # values to try, each with each
penalty = [0.1, "auto"]
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..model.estimator import ContrastiveEmbedding
from ..support.files import FolderInUse, check_writable, only_writer
from ..support.names import suggest
from ..sweeps import sweep as run_sweep
from ..sweeps.sweep import PLAN
from ..training.interruption import Interrupted
from .kept_command import forget_command, keep_command
from .output import print_line, print_table
from .spaces import build_spaces, options

__all__ = ["output_folder", "read_config", "sweep"]

PARTS = ("sessions", "out", "read", "spaces", "settings", "grid")
OURS = ("spaces", "checkpoint", "progress", "n_jobs")
"""Parameters of the model that the file does not set."""


def sweep(
    *,
    config: str,
    out: str | None,
    jobs: int,
    scheduler: str | None,
    stack: int | None,
    progress: bool,
    argv: list[str],
) -> None:
    """`ascribo sweep`. argv : the command as it was typed, which `ascribo resume` runs again.

    It is kept until all cells are done: some may have failed, or the machines that computed them may be gone.
    """
    given, here = read_config(Path(config)), Path(config).absolute().parent
    folder = check_writable(output_folder(Path(config), given, out))
    model = _model(given)
    state = folder / ".checkpoint"
    with only_writer(folder):  # another sweep that is at work keeps its own
        keep_command(state, argv, anew=True)
    plan, before = folder / PLAN, _changed(folder / PLAN)
    try:
        found = run_sweep(
            _sessions(given["sessions"], here),
            model,
            folder,
            grid=given.get("grid"),
            read=given.get("read"),
            n_jobs=jobs,
            scheduler=scheduler,
            stack=stack,
            progress=progress,
        )
    except KeyboardInterrupt:
        raise Interrupted(f"stopped; what is done is kept in {folder} (ascribo resume {folder})") from None
    except Exception as error:
        if not isinstance(error, FolderInUse) and _changed(plan) == before:  # refused before it has begun
            forget_command(state)
        raise
    cells = found.cells()
    failed: Any = cells[cells["state"] != "done"]
    if not len(failed):
        forget_command(state)
    if len(failed):
        print_table(failed[["session", *given.get("grid", {}), "error"]], "Not done")
    if len(failed) < len(cells):
        print_table(found.summary(), "What came of it: the median over sessions, and all their channels")
    print_line()
    print_line(f"cells:  {len(cells) - len(failed)} of {len(cells)} done")
    print_line(f"table:  {folder / 'results.csv'}")
    if len(cells) - len(failed) >= 2:
        print_line(f"report: {found.report()}")
    if len(failed):
        print_line(f"To try again those that are not done: ascribo resume {folder}")
        raise SystemExit(1)


def _changed(file: Path) -> int | None:
    """When a file was changed last; None if it is not there."""
    return file.stat().st_mtime_ns if file.exists() else None


def output_folder(config: Path, given: Mapping[str, Any], out: str | None) -> Path:
    """The folder of the sweep. given : what the file says. out : as it was typed, if it was."""
    return Path(out) if out is not None else config.absolute().parent / given["out"]


def read_config(path: Path) -> dict[str, Any]:
    """What the file says, checked as far as its parts go."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file.")
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a TOML file: {error}.") from error
    for name in given:
        if name not in PARTS:
            raise ValueError(f"{path}: unknown part {name!r}{suggest(name, PARTS)}")
    for name in ("sessions", "spaces"):
        if name not in given:
            raise ValueError(f"{path} has no {name!r}; expected {', '.join(PARTS)}.")
    for name in PARTS[2:]:
        if not isinstance(given.get(name, {}), dict):
            raise ValueError(f"{path}: {name} is {given[name]!r}; expected a section [{name}].")
    given.setdefault("out", f"{path.stem}-sweep")
    return given


def _sessions(given: Any, here: Path) -> Any:
    """Paths seen from the folder of the file. A dict has names of sessions."""
    if isinstance(given, str):
        return str(here / given)
    if isinstance(given, dict):
        return {name: here / path for name, path in given.items()}
    if isinstance(given, list) and all(isinstance(path, str) for path in given):
        return [here / path for path in given]
    raise ValueError(f"sessions is {given!r}; expected a folder, a pattern, a list of files, or names and files.")


def _model(given: dict[str, Any]) -> ContrastiveEmbedding:
    """The estimator that spaces and settings describe."""
    readers = {option.flag: read for option, read in options()}
    parts, texts = dict(given["spaces"]), []
    how = {
        name: parts.pop(name, default) for name, default in (("circular", []), ("period", None), ("nuisance", []))
    }
    for flag, spaces in parts.items():
        if flag not in readers:
            raise ValueError(f"[spaces] {flag}: no such kind{suggest(flag, readers)}")
        for text in [spaces] if isinstance(spaces, str) else spaces:
            try:
                texts.append(readers[flag](text))
            except (argparse.ArgumentTypeError, AttributeError) as error:
                raise ValueError(f"[spaces] {flag}: {error}") from None
    settings = {"random_state": 0, **given.get("settings", {})}
    known = [name for name in ContrastiveEmbedding().get_params(deep=False) if name not in OURS]
    for name in settings:
        if name not in known:
            raise ValueError(f"[settings] {name}: no such parameter{suggest(name, known)}")
    return ContrastiveEmbedding(build_spaces(texts, **how), **settings)
