"""One session with one choice of settings: a cell of a sweep, and the run folder that it becomes.

A cell is named by what determines its result: the data, how they are read, and the parameters of the model. It is
done when its cell.json is there, which is written last; until then whoever computes it goes on from its checkpoint.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sklearn.base import clone

from ..data.read import read
from ..data.recording import Recording
from ..model.estimator import ContrastiveEmbedding
from ..model.loading import load_with_facts
from ..model.room_needs import room_for_fit
from ..model.saving import save
from ..support.files import FolderInUse, only_writer
from ..support.sealed_json import is_whole, read_json, write_sealed
from ..support.stored_parameters import encode
from ..support.stored_types import is_of
from ..training.kept_decoders import decoders_kept
from ..version import __version__
from .sessions import Source

__all__ = [
    "MAP",
    "Cell",
    "changed",
    "collect_notes",
    "compute_cell",
    "make_cell",
    "read_failure",
    "read_record",
    "read_session",
    "save_fitted",
    "write_failure",
]

FORMAT = 1
"""Goes up when a cell is to be computed again: it is a part of its name."""
RECORD_FORMAT = 2
"""Goes up when what cell.json says changes. 2 has a checksum."""
RECORD, FAILURE, MAP = "cell.json", "failed.json", "map.nc"
SAID: dict[str, Any] = {
    "ascribo": str,
    "seconds": float,
    **dict.fromkeys(("channels", "time_steps"), int),
    "spaces": list[dict],
    "called": dict[str, int],
    "no_map": str | None,
    **dict.fromkeys(("notes", "stack"), list[str]),
}
"""What cell.json says of a cell that is done."""
FIT: dict[str, Any] = {
    "space": str,
    **dict.fromkeys(("bits", "bits_low", "bits_high"), float | None),
    "collapsed": bool,
}
"""What it says of each of its spaces."""
NOT_THE_RESULT = ("n_jobs", "checkpoint", "progress", "memory")
"""Parameters of the model that its numbers do not depend on."""
WAIT_SECONDS = 60.0
"""How long to wait for another process that is computing the same cell: a worker that was given up may be alive."""


@dataclass(frozen=True)
class Cell:
    """What is computed. digest : its name. how : arguments of `ascribo.read`. model : not fitted."""

    digest: str
    source: Source
    how: Mapping[str, Any]
    model: ContrastiveEmbedding


def make_cell(source: Source, fingerprint: str, how: Mapping[str, Any], model: ContrastiveEmbedding) -> Cell:
    """The cell of a session, known by its fingerprint, and an estimator that is not fitted."""
    given = {name: value for name, value in model.get_params(deep=False).items() if name not in NOT_THE_RESULT}
    given["device"] = str(given["device"])  # it may be a torch.device
    parts = {name: encode(value, name) for name, value in given.items()}
    content = [FORMAT, fingerprint, encode(dict(how), "read"), parts]
    text = json.dumps(content, sort_keys=True)
    return Cell(hashlib.sha256(text.encode()).hexdigest()[:20], source, dict(how), model)


def changed(model: ContrastiveEmbedding, **parameters: Any) -> ContrastiveEmbedding:
    """A copy of an estimator, not fitted, with other parameters."""
    copy: Any = clone(model)
    return copy.set_params(**parameters)


def compute_cell(cell: Cell, out: str, jobs: int | None) -> dict[str, Any]:
    """Fit, attribute and save, unless that is done; the record of the cell. What fails is a record too.

    out : folder of the sweep. jobs : processes for the seeds of this cell.
    """
    folder, until = Path(out) / cell.digest, time.monotonic() + WAIT_SECONDS
    while True:
        try:
            with only_writer(folder):
                return read_record(folder) or _compute(cell, folder, jobs)
        except FolderInUse as error:
            if time.monotonic() > until:
                return write_failure(folder, error)
            time.sleep(0.5)
        except Exception as error:  # one bad session must not end the others
            return write_failure(folder, error)


def _compute(cell: Cell, folder: Path, jobs: int | None) -> dict[str, Any]:
    for file in folder.glob(".*"):  # what a killed process was just writing
        if file.is_file() and file.name != ".lock":
            file.unlink()
    began = time.monotonic()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", UserWarning)
        recording = read_session(cell)
        model, facts = _fitted(cell, folder, recording, jobs, said)
        called, why = _attribute(model.set_params(progress=False, n_jobs=jobs), recording, folder)
    fit = model.goodness_of_fit_
    record = {
        "format": RECORD_FORMAT,
        "digest": cell.digest,
        "ascribo": __version__,
        "seconds": round(time.monotonic() - began, 3),
        "channels": model.n_features_in_,
        "time_steps": len(recording),
        "spaces": fit.astype(object).where(fit.notna(), None).to_dict("records"),
        "called": called,
        "no_map": why,
        "notes": list(dict.fromkeys([*facts.get("notes", []), *collect_notes(said)])),
        "stack": facts.get("stack", []),
    }
    write_sealed(folder / RECORD, record)
    (folder / FAILURE).unlink(missing_ok=True)
    return record


def read_session(cell: Cell) -> Recording:
    """The recording of a cell."""
    return cell.source if isinstance(cell.source, Recording) else read(cell.source, **cell.how)


def collect_notes(said: Sequence[warnings.WarningMessage]) -> list[str]:
    """What the user should know, of all that was said."""
    return [str(note.message) for note in said if issubclass(note.category, UserWarning)]


def _fitted(
    cell: Cell, folder: Path, recording: Recording, jobs: int | None, said: Sequence[warnings.WarningMessage]
) -> tuple[ContrastiveEmbedding, dict[str, Any]]:
    """The model, saved in the folder, and what is said there of its fit: it may be there already, of a process that
    was killed later, or that fitted several together."""
    with contextlib.suppress(ValueError):
        found, facts = load_with_facts(folder)
        assert isinstance(found, ContrastiveEmbedding)
        return found, facts
    checkpoint = folder / ".checkpoint"
    model = changed(cell.model, checkpoint=checkpoint, progress=False, n_jobs=jobs)
    with room_for_fit(model, recording, folder, attributed=True) as give_back:
        model.fit(recording)
        with contextlib.suppress(OSError):
            checkpoint.rmdir()
        give_back()
    return model, save_fitted(model, cell, folder, notes=collect_notes(said))


def save_fitted(model: ContrastiveEmbedding, cell: Cell, folder: Path, **facts: Any) -> dict[str, Any]:
    """Save the fitted model of a cell with what is to be known of its fit, which is returned."""
    model.set_params(checkpoint=None, progress=True, n_jobs=None)  # those were for this fit
    save(model, folder, **facts, **({} if isinstance(cell.source, Recording) else {"data": _where(cell)}))
    return facts


def _attribute(
    model: ContrastiveEmbedding, recording: Recording, folder: Path
) -> tuple[dict[str, int], str | None]:
    """Write the map. How many channels are called for each space that can be tested; why there is no map."""
    with decoders_kept(folder / ".checkpoint"):
        try:
            maps = model.attribute(recording)
        except ValueError as error:  # all spaces have collapsed
            return {}, str(error)
        maps.to_netcdf(folder / MAP)
    if not maps.tested:
        return {}, None
    calls: Any = maps.calls()
    return {str(name): int(own["called"].sum()) for name, own in calls.groupby("space", sort=False)}, None


def _where(cell: Cell) -> dict[str, Any]:
    """Where the recording came from, as `ascribo fit` writes it."""
    roles = ("channels", "variables", "epochs", "time")
    return {"path": str(Path(str(cell.source)).absolute()), "how": {name: cell.how.get(name) for name in roles}}


def read_record(folder: Path) -> dict[str, Any] | None:
    """What came of a cell; None if it is not done. A record that is damaged counts as none."""
    record = _read(folder / RECORD)
    whole = (
        record is not None
        and record.get("format") == RECORD_FORMAT
        and record.get("digest") == folder.name
        and is_whole(record)
        and _holds(record, SAID)
        and len(record["spaces"]) > 0
        and all(_holds(fit, FIT) for fit in record["spaces"])
    )
    return record if whole and (folder / "model.json").is_file() else None


def _holds(facts: Mapping[str, Any], types: Mapping[str, Any]) -> bool:
    """Whether facts of these types are there."""
    return all(name in facts and is_of(facts[name], kind) for name, kind in types.items())


def read_failure(folder: Path) -> str | None:
    """Why a cell failed; None if it did not."""
    failure = _read(folder / FAILURE)
    return None if failure is None else str(failure.get("error"))


def write_failure(folder: Path, error: BaseException) -> dict[str, Any]:
    """Keep why a cell failed. It is tried again in the next sweep."""
    record = {"error": f"{type(error).__name__}: {error}"}
    with contextlib.suppress(OSError):  # a full disk may be why it failed
        write_sealed(folder / FAILURE, record)
    return record


def _read(file: Path) -> dict[str, Any] | None:
    try:
        return read_json(file)
    except (OSError, ValueError):
        return None
