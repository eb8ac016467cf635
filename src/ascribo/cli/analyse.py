"""`ascribo analyse`: from a file to the report in one line, with everything that was assumed said."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from ..data.recording import Recording
from ..evidence import shift_test
from ..model.estimator import ContrastiveEmbedding
from ..model.loading import load_with_facts
from ..model.room_needs import room_for_fit
from ..model.run_folder import check_folder
from ..model.saving import save
from ..report.methods_text import fingerprint
from ..support.files import check_writable
from ..support.memory import refuse_memory
from ..support.names import first_few
from ..support.progress import say
from ..sweeps.cells import make_cell
from ..training.kept_decoders import decoders_kept
from ..version import __version__
from .longer_bins import propose_bin_size
from .output import print_calls, print_goodness, print_line
from .proposed_spaces import choose_variables, propose_spaces
from .reading import describe_size, is_table, load_table, processes, read_file
from .report import MAP, write_shift
from .run_writing import begun, resumable
from .table_roles import propose_roles

__all__ = ["analyse"]


TIME_AND_EPOCHS = ("time", "epoch", "epochs", "trial")
"""Columns that `ascribo.read` takes for these, if nobody says otherwise."""
WHAT_CALLED_MEANS = (
    "score: the share of the channel's variance that only this space explains. called: q is small; the interval "
    "may reach below zero where a few stretches of time hold most of the score."
)


def analyse(
    *,
    data: str,
    follow: list[str] | None,
    out: str,
    shifts: int,
    q: float,
    seeds: int | str,
    steps: int | str,
    random_state: int,
    jobs: int,
    memory: str | None,
    progress: bool,
    argv: list[str],
    **reading: Any,
) -> None:
    """`ascribo analyse`. argv : the command as it was typed, which `ascribo resume` runs again."""
    if shifts:
        refuse_memory(memory, "--shifts", "leave one of the two out")
    run, asked = check_writable(check_folder(out)), follow or []
    channels, variables = reading.pop("channels"), reading.pop("variables")
    how: dict[str, Any] = {
        "channels": channels.split(",") if channels and "," in channels else channels,
        "variables": None if variables is None else list(variables),
        "epochs": reading.pop("epochs"),
        "time": reading.pop("timestamps"),
    }
    if (unpack := reading.pop("unpack")) is not None:
        how["unpack"] = str(Path(unpack).absolute())
    of_table = _assume_roles(data, how, asked) if is_table(data) else []
    treatment = {name: value for name, value in reading.items() if value is not None}
    say(f"reading {data}", progress)
    recording = read_file(data, {**how, **treatment})
    proposal = propose_spaces(recording, asked)
    size = f"{recording.X.shape[1]:,} channels over {len(recording):,} time steps."
    assumed = [size, *of_table, *proposal.assumed]
    if dead := recording.constant_channels():
        assumed.append(f"{len(dead)} channels never change: they were left out.")
    model = ContrastiveEmbedding(
        proposal.spaces,
        seeds=seeds,  # type: ignore[arg-type]
        steps=steps,  # type: ignore[arg-type]
        random_state=random_state,
        n_jobs=processes(jobs, memory),
        memory=memory,
        drop_constant=True,
        progress=progress,
    )
    with resumable(run, out, argv) as state:
        print_line("Assumed (change it with `ascribo fit`, where every space is spelled out):")
        for line in assumed:
            print_line(f"  {line}")
        model = _fitted(model, recording, run, state, {"path": str(Path(data).absolute()), "how": how})
        say("attributing the spaces to the channels", progress)
        with decoders_kept(state):
            maps = model.attribute(recording)
            maps.to_netcdf(run / MAP)
        if proposed := propose_bin_size(recording, proposal.spaces, maps.undecided):
            size, names = proposed
            assumed.append(
                f"{first_few(names)}: nothing could be asked in time steps of this length. In bins of {size:g} s "
                f"there is a question to answer: run it again with --bin-size {size:g}."
            )
        files = {"model": run, "map": run / MAP, "calls": run / "calls.csv", "report": run / "report.html"}
        maps.to_csv(files["calls"])
        shift = None
        if shifts:
            say(f"fitting {shifts} copies with shifted variables", progress)
            shift = shift_test(model, recording, shifts=shifts)
            files["shift test"] = write_shift(shift, run)
        model.report(recording, files["report"], maps=maps, shift=shift, q=q, assumed=assumed)
    called = [name for name in maps.tested if name not in {**maps.refused, **maps.undecided}]
    for name in called:
        print_calls(maps, name)
    if called:
        print_line(WHAT_CALLED_MEANS)
    print_goodness(model.goodness_of_fit_)
    print_line()
    for name, why in maps.undecided.items():
        print_line(f"{name}: not decided. {why}")
    if proposed:
        print_line(assumed[-1])
    for what, path in files.items():
        print_line(f"{what + ':':<12}{path}")


def _fitted(
    model: ContrastiveEmbedding, recording: Recording, run: Path, state: Path, source: dict[str, Any]
) -> ContrastiveEmbedding:
    """The model, fitted and saved. It may be in the folder, of an analysis that was interrupted later: then it is
    not fitted again.

    state : folder of the checkpoints. source : where the recording came from.
    """
    mark = make_cell(recording, fingerprint(recording), {"treatment": recording.treatment}, model).digest
    for_this_run = {name: getattr(model, name) for name in ("n_jobs", "memory", "progress")}
    if not begun(state) and (found := _analysed(run, mark)) is not None:
        say(f"the model is in {run} already", bool(model.progress))
        return found.set_params(**for_this_run)
    say(f"fitting {describe_size(recording)}", bool(model.progress))
    with room_for_fit(model, recording, run, attributed=True) as give_back:
        model.set_params(checkpoint=state).fit(recording)
        give_back()
    save(model.set_params(checkpoint=None, memory=None), run, data=source, analysis=mark)
    return model.set_params(**for_this_run)


def _analysed(run: Path, mark: str) -> ContrastiveEmbedding | None:
    """The model in a folder, if this version made it of the same data in the same way. mark : of both."""
    with contextlib.suppress(ValueError):
        model, facts = load_with_facts(run)
        if (facts.get("analysis"), facts["ascribo"]) == (mark, __version__):
            return model  # type: ignore[return-value]
    return None


def _assume_roles(data: str, how: dict[str, Any], asked: list[str]) -> list[str]:
    """Fill in which columns of a table are channels and which variables, where nobody said so; what was assumed."""
    if how["variables"] is not None:
        return []
    table = load_table(data)
    followed = choose_variables(list(table), asked) if asked else []
    elsewhere = {*TIME_AND_EPOCHS, how["epochs"], how["time"], *followed}
    roles = propose_roles(table, elsewhere, how["channels"])
    if roles is None:
        how["variables"] = followed or None
        return [] if followed else ["Every column of numbers is a channel: --follow names the variables."]
    how |= {"channels": roles.channels, "variables": followed or roles.variables}
    return [roles.assumed]
