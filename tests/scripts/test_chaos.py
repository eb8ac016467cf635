"""The short form of `make chaos`."""

import json
import random
import runpy
import subprocess
import sys
from collections import Counter
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts/chaos.py"


def test_runs_that_are_killed_end_with_the_same_bits(tmp_path):
    words = [sys.executable, SCRIPT, "--kills", "3", "--seed", "1", "--out", tmp_path / "chaos.json"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    figures = json.loads((tmp_path / "chaos.json").read_text())
    assert figures["kills"] == sum(figures["killed while"].values()) >= 3 and figures["wrong"] == []
    assert figures["machine"]["cores"] >= 1 and len(figures["code"]["sha256"]) == 64
    assert {"fit: training", "fit: checkpoint", "sweep: sweeping"} <= figures["killed while"].keys()


def test_each_phase_has_its_share_of_the_kills():
    namespace = runpy.run_path(str(SCRIPT))
    for kills in (1, 3, 10, 100):
        drawn = namespace["shares"](kills, random.Random(0))
        assert len(drawn) == kills
    assert min(Counter(drawn).values()) >= 4 and Counter(drawn)["training"] > 20
