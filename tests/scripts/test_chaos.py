"""The short form of `make chaos`."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts/chaos.py"


def test_runs_that_are_killed_end_with_the_same_bits():
    done = subprocess.run([sys.executable, SCRIPT, "--kills", "3", "--seed", "1"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "killed while" in done.stdout
