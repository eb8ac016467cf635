"""`ascribo reproduce` finds the experiments of a checkout, and says where they are from anywhere else."""

import os
import subprocess
import sys
from pathlib import Path

from ascribo.cli import reproduce

CHECKOUT = Path(__file__).parents[2]


def ascribo(*argv, folder, cwd):
    """The command in a process that finds the package in `folder` alone."""
    command = [sys.executable, "-m", "ascribo", *argv]
    env = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True)


def test_an_installed_package_is_no_checkout(tmp_path):
    site = tmp_path / "src"  # even a folder of that name is no checkout
    (tmp_path / "experiments").mkdir()
    (site / "lib").mkdir(parents=True)
    (site / "lib" / "ascribo").symlink_to(CHECKOUT / "src" / "ascribo")
    done = ascribo("reproduce", "--help", folder=site / "lib", cwd=tmp_path)
    assert done.returncode == 0 and "usage: ascribo reproduce" in done.stdout
    assert "experiments:" not in done.stdout and "table1" not in done.stdout


def test_a_checkout_is_found_from_any_folder(tmp_path):
    done = ascribo("reproduce", "--help", folder=CHECKOUT / "src", cwd=tmp_path)
    assert done.returncode == 0 and "table1-batches" in done.stdout


def test_experiments_come_with_their_description():
    known = reproduce.known_experiments()
    assert known["box"].startswith("which channels carry") and "lambda" in known
    assert reproduce.find_experiment("lambda").__name__ == "experiments.regcl.penalties"
