"""The demo, made small: everything it promises to write and to say."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pytest
import xarray as xr

import ascribo as asc
from ascribo.cli import demo
from ascribo.cli.main import main

TINY = dict(channels=(5, 5), steps=4000, training_steps=150, seeds=1)

pytestmark = pytest.mark.usefixtures("fair_unique_variance")


@pytest.fixture(scope="module")
def told(tmp_path_factory, fair_unique_variance):
    """What the command made, and what it said on standard output and on standard error."""
    made, out, err, whole = [], io.StringIO(), io.StringIO(), demo.run

    def run(*given, **options):
        made.append(whole(*given, **options, **TINY))
        return made[0]

    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(demo, "run", run)
        assert main(["demo", "--out", str(tmp_path_factory.mktemp("runs") / "demo")]) == 0
    return made[0], out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def made(told):
    return told[0]


def test_the_demo_finds_the_truth(made):
    assert made.auroc == {"position": 1.0}  # all channels carry the rest: it has no auROC
    calls = made.maps.calls().set_index(["channel", "space"])["called"].to_xarray()
    truth = made.recording.truth
    assert (calls.sel(channel=truth.channel, space=truth.space) == truth).all()
    assert not made.model.goodness_of_fit_["collapsed"].any()


def test_what_is_written_is_what_was_found(made):
    assert all(path.stat().st_size > 0 for path in made.files.values())
    recording = asc.read(made.files["recording"])
    np.testing.assert_array_equal(recording.X, made.recording.X)
    model = asc.load(made.files["model"].parent)
    np.testing.assert_array_equal(model.transform(recording), made.model.transform(made.recording))
    with xr.open_dataset(made.files["map"]) as maps:
        xr.testing.assert_allclose(maps["by_space"].load(), made.maps.by_space)
    assert made.files["figure"].read_bytes().startswith(b"\x89PNG")


def test_the_run_of_the_demo_is_a_run(made, tmp_path, capsys):
    folder = str(made.files["model"].parent)
    assert main(["attribute", folder, "--out", str(tmp_path / "maps.nc")]) == 0
    with xr.open_dataset(tmp_path / "maps.nc") as maps:
        xr.testing.assert_allclose(maps["by_space"].load(), made.maps.by_space)


def test_what_the_command_says(told):
    made, said, stages = told
    for stage in ("starting", "simulating 10 channels over 4,000 time steps", "fitting 1 model in", "attributing"):
        assert stage in stages
    rows = [line.split() for line in said.splitlines() if line.startswith("channel")]
    assert rows[0] == rows[11] == ["channel", "score", "ci_low", "ci_high", "q", "called", "truth"]
    for space, part in (("position", rows[1:11]), ("rest", rows[12:])):
        truth = {f"channel{k}": space == "rest" or k >= 5 for k in range(10)}
        assert {row[0]: "carries" in row for row in part} == truth
        assert {row[0]: "yes" in row for row in part} == truth
        assert all((float(row[4]) <= 0.05) == truth[row[0]] for row in part)
    assert "auROC against the truth, position: 1.000" in said
    assert "bits above chance" in said and "above chance" in said
    assert {path.name for path in made.files.values()} == {
        *("recording.npz", "model.json", "map.nc", "map.csv", "overview.png", "report.html"),
    }
    assert all(str(path) in said and path.is_file() for path in made.files.values())


def test_without_matplotlib_all_but_the_figure_is_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    small = {**TINY, "steps": 500, "training_steps": 50}
    files = demo.run(tmp_path, **small).files
    assert "no figure: " in (said := capsys.readouterr().err) and "ascribo[report]" in said
    assert "figure" not in files and all(path.is_file() for path in files.values()) and len(files) == 5


def test_a_file_in_the_way_is_left_alone(tmp_path, capsys):
    (tmp_path / "demo").write_text("mine")
    assert main(["demo", "--out", str(tmp_path / "demo")]) == 2
    assert "is a file" in capsys.readouterr().err and (tmp_path / "demo").read_text() == "mine"
