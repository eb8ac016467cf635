"""`ascribo resume RUN`: the command that was kept in a folder is run again, and writes to that folder only.

The folder may have been moved since, or its files made by somebody else: wherever the command was to write, it now
writes to RUN.
"""

from __future__ import annotations

import shlex
from argparse import Namespace
from contextlib import chdir
from pathlib import Path

from ..support.progress import say
from .kept_command import kept_command
from .options import parser
from .run_writing import begun
from .sweep import output_folder, read_config

__all__ = ["resume"]


def resume(*, run: str, progress: bool) -> None:
    """`ascribo resume`."""
    from .main import main

    folder = Path(run)
    if (kept := kept_command(folder)) is None:
        raise ValueError(f"{run} has no fit, analysis or sweep that was interrupted. {_what_to_do(folder)}")
    words, place = kept
    given, out = parser(words).parse_args(words), folder.absolute()
    with chdir(place):
        before = _target(given)
        _check_inside(out, given, words)
        if before != out.resolve():
            say(f"{run} was started as {before}; it goes on in {out}", progress)
        say(f"running again: ascribo {shlex.join(words)}", progress)
        code = main(words, out=str(out), quiet=given.quiet or not progress)
    if code:
        raise SystemExit(code)


def _what_to_do(folder: Path) -> str:
    if (folder / "model.json").exists():
        return "It is done: see `ascribo info`."
    if (folder / "sweep.json").exists():
        return "Its sweep is over; `ascribo sweep` computes what is missing, of new sessions too."
    if begun(folder / ".checkpoint"):
        return "The state of one that was not begun by `ascribo fit` is there: begin it again as you did, to go on."
    return "Start one with `ascribo fit`, `ascribo analyse` or `ascribo sweep`."


def _target(given: Namespace) -> Path:
    """Where the command was to write when it was typed."""
    if given.command == "sweep":
        return output_folder(Path(given.config), read_config(Path(given.config)), given.out).resolve()
    return Path(given.out).resolve()


def _check_inside(out: Path, given: Namespace, words: list[str]) -> None:
    """Refuse what would write elsewhere all the same: a folder to unpack to, and links that lead away."""
    own = out.resolve()
    if given.command == "sweep":
        unpack = read_config(Path(given.config)).get("read", {}).get("unpack")
    else:
        unpack = given.unpack
    if unpack is not None and not Path(str(unpack)).resolve().is_relative_to(own):
        raise ValueError(
            f"the {given.command} unpacks to {unpack}, outside of {out}; `ascribo resume` writes to that folder "
            f"only. Run it again as it was typed: cd {shlex.quote(str(Path.cwd()))} && ascribo {shlex.join(words)}"
        )
    for entry in (*out.iterdir(), *out.glob("*/.checkpoint")):
        if entry.is_dir() and not entry.resolve().is_relative_to(own):
            raise ValueError(
                f"{entry} is a link that leads out of {out}, to {entry.resolve()}; `ascribo resume` writes to that "
                "folder only. Remove the link, or run the command again as it was typed."
            )
