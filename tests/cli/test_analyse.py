"""`ascribo analyse`: what is assumed of the variables of a file, and all that comes of it."""

import json

import numpy as np
import pandas as pd
import pytest

import ascribo as asc
from ascribo.cli.longer_bins import average_in_bins
from ascribo.cli.main import main
from ascribo.cli.proposed_spaces import angle_period, propose_spaces
from ascribo.support.files import only_writer
from ascribo.training import dispatch, loop

pytestmark = pytest.mark.usefixtures("quick_unique_variance")
QUICK = ["--seeds", "1", "--steps", "30", "--jobs", "1"]


def test_from_a_table_to_the_report(table, tmp_path, capsys):
    out = tmp_path / "run"
    argv = ["analyse", table, "--channels", "channel*", "--follow", "x", "--follow", "y", "--follow", "angle"]
    assert main([*map(str, argv), "--follow", "side", "--out", str(out), *QUICK]) == 0
    said = capsys.readouterr().out
    assert "x, y belong together: they are one space, 'xy'." in said and "'side' holds labels (2 of them)." in said
    assert "'angle' is an angle in radians" in said and str(out / "report.html") in said
    page = (out / "report.html").read_text()
    assert "What was assumed" in page and "&#39;side&#39; holds labels" in page
    assert (pd.read_csv(out / "calls.csv")["space"].unique() == ["xy", "angle", "side", "rest"]).all()
    assert list(asc.load(out).model_.spaces) == ["xy", "angle", "side", "rest"]
    assert main(["report", str(out)]) == 0  # the run knows its recording and its map


def test_what_cannot_be_followed_is_said(table, tmp_path, fails):
    told = fails("analyse", table, "--channels", "channel*", "--follow", "sied", "--out", tmp_path / "run")
    assert "--follow sied" in told and "did you mean 'side'" in told and not (tmp_path / "run").exists()


@pytest.fixture
def plain_table(tmp_path):
    """Ten units that follow x or the side, as a newcomer's table has them: nothing says which column is what."""
    rng = np.random.default_rng(0)
    x, side = np.cumsum(rng.normal(size=600)), np.repeat(["left", "right", "left"], 200)
    X = rng.normal(size=(600, 10)) + np.where(np.arange(10) < 5, x[:, None] / 10, 2.0 * (side == "left")[:, None])
    columns = {"time": np.arange(600) / 10, "x": x, "side": side}
    file = tmp_path / "plain.csv"
    pd.DataFrame({**columns, **{f"unit_{k}": X[:, k] for k in range(10)}}).to_csv(file, index=False)
    return file


@pytest.mark.parametrize(
    ("options", "spaces"),
    [
        ([], ["x", "side", "rest"]),
        (["--follow", "side"], ["side", "rest"]),
        (["--channels", "unit_*"], ["x", "side", "rest"]),
    ],
)
def test_numbered_columns_of_a_table_are_the_channels_and_all_others_variables(
    plain_table, tmp_path, capsys, options, spaces
):
    out = tmp_path / "run"
    assert main(["analyse", str(plain_table), *options, "--out", str(out), "--quiet", *QUICK]) == 0
    said = capsys.readouterr().out
    assert "10 channels over 600 time steps." in said and "'side' holds labels (2 of them)." in said
    if not options:
        assert "The channels are the columns unit and a number (10); x, side are variables." in said
    model = asc.load(out)
    assert list(model.model_.spaces) == spaces and model.channel_names_ == [f"unit_{k}" for k in range(10)]
    assert main(["report", str(out), "--quiet"]) == 0  # the run knows what is what


def test_a_table_without_numbered_columns_says_that_all_are_channels(tmp_path, capsys):
    hidden = np.cumsum(np.random.default_rng(0).normal(size=(600, 4)), axis=0) % 10  # moves smoothly in time
    pd.DataFrame(hidden, columns=list("abcd")).to_csv(tmp_path / "t.csv", index=False)
    assert main(["analyse", str(tmp_path / "t.csv"), "--out", str(tmp_path / "run"), "--quiet", *QUICK]) == 0
    assert "Every column of numbers is a channel: --follow names the variables." in capsys.readouterr().out


def test_labels_as_text_in_a_file_of_arrays_are_variables(tmp_path):
    side, names = np.repeat(["left", "right"], 50), np.array([f"step {k}" for k in range(100)])
    np.savez(tmp_path / "s.npz", X=np.random.default_rng(0).normal(size=(100, 9)), side=side, names=names)
    recording = asc.read(tmp_path / "s.npz")
    assert list(recording.variables) == ["side", "names"]
    proposal = propose_spaces(recording)
    assert list(proposal.spaces) == ["side", "rest"]
    assert "'names' has 100 labels, too rare to compare: it was left out." in proposal.assumed


def variables(**columns):
    length = len(next(iter(columns.values())))
    return asc.Recording(np.random.default_rng(0).normal(size=(length, 9)), pd.DataFrame(columns))


def test_variables_are_chosen_by_what_they_begin_with():
    walk = np.cumsum(np.random.default_rng(0).normal(size=(400, 3)), axis=0)
    recording = variables(position0=walk[:, 0], position1=walk[:, 1], positional=walk[:, 2], dead=np.ones(400))
    proposal = propose_spaces(recording, ["position"])
    assert proposal.spaces["position"] == asc.Follow(["position0", "position1"], dim=2)
    assert list(proposal.spaces) == ["position", "rest"]
    assert any("'dead' never changes" in line for line in propose_spaces(recording).assumed)


@pytest.mark.parametrize("period", [360.0, 2 * np.pi])
def test_angles_are_recognised_by_their_jumps_or_their_name(period):
    rng = np.random.default_rng(0)
    turning = np.cumsum(rng.normal(0, 0.1, 5000)) * period / 6
    assert angle_period("v", turning % period) == period
    assert angle_period("v", (turning + period / 2) % period - period / 2) == period
    assert angle_period("head_direction", rng.uniform(0, period, 500)) == period
    assert angle_period("v", rng.uniform(0, period, 500)) == 0  # white noise in that range is no angle
    assert angle_period("v", np.abs(turning % (2 * period) - period)) == 0  # there and back, as in a box
    assert angle_period("heading", turning % period / 3) == 0  # a third of a turn


def test_few_channels_leave_no_room_for_the_rest():
    walk = np.cumsum(np.random.default_rng(0).normal(size=(400, 2)), axis=0)
    recording = asc.Recording(walk, {"x": walk[:, 0], "y": walk[:, 1]})
    assert list(propose_spaces(recording).spaces) == ["xy"]


@pytest.fixture
def fine(tmp_path):
    """A position that takes 400 time steps from place to place, in whole pixels: nothing in it is new."""
    rng = np.random.default_rng(2)
    places = np.round(np.interp(np.arange(20_000), np.arange(0, 20_400, 400), rng.uniform(0, 300, 51)))
    cells = np.exp(-((places[:, None] - [50, 150, 250]) ** 2) / 2000)
    X = np.concatenate([cells, np.zeros((20_000, 3))], axis=1) + rng.normal(size=(20_000, 6))
    np.savez(tmp_path / "fine.npz", X=X, place=places, time=np.arange(20_000) * 0.025)
    return tmp_path / "fine.npz"


def test_where_time_steps_are_too_short_to_ask_longer_ones_are_proposed(fine, tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["analyse", str(fine), "--out", str(out), "--quiet", *QUICK]) == 0
    said = capsys.readouterr().out
    assert "place: not decided." in said and "run it again with --bin-size 0.1." in said
    assert "run it again with --bin-size 0.1." in (out / "report.html").read_text()
    assert main(["analyse", str(fine), "--out", str(out), "--bin-size", "0.1", "--quiet", *QUICK]) == 0
    said = capsys.readouterr().out
    assert "5,000 time steps" in said and "Who carries place? 3 of 6" in said and "--bin-size" not in said
    assert main(["report", str(out), "--quiet"]) == 0  # it reads the recording in the same bins


def test_bins_do_not_cross_epochs_and_keep_labels():
    table = {"x": np.arange(10.0), "side": list("aaaaabbbbb")}
    time = np.r_[np.arange(5), 20 + np.arange(5)] / 10
    recording = asc.Recording(np.arange(10.0)[:, None], table, epochs=[0] * 5 + [1] * 5, time=time)
    longer = average_in_bins(recording, asc.Treatment(bin_size=0.2))
    assert longer.X.ravel().tolist() == [0.5, 2.5, 5.5, 7.5] and longer.epochs.tolist() == [0, 0, 1, 1]
    assert longer.variables["side"].tolist() == list("aabb")


@pytest.fixture(scope="module")
def whole(table, tmp_path_factory, quick_unique_variance):
    """An analysis that was not interrupted: its words but for the folder, and what came of it."""
    words = ["analyse", str(table), "--channels", "channel*", "--follow", "x", "--quiet", *QUICK, "--steps", "60"]
    out = tmp_path_factory.mktemp("whole") / "run"
    assert main([*words, "--out", str(out)]) == 0
    return words, results(out)


def results(out):
    return json.loads((out / "model.json").read_text())["sha256"], (out / "calls.csv").read_text()


def test_two_analyses_do_not_write_to_one_folder(whole, tmp_path, fails):
    out = tmp_path / "run"
    with only_writer(out):
        assert "is being written to by process" in fails(*whole[0], "--out", out)
        assert sorted(file.name for file in out.iterdir()) == [".lock"]


def test_an_analysis_that_was_interrupted_while_fitting_goes_on(whole, tmp_path, monkeypatch, capsys):
    class Told:
        def __enter__(self):
            return lambda: True

        def __exit__(self, *_):
            return None

    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(loop, "stops_cleanly", lambda folder: Told())
        assert main([*whole[0], "--out", str(out)]) == 130
    said = capsys.readouterr().err
    assert "stopped after 50 of at most 60 steps" in said and f"(ascribo resume {out})" in said
    assert list((out / ".checkpoint").glob("seeds-*"))
    assert main(["resume", str(out), "--quiet"]) == 0
    assert results(out) == whole[1] and not (out / ".checkpoint").exists() and not (out / ".lock").exists()


def test_an_analysis_that_was_interrupted_later_does_not_fit_again(whole, tmp_path, monkeypatch, capsys, fails):
    def interrupts(*_, **__):
        raise KeyboardInterrupt

    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(asc.ContrastiveEmbedding, "attribute", interrupts)
        assert main([*whole[0], "--out", str(out)]) == 130
    assert f"what is done is kept in {out} (ascribo resume {out})" in capsys.readouterr().err
    with monkeypatch.context() as patch:
        patch.setattr(dispatch, "_train_stack", lambda *_: pytest.fail("it was fitted again"))
        assert main(["resume", str(out), "--quiet"]) == 0
    assert results(out) == whole[1] and not (out / ".checkpoint").exists()
    capsys.readouterr()
    assert "no fit, analysis or sweep that was interrupted" in fails("resume", out)


@pytest.mark.parametrize("changes", [["--random-state", "1"], ["--follow", "y"]])
def test_another_analysis_in_the_folder_is_fitted(whole, tmp_path, changes):
    out = tmp_path / "run"
    assert main([*whole[0], "--out", str(out)]) == 0
    assert main([*whole[0], *changes, "--out", str(out)]) == 0
    assert results(out)[0] != whole[1][0]
