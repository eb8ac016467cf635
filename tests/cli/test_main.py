"""The command line: exit codes, messages, and what it leaves on disk."""

import json
import os
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import ascribo as asc
from ascribo.cli import info
from ascribo.cli.main import main
from ascribo.spaces.pairs import Pairs
from ascribo.training import loop as training

QUICK = ["--seeds", "1", "--steps", "60", "--batch-size", "64", "--jobs", "1"]
SPACES = ["--follow", "position=x,y", "--time", "rest:1"]

pytestmark = pytest.mark.usefixtures("quick_unique_variance")


# fit


def test_fit_writes_a_model_and_nothing_else(run, capsys):
    model = asc.load(run)
    assert {name: space.dim for name, space in model.spaces.items()} == {"position": 2, "rest": 1}
    assert model.checkpoint is None
    assert sorted(path.suffix for path in run.iterdir()) == [".json", ".safetensors"]


def test_fit_says_how_well_it_fits(table, tmp_path, capsys):
    out = tmp_path / "new" / "run"
    assert main(["fit", str(table), "--channels", "channel*", *SPACES, *QUICK, "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "position" in said and "bits above chance" in said and said.rstrip().endswith(f"model: {out}")


def test_every_option_arrives(table, tmp_path):
    out = tmp_path / "run"
    options = [
        "--follow",
        "heading=angle",
        "--circular",
        "angle",
        "--period",
        "6.2831853",
        "--discrete",
        "side=side:2",
    ]
    options += ["--regress", "baseline=x,y", "--time", "rest:3", "--hybrid", "separate", "--penalty", "0.01"]
    options += ["--encoder", "convolution:3", "--random-state", "5", "--device", "cpu", "--channels", "channel*"]
    assert main(["fit", str(table), *options, *QUICK, "--epochs", "trial", "--out", str(out)]) == 0
    model = asc.load(out)
    assert model.spaces == {
        "heading": asc.Follow("angle", dim=2, circular=True, period=6.2831853),
        "side": asc.Discrete("side", dim=2),
        "baseline": asc.Regress(["x", "y"]),
        "rest": asc.Time(dim=3),
    }
    got = {name: getattr(model, name) for name in ("hybrid", "penalty", "random_state", "device", "steps", "seeds")}
    assert got == dict(hybrid="separate", penalty=0.01, random_state=5, device="cpu", steps=60, seeds=1)
    assert model.encoder == asc.Convolution(window=3) and model.batch_size == 64


def test_arrays_and_constant_channels(tmp_path, capsys, fails):
    rng = np.random.default_rng(0)
    X, path = rng.normal(size=(300, 4)), tmp_path / "arrays.npz"
    X[:, 2] = 1.0
    np.savez(path, spikes=X, xy=rng.normal(size=(300, 2)))
    command = ["fit", path, *SPACES, *QUICK, "--out", tmp_path / "run"]
    assert "channel2" in fails(*command)
    assert main([str(part) for part in (*command, "--drop-constant")]) == 0
    capsys.readouterr()
    assert main(["info", str(tmp_path / "run"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["dropped_channels"] == ["channel2"] and len(facts["channels"]) == 3


def test_new_data_are_treated_like_those_of_the_fit(table, tmp_path, capsys):
    frame = pd.read_csv(table)
    frame["time"] = np.arange(len(frame)) * 0.1
    frame.to_csv(tmp_path / "one.csv", index=False)
    later = frame[frame.columns[::-1]].copy()
    later["channel3"] += 5.0  # a z-score of its own would take that away
    later.to_csv(tmp_path / "two.csv", index=False)
    options = ["--channels", "channel*", "--smooth", "0.15", "--transform", "zscore", "--nuisance", "rest"]
    run = tmp_path / "run"
    assert main(["fit", str(tmp_path / "one.csv"), *SPACES, *options, *QUICK, "--out", str(run)]) == 0
    model = asc.load(run)
    assert model.spaces["rest"].nuisance and not model.spaces["position"].nuisance
    channels = [name for name in frame if name.startswith("channel")]
    data = asc.Recording(later[channels], later[["x", "y"]], epochs=later["trial"], time=later["time"])
    expected = model.attribute(data.treat(model.model_.treatment), method="neuron_gradient").by_space
    command = ["attribute", run, "--data", tmp_path / "two.csv", "--out", tmp_path / "maps.nc"]
    assert main([str(part) for part in (*command, "--method", "neuron_gradient")]) == 0
    with xr.open_dataset(tmp_path / "maps.nc") as maps:
        np.testing.assert_allclose(
            maps["by_space"].sel(space="position"), expected.sel(space="position"), rtol=1e-5
        )
    capsys.readouterr()
    assert main(["info", str(run)]) == 0
    assert "treatment: smoothed over 0.15 s, z-score" in capsys.readouterr().out


def test_units_of_an_nwb_file_are_counted_in_bins(tmp_path, fails):
    pynwb = pytest.importorskip("pynwb", reason="needs the extra neuro")
    rng, path, run = np.random.default_rng(0), tmp_path / "rat.nwb", tmp_path / "run"
    file = pynwb.NWBFile("a session", "one", datetime(2024, 1, 1, tzinfo=UTC))
    for _ in range(3):
        file.add_unit(spike_times=np.sort(rng.uniform(0, 60, 300)))
    place = pynwb.behavior.Position()
    walk = np.cumsum(rng.normal(size=(601, 2)), axis=0)
    place.create_spatial_series("SpatialSeries", data=walk, rate=10.0, reference_frame="?")
    file.create_processing_module("behavior", "what it does").add(place)
    with pynwb.NWBHDF5IO(str(path), "w") as io:
        io.write(file)
    command = ["fit", path, "--follow", "position=Position0,Position1", "--variables", "Position", *QUICK]
    assert "bin_size" in fails(*command, "--out", run)
    assert main([str(part) for part in (*command, "--bin-size", "0.1", "--transform", "sqrt", "--out", run)]) == 0
    assert asc.load(run).model_.treatment == asc.Treatment(bin_size=0.1, transform="sqrt", counts_events=True)
    maps = tmp_path / "maps.csv"
    # the spikes have nothing to do with the place: there is nothing to map, and nothing is called
    assert main(["attribute", str(run), "--method", "neuron_gradient", "--out", str(maps)]) == 2
    assert main(["attribute", str(run), "--out", str(maps)]) == 0
    assert len(table := pd.read_csv(maps)) == 3 and not table["called"].any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--follow", "position=x", "--nuisance", "positon"], "did you mean 'position'"),
        (["--time", "rest:1", "--bin-size", "0.1"], "shorter than the interval between samples"),
        (["--follow", "position=x,q"], "'q'"),
        (["--follow", "position=x", "--circular", "anlge"], "--circular anlge"),
        (["--follow", "position=x", "--period", "360"], "--period 360"),
        (["--follow", "a=x", "--time", "a:2"], "two spaces are called 'a'"),
        (["--time", "rest:0"], "dim"),
        (["--time", "rest:1", "--steps", "0"], "steps=0"),
        (["--time", "rest:1", "--encoder", "mpl"], "encoder='mpl'"),
        (["--time", "rest:1", "--device", "abacus"], "device='abacus'"),
        (["--time", "rest:1", "--epochs", "trail"], "did you mean 'trial'"),
        (["--time", "rest:1", "--channels", "cell*"], "no column begins with 'cell'"),
        ([], "--follow, --time, --discrete, --regress"),
    ],
)
def test_bad_input_is_refused_and_leaves_nothing(table, tmp_path, fails, options, message):
    out = tmp_path / "deep" / "run"
    assert message in fails("fit", table, *options, "--out", out)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "wrong",
    [
        *(["--follow", "x,y"], ["--follow", "position="], ["--follow", "position=x:"], ["--time", "rest"]),
        *(["--time", "rest=3"], ["--discrete", "a=side"], ["--discrete", "a=side,x:2"], ["--regress", "a=x:1"]),
    ],
)
def test_a_malformed_space_is_wrong_usage(table, tmp_path, fails, wrong):
    assert "is not of the form NAME" in fails("fit", table, *wrong, "--out", tmp_path / "run")


@pytest.mark.parametrize(
    "argv",
    [
        *([], ["fly"], ["fit"], ["reproduce", "bx"], ["fit", "a.csv", "--out", "b", "--penalty", "much"]),
        *(
            ["attribute", "r", "--out", "m.nc", part, bad]
            for part, bad in (("--method", "guess"), ("--samples", "0"), ("--loss", "absolute"))
        ),
    ],
)
def test_wrong_usage(argv, fails):
    assert "usage: ascribo" in fails(*argv)


def test_an_unknown_experiment_is_answered_with_the_known_ones(fails):
    assert "box" in fails("reproduce", "bx")


def test_a_missing_or_damaged_file(tmp_path, fails):
    assert "no such file" in fails("fit", tmp_path / "a.csv", *SPACES, "--out", tmp_path / "run")
    (tmp_path / "b.npz").write_bytes(b"not a zip file")
    assert "damaged" in fails("fit", tmp_path / "b.npz", *SPACES, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_out_may_not_be_a_file(table, tmp_path, fails):
    (tmp_path / "run").write_text("mine")
    assert "is a file" in fails("fit", table, *SPACES, "--out", tmp_path / "run")
    assert (tmp_path / "run").read_text() == "mine"


def interrupted(monkeypatch, error):
    """Make training write a checkpoint after its first chunk and then fail."""
    write = training.write_checkpoint

    def write_and_stop(*arguments):
        write(*arguments)
        raise error

    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", -1.0)
    monkeypatch.setattr(training, "write_checkpoint", write_and_stop)


def test_an_interrupted_fit_goes_on_to_the_same_model(run, table, tmp_path, capsys, monkeypatch):
    out = tmp_path / "run"
    command = ["fit", str(table), "--channels", "channel*", *SPACES, *QUICK, "--out", str(out)]
    with monkeypatch.context() as patched:
        interrupted(patched, KeyboardInterrupt)
        assert main(command) == 130
    assert [path.name for path in out.iterdir()] == [".checkpoint"]
    drawn = []
    draw = Pairs.draw
    monkeypatch.setattr(Pairs, "draw", lambda *given: drawn.append(given[2]) or draw(*given))
    assert main(command) == 0
    assert drawn[0] == 10  # the last chunk of 60 steps; the first 50 were not done again
    assert not (out / ".checkpoint").exists()
    assert (
        json.loads((out / "model.json").read_text())["sha256"]
        == json.loads((run / "model.json").read_text())["sha256"]
    )


def test_a_checkpoint_of_another_model_is_kept(table, tmp_path, capsys, monkeypatch, fails):
    out = tmp_path / "run"
    command = ["fit", table, "--channels", "channel*", *SPACES, *QUICK, "--out", out]
    with monkeypatch.context() as patched:
        interrupted(patched, KeyboardInterrupt)
        assert main([str(part) for part in command]) == 130
    capsys.readouterr()
    assert "belongs to another model" in fails(*command, "--hybrid", "separate")
    assert list((out / ".checkpoint").iterdir())


def test_a_failed_fit_leaves_nothing_behind(table, tmp_path, fails, monkeypatch):
    interrupted(monkeypatch, FloatingPointError("the loss became infinite"))
    out = tmp_path / "deep" / "run"
    command = ("fit", table, "--channels", "channel*", *SPACES, *QUICK, "--out", out)
    assert "the loss became infinite" in fails(*command, code=1)
    assert list(tmp_path.iterdir()) == []


def test_files_of_others_are_left_alone(table, tmp_path, fails):
    command = ["fit", table, "--channels", "channel*", *SPACES, *QUICK, "--out"]
    taken, shared = tmp_path / "taken", tmp_path / "shared"
    taken.mkdir()
    (taken / "model.json").write_text("mine")
    said = fails(*command, taken)
    assert "model.json that ascribo did not write" in said and "fitting" not in said, "refused before the work"
    (shared / ".checkpoint").mkdir(parents=True)
    (shared / ".checkpoint" / "notes.txt").write_text("mine")
    assert main([str(part) for part in (*command, shared)]) == 0
    assert (shared / ".checkpoint" / "notes.txt").read_text() == "mine"


def test_what_nobody_expected_has_a_traceback_and_its_own_code(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(info, "read_run", lambda run: 1 / 0)
    assert main(["info", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert "ZeroDivisionError" in said.err and said.out == ""


# attribute


def test_attribute_gives_the_map_of_the_model(run, table, tmp_path, capsys):
    recording = asc.read(table, channels="channel*", variables=["x", "y"])
    expected = asc.load(run).attribute(recording, method="neuron_gradient", samples=100)
    options = ["--method", "neuron_gradient", "--samples", "100"]
    for name in ("maps.nc", "maps.csv"):
        assert main(["attribute", str(run), "--out", str(tmp_path / name), *options]) == 0
        assert str(tmp_path / name) in capsys.readouterr().out
    with xr.open_dataset(tmp_path / "maps.nc") as written:
        xr.testing.assert_allclose(written["by_space"].load(), expected.by_space)
        assert written.attrs["method"] == "neuron_gradient"
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "maps.csv"), expected.to_frame())


def test_attribute_gives_calls(run, table, tmp_path, capsys):
    """Without a method: who carries what, with intervals and q-values, on paper as in the file."""
    recording = asc.read(table, channels="channel*", variables=["x", "y"])
    expected = asc.load(run).attribute(recording)
    assert main(["attribute", str(run), "--out", str(tmp_path / "maps.csv")]) == 0
    said = capsys.readouterr().out
    written = pd.read_csv(tmp_path / "maps.csv")
    pd.testing.assert_frame_equal(written, expected.to_frame(), rtol=1e-6)
    assert {"channel", "space", "score", "ci_low", "ci_high", "q", "called"} <= set(written)
    calls = expected.calls().set_index(["space", "channel"])
    space, seen = None, set()
    for line in said.splitlines():
        words = line.split()
        if line.startswith("Who carries"):
            space = words[2].removesuffix("?")
            assert f"{calls.loc[space, 'called'].sum()} of 10 channels called" in line
        elif words[:2] == ["channel", "score"]:
            assert words == ["channel", "score", "ci_low", "ci_high", "q", "called"]
        elif line.startswith("channel"):
            row = calls.loc[space, words[0]]
            assert words[1:] == [
                *(f"{row['score']:.3f}", f"{row['ci_low']:.3f}", f"{row['ci_high']:.3f}"),
                *(f"{row['q']:.2g}", "yes" if row["called"] else "no"),
            ]
            seen.add((space, words[0]))
    assert seen == set(calls.index)
    assert main(["attribute", str(run), "--out", str(tmp_path / "maps.nc")]) == 0
    with xr.open_dataset(tmp_path / "maps.nc") as maps:
        xr.testing.assert_allclose(maps["by_space"].load(), expected.by_space)
        assert maps["blocks"].dims == ("seed", "space", "channel", "block")


@pytest.mark.parametrize("method", [m for m in asc.attribution.METHODS if m != "unique_variance"])
def test_every_method_can_be_asked_for(run, tmp_path, capsys, method):
    out = tmp_path / "maps.csv"
    assert main(["attribute", str(run), "--out", str(out), "--method", method, "--samples", "5"]) == 0
    assert list(pd.read_csv(out)) == ["channel", "space", "score", "z"]
    assert "Who carries position (x, y)? The strongest first" in capsys.readouterr().out


def test_counts_have_their_own_loss(run, table, tmp_path, fails):
    command = ["attribute", str(run), "--out", str(tmp_path / "maps.nc"), "--loss", "poisson"]
    assert "is for counts" in fails(*command)
    assert "predicts nothing" in fails(*command, "--method", "tangent")
    frame = pd.read_csv(table)
    channels = [f"channel{k}" for k in range(10)]
    frame[channels] = np.random.default_rng(0).poisson(2.0, (900, 10))
    frame.to_csv(tmp_path / "counts.csv", index=False)
    assert main([*command, "--data", str(tmp_path / "counts.csv")]) == 0
    with xr.open_dataset(tmp_path / "maps.nc") as maps:
        assert maps["by_space"].attrs["loss"] == "poisson"


def test_data_that_moved_is_asked_for(run, table, tmp_path, fails, monkeypatch):
    away = tmp_path / "moved.csv"
    os.rename(table, away)
    try:
        command = ["attribute", str(run), "--out", str(tmp_path / "maps.nc")]
        said = fails(*command)
        assert str(table) in said and "--data" in said and not (tmp_path / "maps.nc").exists()
        assert main([*command, "--data", str(away)]) == 0
    finally:
        os.rename(away, table)


def test_channels_are_matched_by_name(run, table, tmp_path, fails):
    frame = pd.read_csv(table)
    frame[frame.columns[::-1]].to_csv(tmp_path / "turned.csv", index=False)
    frame.rename(columns={"channel3": "chanel3"}).to_csv(tmp_path / "other.csv", index=False)
    command = ["attribute", run, "--data", tmp_path / "other.csv", "--out", tmp_path / "maps.csv"]
    assert "'channel3'" in fails(*command) and not (tmp_path / "maps.csv").exists()
    maps = []
    for data in (table, tmp_path / "turned.csv"):
        assert main(["attribute", str(run), "--data", str(data), "--out", str(tmp_path / "maps.csv")]) == 0
        maps.append(pd.read_csv(tmp_path / "maps.csv"))
    pd.testing.assert_frame_equal(*maps)


def test_a_model_saved_from_python_asks_for_the_data(run, table, tmp_path, fails):
    asc.load(run).save(tmp_path / "run")
    assert "--data" in fails("attribute", tmp_path / "run", "--out", tmp_path / "maps.nc")


def test_attribute_refuses_other_endings_and_other_folders(run, tmp_path, fails):
    assert ".nc" in fails("attribute", run, "--out", tmp_path / "maps.xlsx")
    assert "not a finished ascribo run" in fails("attribute", tmp_path, "--out", tmp_path / "maps.nc")
    assert list(tmp_path.iterdir()) == []


def test_memory_that_is_not_there_is_said_in_words(table, tmp_path, monkeypatch, capsys):
    def read(*given, **options):
        raise MemoryError("Unable to allocate 582. TiB for an array")

    monkeypatch.setattr("ascribo.cli.reading.read", read)
    assert main(["fit", str(table), *SPACES, *QUICK, "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert "not enough memory (Unable to allocate 582. TiB for an array). Use longer bins" in said
    assert "Traceback" not in said
