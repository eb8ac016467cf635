"""What the commands do: `ascribo.cli.main` parses, the library works, this prints the result."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from ..data.read import read
from ..data.recording import Recording
from ..model.estimator import ContrastiveEmbedding
from ..model.loading import load_with_facts
from ..model.saving import save
from ..model.store import check_folder, read_run
from ..networks.encoders import Convolution
from ..spaces.base import Space
from ..support.records import decode
from ..training.checkpoints import discard_checkpoints
from .output import Output
from .reproduce import find_experiment
from .spaces import SpaceText, build_spaces

__all__ = ["attribute", "demo", "encoder_of", "fit", "info", "reproduce"]

TABLES = (".csv", ".tsv", ".parquet")


def encoder_of(text: str) -> str | Convolution:
    """The encoder named on the command line.

    >>> encoder_of("convolution:20").window
    20
    """
    kind, _, window = text.partition(":")
    return Convolution(window=int(window)) if kind == "convolution" and window else text


# The commands


def demo(out: str) -> None:
    """`ascribo demo`."""
    from .demo import run

    result = run(check_folder(out))
    show = Output()
    names = [str(name) for name in result.maps.by_space["space"].values if name not in result.maps.refused]
    for name in names:
        show.calls(result.maps, name, result.recording.truth)
    show.line()
    for name in names:
        value = result.auroc.get(name)
        none = "not defined: by the truth every channel carries it"
        show.line(f"auROC against the truth, {name}: {none if value is None else f'{value:.3f}'}")
    show.goodness(result.model.goodness_of_fit_)
    show.line(f"\nWritten in {result.seconds:.0f} s:")
    for what, path in result.files.items():
        show.line(f"  {what + ':':<16}{path}")


def fit(
    *,
    data: str,
    out: str,
    spaces: list[SpaceText] | None,
    circular: tuple[str, ...],
    period: float | None,
    nuisance: tuple[str, ...],
    channels: str | None,
    variables: tuple[str, ...] | None,
    epochs: str | None,
    timestamps: str | None,
    bin_size: float | None,
    smooth: float | None,
    transform: str | None,
    jobs: int,
    **parameters: Any,
) -> None:
    """`ascribo fit`."""
    run = check_folder(out)
    if not spaces:
        raise ValueError("the model has no space: give at least one of --follow, --time, --discrete, --regress.")
    chosen = build_spaces(spaces, circular, period, nuisance)
    if variables is None and Path(data).suffix.lower() in TABLES:
        variables = tuple(dict.fromkeys(v for space in chosen.values() for v in space.variables))
    how = {
        "channels": channels.split(",") if channels and "," in channels else channels,
        "variables": None if variables is None else list(variables),
        "epochs": epochs,
        "time": timestamps,
    }
    treated = {"bin_size": bin_size, "smooth": smooth, "transform": transform}
    recording = _read(data, {**how, **{key: value for key, value in treated.items() if value is not None}})
    checkpoint = run / ".checkpoint"
    model = ContrastiveEmbedding(chosen, n_jobs=jobs, checkpoint=checkpoint, **parameters)
    before = [path for path in (checkpoint, run, *run.parents) if path.exists()]
    try:
        model.fit(recording)
    except Exception:  # an interrupted fit keeps its checkpoint, a failed one leaves nothing behind
        if checkpoint not in before:
            discard_checkpoints(checkpoint.glob("*.safetensors"))
            _remove_empty(path for path in (checkpoint, run, *run.parents) if path not in before)
        raise
    model.set_params(checkpoint=None)
    save(model, run, data={"path": str(Path(data).absolute()), "how": how})
    _remove_empty([checkpoint])
    show = Output()
    show.goodness(model.goodness_of_fit_)
    show.line(f"\nmodel: {run}")


def attribute(run: str, out: str, data: str | None, method: str, samples: int, loss: str, device: str | None):
    """`ascribo attribute`."""
    path = Path(out)
    if path.suffix.lower() not in (".nc", ".csv"):
        raise ValueError(f"--out {out}: expected a name that ends in .nc (netCDF) or .csv.")
    model, facts = load_with_facts(run)
    source = facts.get("data")
    if not isinstance(model, ContrastiveEmbedding):
        raise ValueError(f"{run} holds several sessions: name the folder of one, as {Path(run) / 'session-0'}.")
    if data is None:
        if source is None:
            raise ValueError(f"{run} does not say which file it was fitted to: pass it with --data FILE.")
        if not Path(source["path"]).is_file():
            raise ValueError(
                f"{run} was fitted to {source['path']}, which is gone: pass the recording with --data FILE."
            )
    if device is not None:
        model.set_params(device=device)
    recording = _read_like(data or source["path"], source["how"] if source else {}, model)  # type: ignore[index]
    maps = model.attribute(recording, method=method, samples=samples, loss=loss)
    (maps.to_csv if path.suffix.lower() == ".csv" else maps.to_netcdf)(path)
    show = Output()
    for space, of_space in model.model_.spaces.items():
        if of_space.nuisance or space in maps.refused:
            continue
        if maps.blocks is not None:
            show.calls(maps, space)
        else:
            title = f"Who carries {space}? The strongest first"
            show.scores(maps, space, title, of_space.variables, most=10)
    show.line(f"\nmap: {path}")


def info(run: str, as_json: bool) -> None:
    """`ascribo info`."""
    facts, tensors = read_run(run)
    spaces: dict[str, Space] = decode(facts["spaces"])
    fit_of = pd.DataFrame(facts["goodness_of_fit"])
    given = facts["feature_names"] or [f"channel{k}" for k in range(facts["features"])]
    dropped = [name for k, name in enumerate(given) if k not in set(facts["kept_channels"])]
    known = {
        "run": str(run),
        "ascribo": facts.get("ascribo"),
        "data": (facts.get("data") or {}).get("path"),
        "channels": facts["channels"],
        "dropped_channels": dropped,
        "treatment": None if (treatment := decode(facts.get("treatment"))) is None else str(treatment),
        "spaces": {
            name: {"type": type(space).__name__, **asdict(space)}  # type: ignore[call-overload]
            for name, space in spaces.items()
        },
        "goodness_of_fit": fit_of.to_dict("records"),
        "lambda": facts["lambda"],
        "seeds": facts["parameters"]["seeds"],
        "steps": {"asked": facts["parameters"]["steps"], "done": len(tensors["history.lambda"])},
    }
    show = Output()
    if as_json:
        show.line(json.dumps(known, indent=1))
        return
    names = facts["channels"]
    shown = ", ".join(names) if len(names) <= 8 else f"{', '.join(names[:4])}, ..., {names[-1]}"
    show.line(f"run:       {run}")
    show.line(f"ascribo:   {known['ascribo'] or 'not recorded'}")
    show.line(f"data:      {known['data'] or 'not recorded'}")
    show.line(f"channels:  {len(names)} ({shown})")
    if dropped:
        show.line(f"dropped:   {', '.join(dropped)} (constant)")
    if known["treatment"]:
        show.line(f"treatment: {known['treatment']}")
    show.line(f"seeds:     {known['seeds']}")
    show.line("steps:     {done} of {asked}".format(**known["steps"]))
    show.line(f"λ:         {', '.join(f'{value:.3g}' for value in facts['lambda'])}")
    for name, space in spaces.items():
        fields = asdict(space)  # type: ignore[call-overload]
        said = ", ".join(f"{key}={value}" for key, value in fields.items() if value not in ((), False))
        show.line(f"space:     {name} = {type(space).__name__}({said})")
    show.goodness(fit_of)


def reproduce(name: str, quick: bool, out: str, jobs: int, fresh: bool) -> None:
    """`ascribo reproduce`."""
    experiment = find_experiment(name)
    result = experiment.run(_folder(out), quick=quick, jobs=jobs, fresh=fresh)
    show = Output()
    for title, table in experiment.tables(result).items():
        show.frame(table, title)
    show.line()
    for path in sorted(Path(out).glob(f"{name}.*")):
        show.line(str(path))


def _folder(out: str) -> Path:
    """Where to write to, refused before any work is done if it cannot be."""
    if Path(out).exists() and not Path(out).is_dir():
        raise ValueError(f"--out {out} is a file: pass the path of a folder.")
    return Path(out)


def _remove_empty(folders: Iterable[Path]) -> None:
    for folder in folders:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _read_like(path: str, how: dict[str, Any], model: ContrastiveEmbedding) -> Recording:
    """The recording of a file as the one that the model was fitted to: its channels by name, treated alike."""
    treatment = model.model_.treatment
    binned = Path(path).suffix.lower() == ".nwb"  # as it is read
    recording = _read(path, {**how, "treatment": treatment} if binned else how)
    if hasattr(model, "feature_names_in_"):  # the columns of another file may come in another order
        recording = recording.take_channels([str(name) for name in model.feature_names_in_])
    return recording if binned or treatment is None else recording.treat(treatment)


def _read(path: str, how: dict[str, Any]) -> Recording:
    try:
        return read(path, **how)
    except TypeError as error:  # the file holds something that is not a recording
        raise ValueError(str(error)) from error
