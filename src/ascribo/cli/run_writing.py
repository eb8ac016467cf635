"""A run folder while a command writes to it: one writer, the command kept for `ascribo resume`, nothing left behind
that does not go on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..support.files import only_writer
from ..training.checkpoints import discard_checkpoints, forget, remembered
from ..training.interruption import Interrupted
from .kept_command import forget_command, keep_command

__all__ = ["begun", "resumable"]


def begun(state: Path) -> bool:
    """Whether a folder has the state of a fit that was interrupted."""
    return any(state.glob("seeds-*.safetensors"))


@contextmanager
def resumable(run: Path, out: str, argv: list[str]) -> Iterator[Path]:
    """Within the block nobody else writes to a run folder, and the command is kept in it; the block is given the
    folder for the states of its work.

    When the block is done, the command is forgotten. If it is interrupted, all stays for `ascribo resume`, which an
    `Interrupted` says. If it fails, states and folders that were not there before are removed.

    out, argv : the run folder and the command as they were typed.
    """
    state = run / ".checkpoint"
    before = [path for path in (state, run, *run.parents) if path.exists()]
    try:
        with only_writer(run), _keeps_only_what_goes_on(state, state in before):
            keep_command(state, argv, anew=not begun(state))  # a state goes with the command that it came from
            yield state
            forget_command(state)
    except KeyboardInterrupt as stop:
        told = str(stop) or f"stopped; what is done is kept in {run}"
        raise Interrupted(f"{told} (ascribo resume {out})") from None
    finally:
        _remove_empty(path for path in (state, run, *run.parents) if path == state or path not in before)


@contextmanager
def _keeps_only_what_goes_on(state: Path, was_there: bool) -> Iterator[None]:
    """An interrupted command keeps its state; one that failed leaves nothing behind that was not there before."""
    try:
        yield
    except Exception:
        if not was_there:
            discard_checkpoints(state.glob("*.safetensors"))
            forget(state, remembered(state))
        raise


def _remove_empty(folders: Iterable[Path]) -> None:
    for folder in folders:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
