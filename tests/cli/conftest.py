"""A recording in a file and a model fitted to it by the command line."""

import numpy as np
import pandas as pd
import pytest

import ascribo as asc
from ascribo.cli.main import main

QUICK = ["--seeds", "1", "--steps", "60", "--batch-size", "64", "--jobs", "1"]
SPACES = ["--follow", "position=x,y", "--time", "rest:1"]


@pytest.fixture(scope="session")
def table(tmp_path_factory):
    """A .csv of ten channels, two variables, an angle, a label and an epoch."""
    data = asc.simulate.box(observed=2, hidden=1, channels=(5, 5), steps=900)
    frame = pd.DataFrame(data.X, columns=data.channel_names).join(data.variables)
    frame["angle"] = np.arctan2(frame["x"], frame["y"])
    frame["side"] = np.where(frame["x"] > 0, "left", "right")
    frame["trial"] = np.arange(len(frame)) // 300
    path = tmp_path_factory.mktemp("data") / "table.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="session")
def run(table, tmp_path_factory):
    """A finished run."""
    out = tmp_path_factory.mktemp("runs") / "fitted"
    assert main(["fit", str(table), "--channels", "channel*", *SPACES, *QUICK, "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="session")
def sessions(table, tmp_path_factory):
    """A saved model of two sessions, "left" and "[right]", with 4 and 6 channels; the first has a space more."""
    frame = pd.read_csv(table)
    parts = {
        "left": asc.Recording(frame[[f"channel{k}" for k in range(4)]], frame[["x", "y"]]),
        "[right]": asc.Recording(frame[[f"channel{k}" for k in range(4, 10)]], frame[["x"]]),
    }
    spaces = {"position": asc.Follow("x", 1), "height": asc.Follow("y", 1), "rest": asc.Time(1)}
    shared = asc.SharedEmbedding(
        spaces, seeds=1, steps=20, batch_size=32, penalty=0.0, encoder=asc.MLP((8,)), random_state=0, progress=False
    )
    return shared.fit(parts).save(tmp_path_factory.mktemp("runs") / "sessions")


@pytest.fixture
def fails(capsys):
    """What a failing command says on standard error: no traceback, and nothing on standard output."""

    def told(*argv, code=2):
        assert main([str(part) for part in argv]) == code
        said = capsys.readouterr()
        assert said.out == "" and "Traceback" not in said.err
        return said.err

    return told
