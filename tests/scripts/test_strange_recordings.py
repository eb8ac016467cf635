"""The short form of `make strange`."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts/strange_recordings.py"


def test_strange_recordings_are_answered_or_refused_with_a_reason():
    command = [sys.executable, SCRIPT, "--recordings", "25", "--first", "1040"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert '"wrong": 0' in done.stdout and '"answered"' in done.stdout
