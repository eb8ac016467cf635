"""What the commands do: `ascribo.cli.options` parses, the library works, this prints the result.

progress : every command takes it; False: nothing on standard error but warnings and errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from ..data.recording import Recording
from ..model.estimator import ContrastiveEmbedding
from ..model.room_needs import bytes_of_calls, bytes_of_map, room_for_fit
from ..model.run_folder import check_folder
from ..model.saving import save
from ..screening import screen as screen_recording
from ..spaces.base import Space
from ..support.files import check_writable, room_kept, write_atomically
from ..support.progress import say
from ..training.data_parallel import rank
from ..training.kept_decoders import decoders_kept
from .analyse import analyse
from .info import info
from .output import print_calls, print_goodness, print_line, print_scores, print_table, short_rates
from .reading import describe_size, processes, take_options
from .report import report
from .reproduce import find_experiment
from .resume import resume
from .run_writing import resumable
from .runs import model_of_run, recording_of_run
from .sweep import sweep
from .watch import watch

__all__ = [
    "analyse",
    "attribute",
    "demo",
    "fit",
    "info",
    "report",
    "reproduce",
    "resume",
    "screen",
    "sweep",
    "watch",
]


def demo(out: str, progress: bool) -> None:
    """`ascribo demo`."""
    from .demo import run

    result = run(check_writable(check_folder(out)), progress)
    names = [str(name) for name in result.maps.by_space["space"].values if name not in result.maps.refused]
    for name in names:
        print_calls(result.maps, name, result.recording.truth)
    print_line()
    for name in names:
        value = result.auroc.get(name)
        none = "not defined: by the truth every channel carries it"
        print_line(f"auROC against the truth, {name}: {none if value is None else f'{value:.3f}'}")
    print_goodness(result.model.goodness_of_fit_)
    print_line()
    print_line(f"Written in {result.seconds:.0f} s:")
    for what, path in result.files.items():
        print_line(f"  {what + ':':<16}{path}")


def fit(*, out: str, jobs: int, progress: bool, argv: list[str], **given: Any) -> None:
    """`ascribo fit`. argv : the command as it was typed, which `ascribo resume` runs again."""
    run = check_writable(check_folder(out))
    options, parameters = take_options(given)
    if not options.spaces:
        raise ValueError("the model has no space: give at least one of --follow, --time, --discrete, --regress.")
    spaces, how = options.build_spaces(), options.arguments()
    recording = options.read(progress)
    jobs = processes(jobs, parameters["memory"])
    model = ContrastiveEmbedding(
        spaces, n_jobs=jobs, checkpoint=run / ".checkpoint", progress=progress, **parameters
    )
    if rank() > 0:  # of a fit under torchrun: the first process writes and prints
        model.set_params(progress=False).fit(recording)
        return
    say(f"fitting {describe_size(recording)}", progress)
    with resumable(run, out, argv), room_for_fit(model, recording, run) as give_back:
        model.fit(recording)
        model.set_params(checkpoint=None, progress=True, memory=None)  # those were for this fit
        give_back()
        save(model, run, data={"path": str(Path(options.data).absolute()), "how": how})
    print_goodness(model.goodness_of_fit_)
    print_line()
    print_line(f"model: {run}")


def screen(*, out: str | None, q: float, memory: str | None, progress: bool, **given: Any) -> None:
    """`ascribo screen`."""
    if out is not None and Path(out).suffix.lower() != ".csv":
        raise ValueError(f"--out {out}: expected a name that ends in .csv.")
    if out is not None:
        check_writable(out)
    options, _ = take_options(given)
    if not options.spaces:
        raise ValueError("there is nothing to ask about: give at least one of --follow, --discrete, --regress.")
    spaces, recording = options.build_spaces(), options.read(progress)
    say(f"screening {describe_size(recording)}", progress)
    with _room_for_calls(out, spaces, recording) as give_back:
        found = screen_recording(recording, spaces, q, memory=memory)
        give_back()
    for space, own in found.calls.groupby("space", sort=False):
        table: Any = own.sort_values("p", kind="stable").drop(columns="space")
        if "beyond_velocity" in table and table["beyond_velocity"].isna().all():
            table = table.drop(columns="beyond_velocity")
        number = f"{own['called'].sum()} of {len(own)} channels called, at a false discovery rate of {q:.0%}"
        table["p"], table["q"] = short_rates(table["p"]), short_rates(table["q"])
        table["called"] = ["yes" if called else "no" for called in table["called"]]
        print_table(table, f"Who carries {space}? {number}")
    print_line()
    for note in found.notes:
        print_line(f"note: {note}")
    if out is not None:
        write_atomically(out, lambda path: found.calls.to_csv(path, index=False))
        print_line(f"calls: {out}")


def _room_for_calls(out: str | None, spaces: Mapping[str, Space], recording: Recording) -> Any:
    """Room for the table of calls, if it is to be written."""
    if out is None:
        return nullcontext(lambda: None)
    return room_kept(Path(out).parent, bytes_of_calls(spaces, recording.channel_names), what="the calls")


def attribute(
    *,
    run: str,
    out: str,
    data: str | None,
    session: str | None,
    method: str,
    samples: int | None,
    loss: str,
    device: str | None,
    memory: str | None,
    progress: bool,
) -> None:
    """`ascribo attribute`."""
    path = Path(out)
    if path.suffix.lower() not in (".nc", ".csv"):
        raise ValueError(f"--out {out}: expected a name that ends in .nc (netCDF) or .csv.")
    check_writable(path)
    say(f"reading {run}", progress)
    model, source = model_of_run(run, session)
    model.set_params(progress=progress, memory=memory, **({} if device is None else {"device": device}))
    recording = recording_of_run(run, model, source, data, progress)
    say(f"attributing by {method}", progress)
    spaces, names, seeds = model.model_.spaces, model.model_.channels, model.model_.seeds
    size = max(bytes_of_map(spaces, names, seeds), bytes_of_calls(spaces, names))
    with (
        decoders_kept(Path(run) / ".checkpoint"),
        room_kept(path.parent, size, what="the map") as give_back,
    ):
        maps = model.attribute(recording, method=method, samples=samples, loss=loss)
        give_back()
        (maps.to_csv if path.suffix.lower() == ".csv" else maps.to_netcdf)(path)
    for name, space in model.model_.spaces.items():
        if space.nuisance or name in maps.refused:
            continue
        if name in maps.tested:
            print_calls(maps, name)
        else:
            print_scores(maps, name, space.variables, most=10)
    print_line()
    print_line(f"map: {path}")


def reproduce(
    names: list[str],
    quick: bool,
    out: str,
    jobs: int,
    fresh: bool,
    progress: bool,
    layers: list[int] | None = None,
    scheduler: str | None = None,
) -> None:
    """`ascribo reproduce`. layers : of the mixings of a generative process, where the experiment has them.
    scheduler : of a Dask cluster, whose workers compute the rows.

    What is wrong with any experiment's options, and how long each takes, is said before the first is begun.
    """
    experiments = {name: find_experiment(name) for name in names}
    if Path(out).exists() and not Path(out).is_dir():
        raise ValueError(f"--out {out} is a file: pass the path of a folder.")
    check_writable(out)
    for name, experiment in experiments.items():
        if layers is not None and "layers" not in getattr(experiment, "FULL", {}):
            raise ValueError(f"--layers: {name} has no mixing with layers; inversion and permutation have.")
        if not quick and (takes := getattr(experiment, "TAKES", None)):
            say(f"{name}: {takes}. If it is stopped, the same command goes on.", enabled=progress)
    how: dict[str, Any] = {
        "quick": quick,
        "jobs": jobs,
        "scheduler": scheduler,
        "fresh": fresh,
        "progress": progress,
    }
    chosen = {} if layers is None else {"layers": layers}
    for name, experiment in experiments.items():
        result = experiment.run(Path(out), **how, **chosen)
        for title, table in experiment.tables(result).items():
            print_table(table, title)
        print_line()
        for path in sorted(Path(out).glob(f"{name}.*")):
            print_line(str(path))
