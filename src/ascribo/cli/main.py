"""The command line: `ascribo COMMAND`, with the commands that `ascribo.cli.options` lists.

Exit codes: 0 done; 2 wrong usage or bad input, in one sentence on standard error; 1 an unexpected failure; 130
interrupted. Standard output carries the result alone; progress, warnings and errors go to standard error.

Nothing heavy is imported here: what a command needs is imported when it is called, after it has said that it is at
work.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from ..support.progress import say
from .options import COMMANDS, parser

__all__ = ["main"]

BAD_INPUT = (
    *(ValueError, ImportError, FileNotFoundError, FileExistsError),
    *(PermissionError, IsADirectoryError, NotADirectoryError),
)


def main(argv: Sequence[str] | None = None, **instead: Any) -> int:
    """Run one command and return its exit code. instead : values of options, whatever argv says of them."""
    argv = sys.argv[1:] if argv is None else list(argv)
    try:
        quiet = {"-h", "--help", "--quiet"}.intersection(argv) or instead.get("quiet")
        if argv and argv[0] in COMMANDS and not quiet:
            say(f"ascribo {argv[0]}: starting")
        arguments = {**vars(parser(argv).parse_args(argv)), **instead}
        command = getattr(import_module(".commands", __package__), arguments.pop("command"))
        with _warnings_in_one_line():
            command(progress=not arguments.pop("quiet"), **arguments)
        return 0
    except SystemExit as stop:  # argparse has said why
        return int(stop.code or 0)
    except KeyboardInterrupt as stop:
        say(f"ascribo: {str(stop) or 'interrupted.'}")
        return 130
    except BAD_INPUT as error:
        say(f"ascribo: error: {error}")
        return 2
    except MemoryError as error:
        told = str(error).rstrip(".") or "there is no more"
        say(f"ascribo: error: not enough memory ({told}). Use longer bins, fewer channels or a shorter recording.")
        return 2
    except FloatingPointError as error:
        say(f"ascribo: error: {error}")
        return 1
    except OSError as error:  # of the disk, not of what was asked for
        told = error.strerror or str(error)
        say(f"ascribo: error: {told if error.filename is None else f'{error.filename}: {told}'}")
        return 1
    except Exception:
        traceback.print_exc()
        say("ascribo: error: this should not have happened; please report it with the lines above.")
        return 1


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Warnings of the library as messages for a reader rather than with a line of its source."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: say(f"ascribo: warning: {message}")
        yield


if __name__ == "__main__":
    sys.exit(main())
