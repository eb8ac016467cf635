"""Run folders of every format that was ever written: each is read, and gives the numbers it gave when it was new.

The folders are written by the version that had the format, never again. A new format gets a new folder here.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import ascribo as asc
from ascribo.model.run_folder import FORMAT, READABLE

GOLDEN = Path(__file__).parent / "golden"


def test_every_format_that_can_be_read_has_a_folder():
    assert {int(folder.name.removeprefix("format-")) for folder in GOLDEN.iterdir()} == set(READABLE)
    assert FORMAT in READABLE


@pytest.mark.parametrize("number", READABLE)
def test_a_folder_gives_the_numbers_it_gave(number):
    folder, before = GOLDEN / f"format-{number}", {}
    for file in folder.rglob("*"):
        before[file] = file.stat().st_mtime_ns
    assert json.loads((folder / "run/model.json").read_text())["format"] == number
    expected = np.load(folder / "expected.npz")
    model = asc.load(folder / "run")
    np.testing.assert_allclose(model.transform(expected["X"]), expected["run"], atol=1e-5)
    np.testing.assert_array_equal(model.goodness_of_fit_["bits"].astype(float), expected["bits"])
    assert model.penalty == asc.Ramp(0.1) and list(model.model_.spaces) == [
        *("position", "heading", "side", "guess", "rest")
    ]
    session = asc.load(folder / "sessions").sessions_["a"]
    np.testing.assert_allclose(session.transform(expected["X"][:, :3]), expected["a"], atol=1e-5)
    assert {file: file.stat().st_mtime_ns for file in folder.rglob("*")} == before  # nothing was written
