"""Same seed, same machine, same bits: whatever the number of processes and threads."""

import os
import subprocess
import sys

import pytest

CODE = """
import hashlib, sys
import pandas as pd
import ascribo as asc

def digest(*tables):
    return hashlib.sha256("".join(table.to_csv() for table in tables).encode()).hexdigest()[:12]

if __name__ == "__main__":
    data = asc.simulate.box(0, observed=2, hidden=2, channels=(20, 20), steps=2000)
    spaces = {"position": asc.Follow(["x", "y"], dim=2), "rest": asc.Time(dim=2)}
    model = asc.ContrastiveEmbedding(
        spaces, seeds=2, steps=50, random_state=0, device="cpu", n_jobs=int(sys.argv[1]), progress=False
    ).fit(data)
    maps = model.attribute(data)
    print(
        "embedding", digest(pd.DataFrame(model.transform(data))),
        "fit", digest(model.goodness_of_fit_),
        "map", digest(maps.by_space.to_dataframe("score")),
        "calls", digest(maps.calls()),
        "screen", digest(asc.screen(data, spaces).calls),
    )
"""


def test_processes_and_threads_change_nothing(tmp_path):
    if (os.cpu_count() or 1) < 2:
        pytest.skip("there is one core: nothing can be spread")
    script, found = tmp_path / "fit.py", {}
    script.write_text(CODE)
    for threads, jobs in (("1", "1"), ("2", "1"), ("1", "2"), ("2", "2")):
        own = {"PYTHONPATH": ":".join(filter(None, sys.path)), "OMP_NUM_THREADS": threads}
        own |= dict.fromkeys(("MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), threads)
        done = subprocess.run(
            [sys.executable, "-W", "ignore", script, jobs],
            env={**os.environ, **own},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found[f"{threads} threads, {jobs} processes"] = done.stdout
    assert len(set(found.values())) == 1, found
