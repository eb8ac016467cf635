"""Sweeps through dask-jobqueue, by the code of docs/cluster.md: its job scripts, and a run with a made-up Slurm."""

import ast
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ascribo as asc

PAGE = Path(__file__).parents[2] / "docs/cluster.md"
CTRL_C = signal.getsignal(signal.SIGINT)
jobqueue = pytest.importorskip(
    "dask_jobqueue", reason="dask-jobqueue is not installed: pip install 'ascribo[cluster]'"
)
signal.signal(signal.SIGINT, CTRL_C)  # which the import sets to end the program: other tests press Ctrl-C
SMALL = {"seeds": 1, "steps": 10, "batch_size": 32, "device": "cpu", "penalty": 0.1}
SBATCH = """#!/bin/sh
# A queue of one machine: a job begins at once, as a group of processes.
cp "$1" "$FAKE_QUEUE/$$.sh"
setsid bash "$FAKE_QUEUE/$$.sh" > "$FAKE_QUEUE/$$.log" 2>&1 &
echo $! >> "$FAKE_QUEUE/jobs"
echo "Submitted batch job $!"
"""
SCANCEL = """#!/bin/sh
kill -- "-$1"
"""


def example():
    """The code of the page."""
    (code,) = (c for c in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "dask_jobqueue" in c)
    return code


def arguments():
    """What the page gives to a cluster."""
    calls = [node for node in ast.walk(ast.parse(example())) if isinstance(node, ast.Call)]
    (call,) = (node for node in calls if isinstance(node.func, ast.Name) and node.func.id == "SLURMCluster")
    return {word.arg: ast.literal_eval(word.value) for word in call.keywords}


@pytest.mark.parametrize(
    ("queue", "changes", "header"),
    [
        (
            "SLURMCluster",
            {},
            ["#SBATCH -p short", "#SBATCH --cpus-per-task=1", "#SBATCH --mem=4G", "#SBATCH -t 04:00:00"],
        ),
        ("PBSCluster", {}, ["#PBS -q short", "#PBS -l select=1:ncpus=1:mem=3815MB", "#PBS -l walltime=04:00:00"]),
        (
            "LSFCluster",
            {"walltime": "04:00"},
            ["#BSUB -q short", "#BSUB -n 1", "#BSUB -M 4000000", "#BSUB -W 04:00"],
        ),
    ],
)
def test_job_scripts_say_what_the_page_says(queue, changes, header):
    given = {**arguments(), **changes}
    assert all(f'{name}="{value}"' in PAGE.read_text() for name, value in changes.items())
    assert queue in example()
    with getattr(jobqueue, queue)(**given, scheduler_options={"dashboard_address": None}) as cluster:
        script, address = cluster.job_script(), cluster.scheduler_address
    lines = script.splitlines()
    assert lines[0].startswith("#!/") and set(header) <= set(lines), script
    assert [lines.index(line) for line in given["job_script_prologue"]] == [len(lines) - 3, len(lines) - 2]
    assert f"distributed.cli.dask_worker {address} " in lines[-1] and sys.executable in lines[-1]
    assert "--nthreads 1 " in lines[-1] and "--memory-limit 3.73GiB" in lines[-1]


@pytest.fixture
def slurm(tmp_path):
    """The surroundings of a machine with a `sbatch`; what it started is ended."""
    queue = tmp_path / "queue"
    queue.mkdir()
    for name, text in (("sbatch", SBATCH), ("scancel", SCANCEL)):
        (queue / name).write_text(text)
        (queue / name).chmod(0o755)
    paths = {"PATH": f"{queue}:{os.environ['PATH']}", "PYTHONPATH": ":".join(filter(None, sys.path))}
    yield {
        **os.environ,
        **paths,
        "FAKE_QUEUE": str(queue),
        "DASK_DISTRIBUTED__SCHEDULER__DASHBOARD__ENABLED": "false",
    }
    for job in (queue / "jobs").read_text().split() if (queue / "jobs").exists() else ():
        subprocess.run(["kill", "--", f"-{job}"], stderr=subprocess.DEVNULL)


@pytest.mark.skipif(sys.platform != "linux", reason="jobs are started by setsid")
def test_the_code_of_the_page_sweeps_through_slurm(slurm, tmp_path):
    (tmp_path / "sessions").mkdir()
    for k in range(3):
        data = asc.simulate.box(k, observed=2, hidden=1, channels=(3, 3), steps=300)
        np.savez(tmp_path / f"sessions/rat{k}.npz", X=data.X, **data.variables[["x", "y"]])
    code, small = example(), ", ".join(f"{name}={value!r}" for name, value in SMALL.items())
    for page, here in {"seeds=2": small, "jobs=100": "jobs=2", ".nwb": ".npz", "/path/to/venv": sys.prefix}.items():
        assert code.count(page) == 1
        code = code.replace(page, here)
    (tmp_path / "example.py").write_text(code)
    words = [sys.executable, "example.py"]
    done = subprocess.run(words, env=slurm, cwd=tmp_path, capture_output=True, text=True, timeout=400)
    said = done.stdout + done.stderr + "".join(log.read_text() for log in (tmp_path / "queue").glob("*.log"))
    assert done.returncode == 0, said
    found = asc.Sweep(tmp_path / "runs/sweep")
    assert repr(found) == "Sweep(3 cells: 3 done)" and said.count("Registered to") >= 2, said
    model = asc.ContrastiveEmbedding(found.model("rat0").spaces, random_state=0, **SMALL)
    alone = asc.sweep(tmp_path / "sessions", model, tmp_path / "alone", progress=False)
    assert weights(alone.folder) == weights(found.folder)


def weights(folder):
    """Digest of the weights of every cell, by its name."""
    return {file.parent.name: json.loads(file.read_text())["sha256"] for file in folder.glob("*/model.json")}
