"""Run folders as they stand on the command line: the model in one, and the recording that it was fitted to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..data.recording import Recording
from ..model.estimator import ContrastiveEmbedding
from ..model.loading import load_with_facts
from ..support.names import first_few, suggest
from ..support.progress import say
from .reading import read_like

__all__ = ["model_of_run", "recording_of_run"]


def model_of_run(
    run: str, session: str | None, pass_it: str = "--data FILE"
) -> tuple[ContrastiveEmbedding, dict[str, Any] | None]:
    """The model to look at, that of a session if there are several, and where its recording came from.

    pass_it : how a file is passed, for an error.
    """
    model, facts = load_with_facts(run)
    if isinstance(model, ContrastiveEmbedding):
        if session is not None:
            raise ValueError(f"--session {session}: {run} is the model of one recording. Leave --session out.")
        return model, facts.get("data")
    names = list(model.sessions_)
    if session is None:
        raise ValueError(
            f"{run} holds {len(names)} sessions ({first_few(names)}): choose one with --session NAME, and pass its "
            f"recording with {pass_it}."
        )
    if session not in names:
        raise ValueError(f"--session {session}: {run} has no such session{suggest(session, names)}")
    return model.sessions_[session], None


def recording_of_run(
    run: str,
    model: ContrastiveEmbedding,
    source: dict[str, Any] | None,
    data: str | None,
    progress: bool,
    pass_it: str = "--data FILE",
) -> Recording:
    """The recording of a file, or that which the run was fitted to. pass_it : how a file is passed."""
    if data is None:
        if source is None:
            raise ValueError(f"{run} does not say which file it was fitted to: pass it with {pass_it}.")
        if not Path(source["path"]).exists():
            raise ValueError(
                f"{run} was fitted to {source['path']}, which is gone: pass the recording with {pass_it}."
            )
        data = str(source["path"])
    say(f"reading {data}", progress)
    return read_like(data, source["how"] if source else {}, model)
