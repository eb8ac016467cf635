"""Time to an answer, from arrays to calls with default settings, beside the code of an older commit.

    python -m benchmarks.answer [--old COMMIT or FOLDER] [--whole] [--only 5000x50 ...]
    python -m benchmarks.answer --gpu
    python -m benchmarks.answer --screen

Both sides take turns on the same recordings (`asc.simulate.box`: 2 variables, 2 hidden latents), each in a process
of its own with one thread for each process it starts. The older code takes a fixed number of training steps: unless
--whole is given, its fit is timed for a twentieth and a tenth of them, and the line through both is drawn out; its
attribution is timed as it is. Writes benchmarks/results/answer.json, in which rows of sizes that were not measured
stay as they are, each with its machine and code; exits with 0 only if every bar holds.

--gpu measures this code alone, on a GPU, in seconds after the import of the package. A small recording comes first,
by which kernels are compiled and libraries loaded. Writes benchmarks/results/answer-gpu.json.

--screen measures `asc.screen` beside the cross-validated GLM of the experiments, in turns, on 20,000 time steps of
100 channels with two variables, in seconds (the median of 11) and in processor seconds (the least). Writes
benchmarks/results/answer-screen.json.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.turns import CHECKOUT, ONE_THREAD

__all__ = ["main"]

OLD = "19d9fc6"
BARS = {"100000x50": 6.0, "20000x100": 6.0, "5000x50": 6.0, "100000x400": 4.0}
"""Time steps x channels -> how many times less the new code must take."""
GPU_BARS = {"100000x50": 4.0, "1000000x400": 8.0}
"""Time steps x channels -> the most seconds on a GPU (an H200)."""
SCREEN_BAR = 10.0
"""How many times the cross-validated GLM's time `screen` may take."""
OLD_STEPS = 3000
FILE = Path(__file__).parent / "results" / "answer.json"
GPU_FILE = FILE.with_name("answer-gpu.json")


def measure(size: str, steps: list[int]) -> dict[str, Any]:
    """One side, with the package of this process: seconds of fitting and of attribution, and the calls.

    steps : of training, one fit for each, the last of which is attributed; none for the default.
    """
    import numpy as np

    import ascribo as asc

    length, channels = map(int, size.split("x"))
    parts = (channels // 2, channels - channels // 2)
    data = asc.simulate.box(0, observed=2, hidden=2, steps=length, channels=parts, snr=3)
    spaces = {"position": asc.Follow(["x", "y"], dim=2), "rest": asc.Time(dim=2)}
    fits: list[float] = []
    for number in steps or [None]:
        model = asc.ContrastiveEmbedding(spaces, random_state=0, progress=False)
        if number is not None:
            model.set_params(steps=number)
        began = time.perf_counter()
        model.fit(data.X, data.variables)
        fits.append(time.perf_counter() - began)
    began = time.perf_counter()
    maps = model.attribute(data.X, data.variables)
    calls = maps.calls()
    seconds = time.perf_counter() - began
    assert data.truth is not None
    truth = data.truth.sel(space="position").values
    called = calls.loc[calls["space"] == "position", "called"].to_numpy(bool)
    return {
        "fit_s": fits,
        "attribute_s": seconds,
        "auroc": maps.auroc(truth, "position"),
        "power": float((called & truth).sum() / truth.sum()),
        "false_calls": int((called & ~truth).sum()),
        "spent": getattr(model, "spent_", None),
        "bits": np.round(model.goodness_of_fit_["bits"], 3).tolist(),
    }


def side(tree: Path, size: str, steps: list[int]) -> dict[str, Any]:
    """`measure` in a process with the package of a tree."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = f"import sys, json; sys.path.insert(0, {str(CHECKOUT)!r}); from benchmarks.answer import measure\n"
    code += f"if __name__ == '__main__':\n print(json.dumps(measure({size!r}, {steps!r})))"
    environment = {**ONE_THREAD, "PYTHONPATH": str(tree / "src"), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=tree, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{tree}, {size}: {done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = json.loads(done.stdout.splitlines()[-1])
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {**found, "processor_s": round(used, 1)}


def _seconds(found: dict[str, Any], steps: list[int]) -> float:
    """From arrays to calls; of fewer training steps than there are, by the line through two fits."""
    fit = found["fit_s"][-1]
    if len(steps) == 2:
        a, b = found["fit_s"]
        fit = b + (b - a) / (steps[1] - steps[0]) * (OLD_STEPS - steps[1])
    return fit + found["attribute_s"]


def on_gpu() -> int:
    """Measure this code on a GPU, write it and say which bars hold."""
    import torch

    from experiments.shared.results import code, machine

    if not torch.cuda.is_available():
        raise SystemExit("--gpu: there is no GPU that torch can use.")
    measure("5000x50", [])
    rows = []
    for size, bar in GPU_BARS.items():
        found = measure(size, [])
        seconds = _seconds(found, [])
        rows.append({"size": size, "seconds": seconds, "bar": bar, "holds": seconds < bar, **found})
        parts = f"{found['fit_s'][0]:.2f} s + {found['attribute_s']:.2f} s"
        print(f"{size}: {parts} = {seconds:.2f} s, at most {bar:g}", flush=True)
        result = {"machine": machine(), "code": code(), "rows": rows}
        GPU_FILE.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all(row["holds"] for row in rows) else 1


def beside_glm(turns: int = 11) -> int:
    """Measure `screen` beside the GLM, write it and say whether the bar holds."""
    import zlib

    import numpy as np

    from ascribo.screening import screen
    from ascribo.support.compute import one_blas_thread
    from experiments.shared.results import code, machine
    from experiments.validation.established_methods import cross_validated_glm
    from experiments.validation.situations import as_recording
    from experiments.validation.situations_data import SITUATIONS

    name = "20,000 steps, 100 channels"
    data = SITUATIONS[name](np.random.default_rng([2026, zlib.crc32(name.encode()), 0]))
    recording, spaces, regressors = as_recording(data)
    sides = {"screen": lambda: screen(recording, spaces), "glm": lambda: cross_validated_glm(recording, regressors)}
    took: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
    with one_blas_thread():  # which would only slow the small products of the GLM
        for turn in range(turns + 1):
            for side, run in sides.items():
                wall, processor = time.perf_counter(), time.process_time()
                run()
                if turn:  # the first is to load libraries
                    took[side].append((time.perf_counter() - wall, time.process_time() - processor))
    result: dict[str, Any] = {"machine": machine(), "code": code(), "cores": len(os.sched_getaffinity(0))}
    for side, found in took.items():
        result |= {f"{side}_s": float(np.median(found, axis=0)[0]), f"{side}_processor_s": min(found, key=sum)[1]}
    times = result["screen_s"] / result["glm_s"]
    result |= {"times": times, "bar": SCREEN_BAR, "holds": times <= SCREEN_BAR}
    print(
        f"screen {result['screen_s']:.3f} s, GLM {result['glm_s']:.3f} s: {times:.1f} times, at most {SCREEN_BAR:g}"
    )
    FILE.with_name("answer-screen.json").write_text(json.dumps(result, indent=1) + "\n")
    return 0 if result["holds"] else 1


def main() -> int:
    """Measure, write and say which bars hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--old", default=OLD, help="the commit, or a folder with its src, to compare with (%(default)s)"
    )
    parser.add_argument("--whole", action="store_true", help="take all training steps of the older code")
    parser.add_argument("--only", nargs="+", choices=list(BARS), default=list(BARS), metavar="SIZE")
    parser.add_argument("--out", type=Path, default=FILE, help="the file to write")
    parser.add_argument("--gpu", action="store_true", help="this code alone, on a GPU")
    parser.add_argument("--screen", action="store_true", help="screening beside a cross-validated GLM")
    given = parser.parse_args()
    if given.gpu:
        return on_gpu()
    if given.screen:
        return beside_glm()
    # what the experiments import is not part of the older code
    from experiments.shared.results import code, machine

    steps = [] if given.whole else [OLD_STEPS // 20, OLD_STEPS // 10]
    kept = json.loads(given.out.read_text())["rows"] if given.out.exists() else []
    rows = {row["size"]: row for row in kept}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(given.old)
        if not place.is_dir():
            place = Path(folder) / "old"
            archive = ["git", "archive", "-o", f"{place}.tar", given.old, "src"]
            subprocess.run(archive, cwd=CHECKOUT, check=True)
            shutil.unpack_archive(f"{place}.tar", place, filter="data")
        for size in given.only:
            new = side(CHECKOUT, size, [])
            old = side(place.resolve(), size, steps)
            rows[size] = {**compared(size, new, old, steps), "machine": machine(), "code": code()}
            write_rows(given.out, rows)
    return 0 if all(rows[size]["holds"] for size in given.only) else 1


def compared(size: str, new: dict[str, Any], old: dict[str, Any], steps: list[int]) -> dict[str, Any]:
    """Both sides of a recording in seconds, and whether the bar holds."""
    seconds = {"new_s": _seconds(new, []), "old_s": _seconds(old, steps)}
    times = seconds["old_s"] / seconds["new_s"]
    print(f"{size}: {seconds['old_s']:.0f} s, now {seconds['new_s']:.0f} s: {times:.1f} times", flush=True)
    row = {"size": size, **seconds, "times": times, "bar": BARS[size], "holds": times >= BARS[size]}
    return {**row, "old_steps": steps or [OLD_STEPS], "new": new, "old": old}


def write_rows(file: Path, rows: dict[str, dict[str, Any]]) -> None:
    """Write the rows of all sizes, in the order of the bars."""
    ordered = [rows[size] for size in BARS if size in rows]
    file.write_text(json.dumps({"rows": ordered}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
