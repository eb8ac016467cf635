"""A recording larger than memory: fitted, embedded and attributed from a memory map, under a limit of the kernel's.

The work is done by this same file in a process of its own (see `main`), whose private memory is limited: any copy
of the recording fails there. What is mapped from a file does not count, as it need not be in memory.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

linux = pytest.mark.skipif(sys.platform != "linux", reason="the limit of a process's memory is tested on Linux")


def write_recording(path: Path, steps: int, channels: int) -> None:
    """A raw float32 file (steps, channels) whose first half of channels carries x, beside x itself.

    Reflected random walks; written a few thousand steps at a time.
    """
    rng = np.random.default_rng(0)
    walks = np.cumsum(0.2 * rng.standard_normal((steps, 2), dtype=np.float32), axis=0, dtype=np.float64)
    latents = (np.abs(walks % 4 - 2) - 1).astype(np.float32)
    np.save(path.with_suffix(".npy"), latents[:, 0])
    weights = rng.standard_normal((2, channels), dtype=np.float32) * np.repeat([[1, 0], [0, 1]], channels // 2, 1)
    shift = rng.standard_normal(channels, dtype=np.float32)
    chunk = 2**22 // channels
    with open(path, "wb") as file:
        for start in range(0, steps, chunk):
            part = np.tanh(latents[start : start + chunk] @ weights.astype(np.float32) + shift)
            part += 0.3 * rng.standard_normal(part.shape, dtype=np.float32)
            file.write(part.tobytes())


def run(path: Path, *options) -> dict:
    """What `main` says in a process of its own; fails where the process does."""
    done = subprocess.run(
        [sys.executable, __file__, str(path), *map(str, options)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@linux
def test_a_mapped_recording_is_never_copied(tmp_path):
    """The quick form: 200 MB, of which all that is done may take three quarters: a copy would take more."""
    path = tmp_path / "recording.raw"
    write_recording(path, 200_000, 250)
    found = run(path, 200_000, 250, "quick")
    assert found["limit"] <= 150e6
    assert found["auroc"] > 0.9 and found["bits"] > 0.5


@linux
@pytest.mark.slow
def test_ten_gigabytes_fit_in_four(tmp_path, capsys):
    free = shutil.disk_usage(tmp_path).free
    if free < 12e9:
        pytest.skip(
            f"the recording takes 10 GB and {tmp_path} has {free / 1e9:.1f} GB left: at least 12 are needed"
        )
    path = tmp_path / "recording.raw"
    start = time.perf_counter()
    write_recording(path, 2_500_000, 1000)
    assert path.stat().st_size == 10_000_000_000
    written = time.perf_counter() - start
    try:
        found = run(path, 2_500_000, 1000, "slow")
    finally:
        path.unlink()
    with capsys.disabled():
        print({"writing": round(written, 1), **found})
    assert found["limit"] <= 4e9 and found["peak"] < 4e9
    assert found["auroc"] > 0.95 and found["bits"] > 1


def main(path: str, steps: str, channels: str, form: str) -> None:
    """Fit, transform, score and attribute under a limit of private memory; print what was measured.

    quick : what is there after a tiny fit, and 150 MB more. slow : 4 GB in all.
    """
    import resource

    import torch

    import ascribo as asc
    from ascribo.attribution.unique_variance import design, score
    from ascribo.data import standardised_channels
    from ascribo.model import fitting
    from ascribo.screening import space_tests

    torch.set_num_threads(1)
    quick = form == "quick"
    if quick:  # as large a part of 200 MB as 100,000 steps are of 10 GB, and as those not a short recording
        fitting.DECODED = design.MOST_TIME_STEPS = space_tests.MOST_TIME_STEPS = 5_200
        score.MOST_TRAINING_STEPS = 30
    spaces = {"x": asc.Follow("x", dim=2), "rest": asc.Time(dim=2)}
    model = asc.ContrastiveEmbedding(
        spaces, seeds=1 if quick else 2, steps=40 if quick else 300, penalty=0.01, random_state=0, progress=False,
        encoder=asc.MLP((64, 64)) if quick else "mlp",
    )  # fmt: skip
    if quick:  # everything is imported and every pool of threads is there before memory is counted
        small = asc.simulate.box(0, observed=1, hidden=1, channels=(10, 10), steps=2000)
        with tempfile.TemporaryFile() as file:
            np.save(file, small.X)
            file.seek(0)
            mapped = asc.Recording(
                np.memmap(file, np.float32, "r", offset=128, shape=small.X.shape), small.variables
            )
            large, standardised_channels.LARGE_BYTES = standardised_channels.LARGE_BYTES, 0
            model.fit(mapped).attribute(mapped)
            standardised_channels.LARGE_BYTES = large
    before = private_memory("VmData") if quick else 0
    limit = before + 150_000_000 if quick else 4_000_000_000
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    took: dict[str, float] = {}
    peak = Peak()
    clock = time.perf_counter()

    def lap(name: str) -> None:
        nonlocal clock
        took[name], clock = round(time.perf_counter() - clock, 1), time.perf_counter()

    X = np.memmap(path, np.float32, "r", shape=(int(steps), int(channels)))
    x = np.load(Path(path).with_suffix(".npy"))
    recording = asc.Recording(X, {"x": x}, epochs=np.arange(len(x)) * 10 // len(x))
    lap("recording")
    model.fit(recording)
    lap("fit")
    embedding = model.transform(recording)
    lap("transform")
    assert embedding.shape == (len(x), 4) and np.isfinite(embedding).all()
    assert np.isfinite(model.score(recording))
    maps = model.attribute(recording)
    lap("unique_variance")
    samples = 20 if quick else 2000
    for method in ("generative_gradient", "inverted_neuron_gradient", "shapley_shuffled"):
        gradient = model.attribute(recording, method=method, samples=samples)
        assert np.isfinite(gradient.by_space).all()
        lap(method)
    truth = np.arange(int(channels)) < int(channels) // 2
    bits = float(model.goodness_of_fit_.bits.min())
    found = {"limit": limit - before, "peak": peak.stop(), "auroc": maps.auroc(truth, "x"), "bits": bits}
    print(json.dumps({**found, "seconds": took}))


def private_memory(field: str) -> int:
    """Bytes by a field of the kernel's: VmData is what the limit counts, RssAnon what is really in memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(f"{field}:")).split()[1])


class Peak:
    """The most private memory that was in use, looked at every few milliseconds."""

    def __init__(self):
        self.most, self.going = 0, True
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self) -> None:
        while self.going:
            self.most = max(self.most, private_memory("RssAnon"))
            time.sleep(0.02)

    def stop(self) -> int:
        self.going = False
        self.thread.join()
        return self.most


if __name__ == "__main__":
    main(*sys.argv[1:])
