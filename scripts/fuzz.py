"""Do damaged files ever crash, hang, eat memory, run code, or write where they should not?

    python scripts/fuzz.py --files 100000

Good files of every kind that ascribo reads (recordings, run folders, maps) are damaged at random: bytes flipped,
cut out, doubled or exchanged. They are read in another process. A reader may succeed, or refuse with a ValueError
(a TypeError, FileNotFoundError or ImportError where the file names something that is not there). All else counts:

    error     another exception: a reader that did not foresee the damage
    hang      more than 5 seconds for one file
    memory    more than 1 GB for one file
    crash     the process died
    written   something outside the file's own folder was written, or code from a file ran

The exit status is 0 only if nothing was counted.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import pickle
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd

FINE = (ValueError, TypeError, FileNotFoundError, ImportError)
SECONDS, BYTES = 5, 10**9


def make_files(folder: Path) -> list[tuple[str, Path]]:
    """Good files of every kind that can be made here: (kind, path)."""
    import scipy.io

    import ascribo as asc

    rng = np.random.default_rng(0)
    X, x = rng.standard_normal((60, 4)).astype(np.float32), np.linspace(0, 1, 60)
    table = pd.DataFrame(X, columns=[f"cell{k}" for k in range(4)]).assign(x=x, trial=np.arange(60) // 20)
    table.to_csv(folder / "table.csv", index=False)
    table.to_csv(folder / "table.tsv", index=False, sep="\t")
    np.savez(folder / "arrays.npz", X=X, x=x)
    np.savez_compressed(folder / "packed.npz", X=X, x=x)
    np.save(folder / "matrix.npy", X)
    scipy.io.savemat(folder / "old.mat", {"X": X, "x": x})
    made = ["table.csv", "table.tsv", "arrays.npz", "packed.npz", "matrix.npy", "old.mat"]
    try:
        import h5py

        with h5py.File(folder / "new.h5", "w") as file:
            file["X"], file["x"], file["words"] = X, x, np.array(["left", "right"] * 30, dtype="S5")
            file.create_dataset("packed", data=X, compression="gzip")
        shutil.copy(folder / "new.h5", folder / "new.mat")
        made += ["new.h5", "new.mat"]
    except ImportError:
        pass
    for name, write in (("table.parquet", table.to_parquet), ("session.nwb", _write_nwb)):
        try:
            write(folder / name)
            made.append(name)
        except ImportError:
            pass
    for version in (2, 3):
        with contextlib.suppress(ImportError):
            made += _write_zarr(folder / f"v{version}.zarr", version, X)
    model = asc.ContrastiveEmbedding(
        {"x": asc.Follow("x", 1)}, seeds=1, steps=3, batch_size=16, penalty=0.0, progress=False
    )
    model.set_params(encoder=asc.MLP((4,)), random_state=0)
    recording = asc.Recording(X, {"x": x})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(recording).save(folder / "run")
        model.model_.usable[:] = True
        model.attribute(recording, method="neuron_gradient", samples=20).to_netcdf(folder / "maps.nc")
    tensors = next((folder / "run").glob("*.safetensors")).name
    files = [(name, folder / name) for name in made]
    return [
        *files,
        ("maps.nc", folder / "maps.nc"),
        *((f"run/{n}", folder / "run" / n) for n in ("model.json", tensors)),
    ]


def _write_nwb(path: Path) -> None:
    from datetime import UTC, datetime

    import pynwb

    file = pynwb.NWBFile("a session", "one", datetime(2024, 1, 1, tzinfo=UTC))
    for k in range(3):
        file.add_unit(spike_times=np.sort(np.random.default_rng(k).uniform(0, 5, 40)))
    with pynwb.NWBHDF5IO(str(path), "w") as io:
        io.write(file)


def _write_zarr(path: Path, version: int, X: np.ndarray) -> list[str]:
    """A zarr folder; which of its files are to be damaged."""
    import zarr

    group = zarr.open_group(path, mode="w", zarr_format=version)
    group.create_array("X", data=X, chunks=(30, 4))
    group.create_array("x", data=X[:, 0], chunks=(60,))
    own = ["X/.zarray", "X/0.0"] if version == 2 else ["X/zarr.json", "X/c/0/0"]
    return [f"{path.name}/{name}" for name in own]


class Payload:
    """What a pickle in a file would do if it were opened."""

    def __reduce__(self):
        return os.mkdir, (os.environ["ASCRIBO_FUZZ_MARK"],)


def damage(data: bytes, rng: np.random.Generator) -> bytes:
    """The bytes, changed in one to eight places."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 9))):
        if not out:
            break
        place, length = int(rng.integers(len(out))), int(rng.integers(1, 40))
        match int(rng.integers(8)):
            case 0 | 1:
                out[place] ^= 1 << int(rng.integers(8))
            case 2:
                out[place : place + length] = rng.bytes(length)
            case 3:
                del out[place : place + length]
            case 4:
                out[place:place] = out[place : place + length]
            case 5:
                del out[place:]
            case 6:  # a number that is far too large, small or negative
                out[place : place + 8] = int(rng.choice([-1, 0, 2**31 - 1, 2**63 - 1])).to_bytes(
                    8, "little", signed=True
                )
            case 7:
                out[place:place] = pickle.dumps(Payload())
    return bytes(out)


def read(kind: str, path: Path) -> None:
    """Read a file as a user would."""
    import ascribo as asc

    if kind.startswith("run/"):
        asc.load(path.parent)
    elif ".zarr/" in kind:
        asc.read(next(folder for folder in path.parents if folder.suffix == ".zarr"))
    elif kind.endswith(".nc"):
        asc.attribution.AttributionMaps.load(path)
    else:
        asc.read(path, **({"bin_size": 0.1} if kind.endswith(".nwb") else {}))


def work(tasks, results, good: list[tuple[str, Path]], folder: Path) -> None:
    """Read damaged files until there are no more, telling of each before and after."""
    warnings.simplefilter("ignore")
    for kind, path in good:  # what it takes to import the libraries is not the file's fault
        read(kind, path)
    signal.signal(signal.SIGALRM, _too_long)
    for number in iter(tasks.get, None):
        rng = np.random.default_rng(number)
        kind, source = good[number % len(good)]
        place = folder / "read" / str(number)
        place.mkdir(parents=True)
        if ".zarr/" in kind:
            store = next(parent for parent in source.parents if parent.suffix == ".zarr")
            shutil.copytree(store, place / store.name)
            path = place / kind
        else:
            for other in source.parent.iterdir() if kind.startswith("run/") else [source]:
                shutil.copy(other, place / other.name)
            path = place / source.name
        path.write_bytes(damage(source.read_bytes(), rng))
        results.put((number, kind, "began", ""))
        before, outcome, why = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, "fine", ""
        signal.alarm(SECONDS)
        try:
            read(kind, path)
        except FINE:
            pass
        except TimeoutError:
            outcome = "hang"
        except MemoryError:
            outcome = "memory"
        except BaseException:
            outcome, why = "error", traceback.format_exc(limit=-3)
        finally:
            signal.alarm(0)
        if (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 > BYTES:
            outcome = "memory"
        shutil.rmtree(place)
        results.put((number, kind, outcome, why))


def _too_long(*_) -> None:
    raise TimeoutError


def fuzz(files: int, seed: int = 0, jobs: int = 2, keep: int = 5) -> dict:
    """Read so many damaged files; what was counted, and a few examples of each fault."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["ASCRIBO_FUZZ_MARK"] = str(folder / "CODE_RAN")
        (folder / "good").mkdir()
        good = make_files(folder / "good")
        context = multiprocessing.get_context("spawn")
        tasks, results = context.Queue(), context.Queue()
        for number in range(files):
            tasks.put(seed * 10**9 + number)
        for _ in range(jobs):
            tasks.put(None)
        start = lambda: context.Process(target=work, args=(tasks, results, good, folder))  # noqa: E731
        running = [start() for _ in range(jobs)]
        for process in running:
            process.start()
        counts, examples, open_files, done = Counter(), [], {}, 0
        last = time.monotonic()
        while done < files:
            try:
                number, kind, outcome, why = results.get(timeout=1)
                last = time.monotonic()
            except Exception:  # nothing new: has a process died, or is one stuck where no signal reaches it?
                stuck = time.monotonic() - last > 4 * SECONDS
                for k, process in enumerate(running):
                    if stuck and process.is_alive() and open_files:
                        process.kill()
                        process.join()
                    if not process.is_alive() and process.exitcode:
                        running[k] = start()
                        running[k].start()
                        for number, kind in list(open_files.items()):
                            counts["hang" if stuck else "crash"] += 1
                            examples.append({"file": number, "kind": kind, "outcome": "hang" if stuck else "crash"})
                            del open_files[number]
                            done += 1
                        last = time.monotonic()
                continue
            if outcome == "began":
                open_files[number] = kind
                continue
            open_files.pop(number, None)
            done += 1
            counts[outcome] += 1
            if outcome != "fine" and sum(e["outcome"] == outcome for e in examples) < keep:
                examples.append({"file": number, "kind": kind, "outcome": outcome, "why": why})
            if sys.stderr.isatty() and done % 100 == 0:
                print(f"\r{done:,} of {files:,}", end="", file=sys.stderr, flush=True)
        for process in running:
            process.join(10)
        if sorted(p.name for p in folder.iterdir()) != ["good", "read"]:
            counts["written"] += 1
        kinds = sorted({kind.split("-")[0] for kind, _ in good})
        return {"files": files, "kinds": kinds, "counts": dict(counts), "examples": examples}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    result = fuzz(given.files, given.seed, given.jobs)
    for example in result["examples"]:
        print(f"{example['outcome']}: file {example['file']}, {example['kind']}\n{example.get('why', '')}")
    print(json.dumps({key: result[key] for key in ("files", "kinds", "counts")}))
    sys.exit(result["counts"] != {"fine": given.files})
