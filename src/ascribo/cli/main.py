"""The command line: `ascribo demo | fit | attribute | info | reproduce`.

Exit codes: 0 done; 2 wrong usage or bad input, in one sentence on standard error; 1 an unexpected failure; 130
interrupted. Standard output carries the result alone; progress, warnings and errors go to standard error.
"""

from __future__ import annotations

import argparse
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..attribution import METHODS
from ..version import __version__
from . import commands
from .reproduce import known_experiments
from .spaces import options as space_options

__all__ = ["main"]

BAD_INPUT = (
    *(ValueError, ImportError, FileNotFoundError, FileExistsError),
    *(PermissionError, IsADirectoryError, NotADirectoryError),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        arguments = vars(_parser().parse_args(argv))
    except SystemExit as stop:  # argparse has said why
        return int(stop.code or 0)
    command = arguments.pop("command")
    try:
        with _warnings_in_one_line():
            command(**arguments)
        return 0
    except KeyboardInterrupt:
        _say("interrupted.")
        return 130
    except BAD_INPUT as error:
        _say(f"error: {error}")
        return 2
    except FloatingPointError as error:
        _say(f"error: {error}")
        return 1
    except Exception:
        traceback.print_exc()
        _say("error: this should not have happened; please report it with the lines above.")
        return 1


def _say(message: str) -> None:
    sys.stderr.write(f"ascribo: {message}\n")


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Warnings of the library as messages for a reader rather than with a line of its source."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: _say(f"warning: {message}")
        yield


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ascribo",
        description="Which channels of a recording carry which variable, and how sure can one be?",
    )
    parser.add_argument("--version", action="version", version=f"ascribo {__version__}")
    add = parser.add_subparsers(required=True, metavar="COMMAND").add_parser

    demo = add("demo", help="simulate a recording with known truth, fit it, show who carries what")
    demo.add_argument("--out", default="runs/demo", help="folder to write to (%(default)s)")
    demo.set_defaults(command=commands.demo)

    _add_fit(add("fit", help="fit a model to a recording", epilog=FIT_EXAMPLE))

    attribute = add("attribute", help="which channels carry which space of a fitted model")
    attribute.add_argument("run", metavar="RUN", help="folder that `ascribo fit` wrote")
    attribute.add_argument("--out", required=True, help="file to write: .nc (netCDF) or .csv")
    attribute.add_argument("--data", help="the recording (default: the file it was fitted to)")
    attribute.add_argument("--method", choices=METHODS, default=METHODS[0], help="(%(default)s)")
    samples = attribute.add_argument("--samples", type=_at_least_one, default=20_000)
    samples.help = "average over this many time steps (%(default)s); unique_variance takes all it can use"
    attribute.add_argument("--loss", choices=("squared", "poisson"), default="squared", help="poisson: for counts")
    attribute.add_argument("--device", help="auto, cpu, cuda, ... (default: the one it was fitted on)")
    attribute.set_defaults(command=commands.attribute)

    info = add("info", help="what is in a run")
    info.add_argument("run", metavar="RUN", help="folder that `ascribo fit` wrote")
    info.add_argument("--json", action="store_true", dest="as_json", help="print it as JSON")
    info.set_defaults(command=commands.info)

    known = list(known_experiments())
    names = ", ".join(known)
    reproduce = add("reproduce", help=f"run a published experiment (from a checkout): {names}")
    reproduce.add_argument("name", metavar="NAME", choices=known or None, help=names or "its name")
    reproduce.add_argument("--quick", action="store_true", help="its short version")
    reproduce.add_argument("--out", default="results", help="folder to write to (%(default)s)")
    reproduce.add_argument("--jobs", type=_at_least_one, default=2, help="processes, one core each (%(default)s)")
    reproduce.add_argument("--fresh", action="store_true", help="do not go on from an interrupted run, start over")
    reproduce.set_defaults(command=commands.reproduce)
    return parser


FIT_EXAMPLE = (
    "Example: ascribo fit rat.npz --follow position=x,y --follow heading=angle:2 --circular angle "
    "--time rest:3 --out runs/rat. A fit that was interrupted goes on where it stopped when the same "
    "command is run again."
)


def _add_fit(fit: argparse.ArgumentParser) -> None:
    fit.add_argument("data", metavar="DATA", help="a .csv, .tsv, .parquet, .npz, .mat, .h5 or .nwb file")
    fit.add_argument("--out", required=True, metavar="RUN", help="folder to write the model to")

    spaces = fit.add_argument_group("spaces of the embedding, one or more")
    for option, read in space_options():
        flag, form = f"--{option.flag}", option.form
        spaces.add_argument(flag, action="append", dest="spaces", metavar=form, type=read, help=option.help)
    spaces.add_argument(
        "--circular", type=_names, default=(), metavar="VAR[,VAR...]", help="variables that are angles"
    )
    spaces.add_argument("--period", type=float, help="full turn of the circular variables (2π)")
    spaces.add_argument(
        "--nuisance",
        type=_names,
        default=(),
        metavar="NAME[,NAME...]",
        help="spaces to be accounted for but not reported",
    )

    reading = fit.add_argument_group("what is what in the file")
    reading.add_argument(
        "--channels",
        metavar="NAMES",
        help="table: columns a,b,c or what they begin with, cell*; arrays: the name of the matrix",
    )
    reading.add_argument(
        "--variables",
        type=_names,
        metavar="NAMES",
        help="columns or arrays that are variables (default: in a table those that a space names)",
    )
    reading.add_argument("--epochs", metavar="NAME", help="epoch labels (epoch, epochs or trial)")
    reading.add_argument("--timestamps", metavar="NAME", help="time stamps (time)")

    treatment = fit.add_argument_group("what is done to the channels; `attribute` does the same")
    treatment.add_argument("--bin-size", type=float, metavar="SECONDS", help="of .nwb files: bins of time")
    treatment.add_argument(
        "--smooth", type=float, metavar="SECONDS", help="standard deviation of a Gaussian within epochs"
    )
    treatment.add_argument("--transform", choices=("sqrt", "zscore"), help="sqrt: gives counts an even noise")

    training = fit.add_argument_group("training")
    for name, kind, default, text in (
        ("seeds", int, 4, "models, trained from different initial values"),
        ("steps", int, 3000, "training steps"),
        ("batch-size", int, 512, "references, positives and negatives in a step"),
        ("penalty", _penalty, "auto", "weight λ of the Jacobian penalty: auto or a number"),
        ("encoder", commands.encoder_of, "mlp", "mlp, convolution or convolution:WINDOW"),
        ("device", str, "auto", "auto, cpu, cuda, ..."),
        ("random-state", int, 0, "seed of all that is drawn"),
        ("jobs", int, -1, "processes over which the seeds are spread; -1: one per core"),
    ):
        training.add_argument(f"--{name}", type=kind, default=default, help=f"{text} (%(default)s)")
    training.add_argument(
        "--hybrid",
        choices=("whole", "separate"),
        default="whole",
        help="whether time spaces see all dimensions or only their own (%(default)s)",
    )
    training.add_argument("--drop-constant", action="store_true", help="leave constant channels out")
    fit.set_defaults(command=commands.fit)


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _penalty(text: str) -> str | float:
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither 'auto' nor a number") from None


def _at_least_one(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
