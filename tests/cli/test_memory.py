"""`--memory` on the command line: kept to, or refused before the work."""

import numpy as np
import pytest

import ascribo as asc
from ascribo.cli.main import main

QUICK = ["--seeds", "1", "--steps", "20", "--batch-size", "64", "--quiet"]


@pytest.fixture
def file(tmp_path):
    data = asc.simulate.box(0, observed=1, hidden=1, channels=(4, 4), steps=2000)
    np.savez(tmp_path / "data.npz", X=data.X, x=data.variables["x"].to_numpy())
    return tmp_path / "data.npz"


def test_every_command_takes_it(file, tmp_path, capsys):
    run, fit = tmp_path / "run", ["fit", str(file), "--follow", "x=x:1", "--time", "rest:1", *QUICK]
    assert main([*fit, "--memory", "1GB", "--out", str(run)]) == 0
    assert asc.load(run).memory is None  # it was for this fit
    rest = ["--quiet", "--memory", "1GB"]
    assert main(["attribute", str(run), "--out", str(tmp_path / "map.nc"), *rest]) == 0
    assert main(["report", str(run), "--out", str(tmp_path / "report.html"), *rest]) == 0
    assert main(["screen", str(file), "--follow", "x=x:1", *rest]) == 0
    assert main(["analyse", str(file), "--out", str(tmp_path / "all"), "--seeds", "1", "--steps", "20", *rest]) == 0


@pytest.mark.parametrize(
    "words",
    [
        ["fit", "--follow", "x=x:1", *QUICK],
        ["screen", "--follow", "x=x:1", "--quiet"],
        ["analyse", "--quiet", "--seeds", "1", "--steps", "20"],
    ],
)
def test_too_little_is_refused(file, tmp_path, capsys, words):
    out = tmp_path / ("calls.csv" if words[0] == "screen" else "run")
    given = [words[0], str(file), *words[1:], "--out", str(out)]
    assert main([*given, "--memory", "1MB"]) != 0
    assert "memory='1MB' is too little" in capsys.readouterr().err
    assert main([*given, "--memory", "two"]) != 0
    assert "expected a size such as '2GB'" in capsys.readouterr().err
    if words[0] == "analyse":
        assert main([*given, "--memory", "1GB", "--shifts", "3"]) != 0
        assert "--shifts does not keep to a budget" in capsys.readouterr().err
