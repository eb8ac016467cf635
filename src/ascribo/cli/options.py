"""What the command line understands. Only the options of the command that is called are put together."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ..version import __version__
from .reproduce import known_experiments

__all__ = ["COMMANDS", "RESUMABLE", "parser"]

COMMANDS = {
    "demo": "simulate a recording whose truth is known, fit it, show which channels carry what",
    "analyse": "from a file to a report in one go: spaces are proposed, fitted, attributed and tested",
    "screen": "find the channels that carry known variables, in seconds and without a model",
    "fit": "fit a model to a recording",
    "sweep": "fit every session with every choice of settings, on one machine or on a cluster",
    "resume": "go on with a fit, an analysis or a sweep that was interrupted",
    "attribute": "find out which channels carry which space of a fitted model",
    "report": "write one HTML file that says what was found, how sure it is, and whether to trust it",
    "watch": "show how far a fit has come, and what came of it",
    "info": "show what is in the folder of a fitted model",
    "reproduce": "run an experiment, published or our own, from a checkout of the sources",
}
"""Name -> what it does."""
RESUMABLE = ("analyse", "fit", "sweep")
"""Commands that `ascribo resume` runs again, so they are told how they were typed."""


def parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of a command line: it knows all commands, and the options of the one that is called."""
    top = argparse.ArgumentParser(
        prog="ascribo",
        description="Which channels of a recording carry which variable, and how sure can one be?",
        epilog="ascribo COMMAND --help tells about the options of a command.",
    )
    top.add_argument("--version", action="version", version=f"ascribo {__version__}")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    for name, what in COMMANDS.items():
        command = commands.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.")
        if argv[:1] == [name]:
            _OPTIONS[name](command)
            command.add_argument(
                "--quiet", action="store_true", help="no progress, only the result, warnings and errors"
            )
            command.set_defaults(command=name, **({"argv": list(argv)} if name in RESUMABLE else {}))
    return top


def _demo(demo: argparse.ArgumentParser) -> None:
    demo.add_argument("--out", default="runs/demo", metavar="RUN", help="folder to write to (%(default)s)")


def _info(info: argparse.ArgumentParser) -> None:
    info.add_argument("run", metavar="RUN", help="folder of a fitted model, of one recording or several sessions")
    info.add_argument("--json", action="store_true", dest="as_json", help="print it as JSON")


def _report(report: argparse.ArgumentParser) -> None:
    report.add_argument(
        "paths",
        nargs="+",
        metavar="RUN [RECORDING]",
        help="folder of a fitted model, and its recording if that is not where it was; or several folders, to "
        "compare them",
    )
    report.add_argument(
        "--out", metavar="FILE", help="the file to write (RUN/report.html; of several, compare.html)"
    )
    report.add_argument("--session", metavar="NAME", help="of a model of several sessions: which one")
    _memory(report)
    report.add_argument("--title", help="(the question that the report answers)")
    report.add_argument("--q", type=float, default=0.05, help="false discovery rate (%(default)s)")


def _sweep(sweep: argparse.ArgumentParser) -> None:
    sweep.epilog = (
        "docs/cluster.md shows such a file, and how to use a cluster. A sweep that is run again computes only what "
        "is missing."
    )
    sweep.add_argument("config", metavar="CONFIG", help="a .toml file: sessions, spaces, settings, grid")
    sweep.add_argument("--out", metavar="FOLDER", help="folder of the sweep (the file's `out`)")
    sweep.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="processes, one cell each; -1: one per core (%(default)s)"
    )
    sweep.add_argument(
        "--scheduler", metavar="ADDRESS", help="of a Dask scheduler, such as tcp://node1:8786: its workers compute"
    )
    sweep.add_argument(
        "--stack",
        type=int,
        metavar="N",
        help="cells trained as one stack (16 on a GPU if steps and seeds are numbers, else 1)",
    )


def _resume(resume: argparse.ArgumentParser) -> None:
    resume.add_argument("run", metavar="RUN", help="the folder that the command was to write to")


def _watch(watch: argparse.ArgumentParser) -> None:
    watch.add_argument("run", metavar="RUN", help="folder that a fit is writing to, or has written")
    watch.add_argument("--every", type=float, default=5.0, metavar="SECONDS", help="look so often (%(default)s)")
    watch.add_argument("--once", action="store_true", help="look once instead of until the fit is done")


def _attribute(attribute: argparse.ArgumentParser) -> None:
    from ..attribution import METHODS
    from ..attribution.method_registry import SAMPLES

    attribute.add_argument("run", metavar="RUN", help="folder of a fitted model")
    attribute.add_argument("--out", required=True, metavar="FILE", help="file to write: .nc (netCDF) or .csv")
    attribute.add_argument("--data", metavar="FILE", help="the recording (the file that the model was fitted to)")
    attribute.add_argument("--session", metavar="NAME", help="of a model of several sessions: which one")
    attribute.add_argument("--method", choices=METHODS, default="unique_variance", help="(%(default)s)")
    attribute.add_argument(
        "--samples",
        type=_at_least_one,
        metavar="N",
        help=f"average over so many time steps ({SAMPLES}); not for unique_variance, which takes all it can use",
    )
    attribute.add_argument(
        "--loss", choices=("squared", "poisson"), default="squared", help="poisson: for channels that are counts"
    )
    _memory(attribute)
    attribute.add_argument("--device", help="auto, cpu, cuda, ... (the one that the model was fitted on)")


def _reproduce(reproduce: argparse.ArgumentParser) -> None:
    known = known_experiments()
    if known:
        reproduce.formatter_class = argparse.RawDescriptionHelpFormatter
        reproduce.epilog = "experiments:\n" + "\n".join(f"  {name:<19}{what}" for name, what in known.items())
    reproduce.add_argument(
        "names",
        metavar="NAME",
        nargs="+",
        choices=list(known) or None,
        help="name of the experiment; several run one after the other",
    )
    reproduce.add_argument("--quick", action="store_true", help="a short version")
    reproduce.add_argument("--out", default="results", metavar="FOLDER", help="folder to write to (%(default)s)")
    reproduce.add_argument(
        "--jobs", type=_at_least_one, default=2, metavar="N", help="processes, one core each (%(default)s)"
    )
    reproduce.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="of a Dask scheduler, such as tcp://node1:8786: its workers compute, started in the checkout with "
        "PYTHONPATH=.",
    )
    reproduce.add_argument("--fresh", action="store_true", help="start over, instead of going on where it stopped")
    reproduce.add_argument(
        "--layers",
        type=_at_least_one,
        nargs="+",
        metavar="N",
        help="layers of the mixing, where an experiment has one (inversion, permutation), instead of all it has",
    )


FIT_EXAMPLE = (
    "Example: ascribo fit rat.npz --follow position=x,y --follow heading=angle:2 --circular angle "
    "--time rest:3 --out runs/rat. A fit that was interrupted goes on where it stopped when the same "
    "command is run again, or by `ascribo resume RUN`."
)


def _fit(fit: argparse.ArgumentParser) -> None:
    fit.epilog = FIT_EXAMPLE
    fit.add_argument("data", metavar="DATA", help="a .csv, .tsv, .parquet, .npz, .mat, .h5 or .nwb file")
    fit.add_argument("--out", required=True, metavar="RUN", help="folder to write the model to")
    _recording(fit)

    training = fit.add_argument_group("training")
    for name, kind, default, text in (
        ("seeds", _number_or_auto, "auto", "number of models; auto: two, and two more if these disagree"),
        ("steps", _number_or_auto, "auto", "training steps; auto: until held-out bits have stopped rising"),
        ("batch-size", int, 512, "references, positives and negatives in a step"),
        ("penalty", _penalty, "auto", "weight λ of the Jacobian penalty: auto or a number"),
        ("encoder", _encoder, "mlp", "mlp, convolution or convolution:WINDOW, WINDOW in time steps"),
        ("device", str, "auto", "auto, cpu, cuda, ..."),
        ("random-state", int, 0, "seed of everything that is drawn at random"),
        ("jobs", int, -1, "processes over which the seeds are spread; -1: one per core"),
    ):
        training.add_argument(f"--{name}", type=kind, default=default, help=f"{text} (%(default)s)")
    training.add_argument(
        "--hybrid",
        choices=("whole", "separate"),
        default="whole",
        help="whether time spaces see all dimensions or only their own (%(default)s)",
    )
    _memory(training)
    training.add_argument("--drop-constant", action="store_true", help="leave out channels that never change")


ANALYSE_EXAMPLE = (
    "Example: ascribo analyse session.nwb --follow position --follow head_direction --bin-size 0.05 "
    "--out runs/session. It says what it assumes; `ascribo fit` takes every space spelled out. An analysis that "
    "was interrupted goes on when the same command is run again, or by `ascribo resume FOLDER`."
)


def _analyse(analyse: argparse.ArgumentParser) -> None:
    analyse.epilog = ANALYSE_EXAMPLE
    kinds = "a .csv, .tsv, .parquet, .npz, .mat, .h5 or .nwb file, or a folder of files that pynapple saved"
    analyse.add_argument("data", metavar="FILE", help=kinds)
    analyse.add_argument("--out", required=True, metavar="FOLDER", help="folder for model, map, calls and report")
    analyse.add_argument(
        "--follow",
        action="append",
        metavar="NAME",
        help="a variable, or what several begin with; may be given again (all that the file has)",
    )
    analyse.add_argument("--shifts", type=int, default=0, help="copies with shifted variables to compare with (0)")
    analyse.add_argument("--q", type=float, default=0.05, help="false discovery rate (%(default)s)")
    analyse.add_argument("--seeds", type=_number_or_auto, default="auto", help="number of models (%(default)s)")
    analyse.add_argument("--steps", type=_number_or_auto, default="auto", help="training steps (%(default)s)")
    analyse.add_argument("--random-state", type=int, default=0, help="seed of all that is random (%(default)s)")
    analyse.add_argument("--jobs", type=int, default=-1, help="processes; -1: one per core (%(default)s)")
    _memory(analyse)
    _reading(analyse)


SCREEN_EXAMPLE = (
    "Example: ascribo screen rat.npz --follow position=x,y --discrete direction=direction:1 --out calls.csv"
)


def _screen(screen: argparse.ArgumentParser) -> None:
    screen.epilog = SCREEN_EXAMPLE
    screen.add_argument("data", metavar="DATA", help="a .csv, .tsv, .parquet, .npz, .mat, .h5 or .nwb file")
    screen.add_argument("--out", metavar="FILE", help="a .csv file to write the calls to")
    screen.add_argument("--q", type=float, default=0.05, help="false discovery rate (%(default)s)")
    _memory(screen)
    _recording(screen)


def _recording(command: argparse.ArgumentParser) -> None:
    """Spaces, what is what in the file, and what is done to the channels."""
    from .spaces import options as space_options

    spaces = command.add_argument_group("spaces of the embedding, one or more")
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

    _reading(command)


def _reading(command: argparse.ArgumentParser) -> None:
    """What is what in the file, and what is done to the channels."""
    reading = command.add_argument_group("what is what in the file")
    reading.add_argument(
        "--channels",
        metavar="NAMES",
        help="table: columns a,b,c or what they begin with, cell*; arrays: the name of the matrix",
    )
    reading.add_argument(
        "--variables",
        type=_names,
        metavar="NAMES",
        help="columns or arrays that are variables (in a table: those that a space names)",
    )
    reading.add_argument(
        "--epochs", metavar="NAME", help="labels of epochs, such as trials (epoch, epochs or trial)"
    )
    reading.add_argument("--timestamps", metavar="NAME", help="time stamps (time)")
    reading.add_argument(
        "--unpack",
        metavar="FOLDER",
        help="where to unpack channels of over 128 MiB that are compressed, in chunks or not float32 (.h5, .mat, "
        ".zarr, .npy), once, to be read from there as they are needed: they may be larger than memory",
    )

    treatment = command.add_argument_group("what is done to the channels (`ascribo attribute` does the same)")
    treatment.add_argument(
        "--bin-size",
        type=float,
        metavar="SECONDS",
        help="width of the time bins; if the file has time steps, they are averaged",
    )
    treatment.add_argument(
        "--smooth", type=float, metavar="SECONDS", help="standard deviation of a Gaussian, within epochs"
    )
    treatment.add_argument(
        "--transform", choices=("sqrt", "zscore"), help="sqrt: makes the noise of counts even; zscore"
    )


def _memory(command: argparse._ActionsContainer) -> None:
    command.add_argument(
        "--memory",
        metavar="SIZE",
        help="what the work may take at most, such as 2GB, in addition to the recording; it is done in one process "
        "then, and refused if it does not fit (no limit)",
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _penalty(text: str) -> str | float:
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither 'auto' nor a number") from None


def _encoder(text: str):
    from ..networks.encoders import Convolution

    kind, _, window = text.partition(":")
    if kind != "convolution" or not window:
        return text
    try:
        return Convolution(window=int(window))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None


def _number_or_auto(text: str) -> int | str:
    return text if text == "auto" else int(text)


def _at_least_one(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return number


_OPTIONS = {
    "demo": _demo,
    "analyse": _analyse,
    "screen": _screen,
    "fit": _fit,
    "sweep": _sweep,
    "resume": _resume,
    "attribute": _attribute,
    "report": _report,
    "watch": _watch,
    "info": _info,
    "reproduce": _reproduce,
}
