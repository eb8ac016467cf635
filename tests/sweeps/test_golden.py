"""Sweeps as earlier versions left them: they are read, and give the numbers that they gave. Never written again."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ascribo as asc
from ascribo.sweeps.cells import RECORD_FORMAT
from ascribo.sweeps.sweep import FORMAT

GOLDEN = Path(__file__).parent / "golden"
FOLDERS = sorted(GOLDEN.iterdir())


def test_the_present_formats_have_a_folder():
    newest = GOLDEN / f"format-{FORMAT}"
    assert json.loads((newest / "sweep.json").read_text())["format"] == FORMAT
    (record,) = (json.loads(file.read_text()) for file in newest.glob("*/cell.json"))
    assert record["format"] == RECORD_FORMAT


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_sweep_gives_the_numbers_it_gave(folder):
    before = {file: file.stat().st_mtime_ns for file in folder.rglob("*")}
    done = asc.Sweep(folder)
    expected = pd.read_csv(folder / "expected.csv")
    assert done.table()["state"].tolist() == ["done"]
    numbers = ["bits", "bits_low", "bits_high", "called", "channels"]
    np.testing.assert_allclose(done.table()[numbers].astype(float), expected[numbers].astype(float))
    assert done.model("rat").seeds == 1 and done.maps("rat").by_space.shape == (4, 1) and len(done.calls()) == 4
    assert {file: file.stat().st_mtime_ns for file in folder.rglob("*")} == before
