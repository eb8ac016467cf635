"""Good files of every kind that ascribo reads, and how each is read: a part of `fuzz.py`."""

from __future__ import annotations

import contextlib
import io
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

__all__ = ["READERS", "Case", "make_cases", "read"]

SMALL: dict[str, Any] = {"seeds": 1, "steps": 3, "batch_size": 16, "penalty": 0.0, "progress": False}


@dataclass(frozen=True)
class Case:
    """A file that is damaged. kind : its name. root : the file or folder that is read, and `file` a path in it.

    reader : of `READERS`. damage : "bytes" of that file; "tensors" of the run folder `file`, which is written anew
    with good checksums; or "place": something else than a file is put where it is, or would be.
    """

    kind: str
    root: Path
    file: str
    reader: str
    damage: str = "bytes"

    @property
    def name(self) -> str:
        """Of the file that is damaged."""
        return Path(self.file or self.root.name).name

    def copied(self, folder: Path) -> tuple[Path, Path]:
        """A copy in a folder: what is to be read, and the file in it that is to be damaged."""
        root = folder / self.root.name
        shutil.copytree(self.root, root) if self.root.is_dir() else shutil.copy(self.root, root)
        return root, root / self.file


class Enough(Exception):
    """All that a reader is asked for has been read."""


def recording() -> Any:
    """A small recording."""
    import ascribo as asc

    rng = np.random.default_rng(0)
    return asc.Recording(rng.standard_normal((60, 4)).astype(np.float32), {"x": np.linspace(0, 1, 60)})


def estimator(**settings: Any) -> Any:
    """A small model that is not fitted."""
    import ascribo as asc

    return asc.ContrastiveEmbedding({"x": asc.Follow("x", 1)}, encoder=asc.MLP((4,)), **SMALL, **settings)


def make_cases(folder: Path) -> list[Case]:
    """Good files of every kind that can be made here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = (_recordings, _large, _zarrs, _runs, _fits, _sweeps)
        cases = [case for make in made for case in make(folder)]
        return [*cases, *_replaced(cases)]


def _replaced(cases: list[Case]) -> list[Case]:
    """Files of runs, fits and sweeps in whose place something else is put; the lock of a fit, too."""
    own = [case for case in cases if case.reader in ("run", "fit", "sweep", "maps") and case.damage == "bytes"]
    lock = next(replace(case, kind="fit/.lock", file=".checkpoint/.lock") for case in own if case.reader == "fit")
    return [replace(case, kind=f"{case.kind} replaced", damage="place") for case in (*own, lock)]


def _files(folder: Path, names: list[str], reader: str = "recording") -> list[Case]:
    return [Case(name, folder / name, "", reader) for name in names]


def _recordings(folder: Path) -> list[Case]:
    import scipy.io

    data = recording()
    X, x, words = data.X, np.linspace(0, 1, 60), np.array(["left", "right"] * 30)
    table = pd.DataFrame(X, columns=[f"cell{k}" for k in range(4)]).assign(x=x, trial=np.arange(60) // 20)
    table.to_csv(folder / "table.csv", index=False)
    table.to_csv(folder / "table.tsv", index=False, sep="\t")
    np.savez(folder / "arrays.npz", X=X, x=x)
    np.savez(folder / "words.npz", X=X, side=words)
    np.savez_compressed(folder / "packed.npz", X=X, x=x)
    np.save(folder / "matrix.npy", X)
    scipy.io.savemat(folder / "old.mat", {"X": X, "x": x, "side": words})
    scipy.io.savemat(folder / "packed.mat", {"X": X, "x": x}, do_compression=True)
    scipy.io.savemat(folder / "oldest.mat", {"X": X, "x": x}, format="4")
    made = ["table.csv", "table.tsv", "arrays.npz", "words.npz", "packed.npz", "matrix.npy"]
    made += ["old.mat", "packed.mat", "oldest.mat"]
    with contextlib.suppress(ImportError):
        import h5py

        with h5py.File(folder / "new.h5", "w") as file:
            file["X"], file["x"], file["words"] = X, x, words.astype("S5")
            file.create_dataset("packed", data=X, compression="gzip")
        shutil.copy(folder / "new.h5", folder / "new.mat")
        made += ["new.h5", "new.mat"]
    with contextlib.suppress(ImportError):
        table.to_parquet(folder / "table.parquet")
        made.append("table.parquet")
    cases = _files(folder, made)
    with contextlib.suppress(ImportError):
        _write_nwb(folder / "session.nwb")
        cases += _files(folder, ["session.nwb"], "timed")
    with contextlib.suppress(ImportError):
        names = _write_pynapple(folder / "pynapple")
        cases += [Case(f"pynapple/{name}", folder / "pynapple", name, "timed") for name in names]
    return cases


def _write_nwb(path: Path) -> None:
    from datetime import UTC, datetime

    import pynwb

    file = pynwb.NWBFile("a session", "one", datetime(2024, 1, 1, tzinfo=UTC))
    for k in range(3):
        file.add_unit(spike_times=np.sort(np.random.default_rng(k).uniform(0, 5, 40)))
    with pynwb.NWBHDF5IO(str(path), "w") as io:
        io.write(file)


def _write_pynapple(folder: Path) -> list[str]:
    import pynapple as nap

    folder.mkdir()
    times = {k: nap.Ts(np.sort(np.random.default_rng(k).uniform(0, 5, 40))) for k in range(3)}
    nap.TsGroup(times).save(str(folder / "units.npz"))
    nap.Tsd(t=np.arange(0, 5, 0.05), d=np.arange(100.0)).save(str(folder / "speed.npz"))
    nap.TsdFrame(t=np.arange(0, 5, 0.05), d=np.ones((100, 2))).save(str(folder / "place.npz"))
    nap.IntervalSet([0, 3], [2, 5]).save(str(folder / "parts.npz"))
    return ["units.npz", "speed.npz", "place.npz", "parts.npz"]


def _large(folder: Path) -> list[Case]:
    """Matrices that are read as large ones are: mapped where they lie, or unpacked to a file."""
    X = recording().X
    np.save(folder / "double.npy", X.astype(float))
    cases = [*_files(folder, ["matrix.npy"], "large"), *_files(folder, ["double.npy"], "unpacked")]
    with contextlib.suppress(ImportError):
        import h5py

        with h5py.File(folder / "plain.h5", "w") as file:
            file["X"] = X
        with h5py.File(folder / "chunks.h5", "w") as file:
            file.create_dataset("X", data=X, compression="gzip", chunks=(16, 4))
        shutil.copy(folder / "chunks.h5", folder / "chunks.mat")
        cases += [*_files(folder, ["plain.h5"], "large"), *_files(folder, ["chunks.h5", "chunks.mat"], "unpacked")]
    return [Case(f"{case.reader} {case.kind}", case.root, case.file, case.reader) for case in cases]


def _zarrs(folder: Path) -> list[Case]:
    try:
        import zarr
    except ImportError:
        return []
    X, cases = recording().X, []
    for version, names in ((2, (".zgroup", "X/.zarray", "X/0.0")), (3, ("zarr.json", "X/zarr.json", "X/c/0/0"))):
        root = folder / f"v{version}.zarr"
        group = zarr.open_group(root, mode="w", zarr_format=version)
        group.create_array("X", data=X, chunks=(30, 4))
        group.create_array("x", data=X[:, 0], chunks=(60,))
        cases += [Case(f"{root.name}/{name}", root, name, "recording") for name in names]
        cases.append(Case(f"unpacked {root.name}/{names[-1]}", root, names[-1], "unpacked"))
    return cases


def _runs(folder: Path) -> list[Case]:
    from ascribo.model.saving import save

    data, model = recording(), estimator(random_state=0)
    model.fit(data)
    save(
        model, folder / "run", data={"path": str(folder / "arrays.npz"), "how": {"variables": ["x"], "time": None}}
    )
    model.model_.usable[:] = True
    model.attribute(data, method="neuron_gradient", samples=20).to_netcdf(folder / "maps.nc")
    tensors = next((folder / "run").glob("*.safetensors")).name
    runs = [Case(f"run/{name.split('-')[0]}", folder / "run", name, "run") for name in ("model.json", tensors)]
    return [*runs, Case("maps.nc", folder / "maps.nc", "", "maps"), *_resealed(folder)]


def _resealed(folder: Path) -> list[Case]:
    """Run folders whose tensors are damaged, with checksums that fit: of one recording, and of several sessions."""
    import ascribo as asc

    data = recording()
    spaces = {"x": asc.Follow("x", 1), "guess": asc.Regress("x"), "rest": asc.Time(1)}
    shared = asc.SharedEmbedding(spaces, encoder=asc.MLP((4,)), random_state=0, **SMALL)
    shared.fit({"a": data, "b": data}).save(folder / "both")
    parts = [("run", ""), ("both", ""), ("both", "session-0"), ("both", "session-1")]
    return [
        Case("/".join(filter(None, (root, part, "resealed"))), folder / root, part, "used", "tensors")
        for root, part in parts
    ]


def _fits(folder: Path) -> list[Case]:
    """States of a fit that was interrupted."""
    from ascribo.training.checkpoints import remember

    state = folder / "fit/.checkpoint"
    with contextlib.suppress(Enough):
        _go_on(folder / "fit")
    remember(state, "command", {"argv": ["fit", "a.npz", "--out", "run"], "folder": str(folder)})
    tensors = next(state.glob("*.safetensors")).name
    return [
        Case(f"fit/{name.split('-')[0]}", folder / "fit", f".checkpoint/{name}", "fit")
        for name in ("fit.json", tensors)
    ]


def _sweeps(folder: Path) -> list[Case]:
    import ascribo as asc

    root = folder / "sweep"
    root.mkdir()
    shutil.copy(folder / "arrays.npz", root / "rat.npz")
    (root / "sweep.toml").write_text(
        'sessions = "*.npz"\nout = "out"\n[read]\nvariables = ["x"]\n'
        '[spaces]\nfollow = ["x=x:1"]\ntime = ["rest:1"]\n'
        "[settings]\nseeds = 1\nsteps = 3\nbatch_size = 16\n[grid]\npenalty = [0.0, 0.1]\n"
    )
    asc.sweep(root / "rat.npz", estimator(random_state=0), root, progress=False)
    cell = next(root.glob("*/cell.json")).relative_to(root)
    cases = [Case("sweep/.fingerprints.json", root, ".fingerprints.json", "fingerprints")]
    cases.append(Case("sweep/sweep.toml", root, "sweep.toml", "sweep.toml"))
    return [*cases, *(Case(f"sweep/{Path(name).name}", root, name, "sweep") for name in ("sweep.json", str(cell)))]


# How each is read


def _go_on(folder: Path) -> None:
    """Go on with a fit from its state, up to where its training is done; what `ascribo watch` and `resume` see."""
    from ascribo.cli.kept_command import kept_command
    from ascribo.cli.watch import read_progress

    state = folder / ".checkpoint"
    read_progress(folder)
    kept_command(folder)
    with mock.patch("ascribo.model.estimator.finish", side_effect=Enough):
        estimator(random_state=None, checkpoint=state).fit(recording())


def _read_sweep(folder: Path) -> None:
    import ascribo as asc

    found = asc.Sweep(folder)
    repr(found), found.table(), found.summary(), found.calls()


def _read_fingerprints(folder: Path) -> None:
    from ascribo.sweeps.sessions import find_sessions, fingerprints

    fingerprints(find_sessions(folder / "rat.npz"), folder)


def _read_config(folder: Path) -> None:
    """What a sweep does with its file before it reads the sessions."""
    from ascribo.cli.sweep import sweep

    given = {"jobs": 1, "scheduler": None, "stack": 1, "progress": False, "argv": ["sweep"]}
    with mock.patch("ascribo.sweeps.sweep.fingerprints", side_effect=Enough):
        sweep(config=str(folder / "sweep.toml"), out=str(folder / "out"), **given)


def _read_as_large(path: Path, **options: Any) -> None:
    import ascribo as asc

    with mock.patch("ascribo.data.formats.stored_arrays.LARGE_BYTES", 1):
        asc.read(path, **options)


def _load(path: Path) -> None:
    """Load a model and its recording, and look at what is in the folder."""
    from ascribo.cli.info import info
    from ascribo.cli.runs import model_of_run, recording_of_run

    try:
        with contextlib.redirect_stdout(io.StringIO()):
            info(str(path), as_json=False, progress=False)
    finally:
        recording_of_run(str(path), *model_of_run(str(path), None), None, progress=False)


def _use(path: Path) -> None:
    """Load a model and ask it for what users do; it may be refused, but what it gives are numbers."""
    import ascribo as asc

    model: Any = asc.load(path)
    data = {"a": recording(), "b": recording()} if hasattr(model, "sessions_") else recording()
    for z in model.transform(data).values() if isinstance(data, dict) else [model.transform(data)]:
        assert np.isfinite(np.asarray(z)).all(), "the embedding is not finite"
    model._repr_html_() if hasattr(model, "_repr_html_") else model.goodness_of_fit_
    if isinstance(data, dict):
        model.consistency()
        return
    model.model_.usable[:] = True  # so short a fit is at chance
    scores = model.attribute(data, method="generative_gradient").by_space
    assert np.isfinite(scores.values).all(), "the map is not finite"


def _load_maps(path: Path) -> None:
    import ascribo as asc

    asc.attribution.AttributionMaps.load(path)


def _read(path: Path, **options: Any) -> None:
    import ascribo as asc

    asc.read(path, **options)


READERS: dict[str, Callable[[Path], None]] = {
    "recording": _read,
    "timed": lambda path: _read(path, bin_size=0.1),
    "large": _read_as_large,
    "unpacked": lambda path: _read_as_large(path, unpack=path.parent / "unpacked"),
    "run": _load,
    "used": _use,
    "maps": _load_maps,
    "fit": _go_on,
    "sweep": _read_sweep,
    "fingerprints": _read_fingerprints,
    "sweep.toml": _read_config,
}


def read(reader: str, path: Path) -> None:
    """Read a file or folder as a user would."""
    with contextlib.suppress(Enough):
        READERS[reader](path)
