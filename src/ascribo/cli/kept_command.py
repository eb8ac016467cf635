"""The command that writes a folder, kept in it until it is done, so that `ascribo resume` can run it again."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from ..training.checkpoints import forget, remember, remembered
from .options import RESUMABLE

__all__ = ["forget_command", "keep_command", "kept_command"]

COMMAND = "command"


def keep_command(state: Path, argv: list[str], *, anew: bool) -> None:
    """Keep a command as it was typed, and the folder it was typed in.

    state : folder of the checkpoints. anew : in place of one that was kept before; otherwise that one stays.
    """
    remember(state, COMMAND, {"argv": argv, "folder": str(Path.cwd())}, anew=anew)


def forget_command(state: Path) -> None:
    """The command is done, or is not to go on."""
    forget(state, [COMMAND])
    with suppress(OSError):
        state.rmdir()


def kept_command(run: Path) -> tuple[list[str], Path] | None:
    """The words of the command that was kept in a folder, and the folder it was typed in; None if there is none.

    Only fits, analyses and sweeps are ever run: anything else is an error.
    """
    command: Any = remembered(run / ".checkpoint").get(COMMAND) if run.is_dir() else None
    if command is None:
        return None
    good = isinstance(command, dict) and {"argv", "folder"} <= command.keys() and isinstance(command["folder"], str)
    words = command["argv"] if good else None
    if (
        not isinstance(words, list)
        or not all(isinstance(word, str) for word in words)
        or words[:1] not in [[name] for name in RESUMABLE]
    ):
        raise ValueError(f"{run}/.checkpoint does not say how the fit was started: run that command again.")
    if not Path(command["folder"]).is_dir():
        raise ValueError(f"the fit was started in {command['folder']}, which is gone: run that command again.")
    return words, Path(command["folder"])
