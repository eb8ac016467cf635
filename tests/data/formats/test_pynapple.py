"""pynapple in, pynapple out: the same time stamps, epochs and metadata."""

import numpy as np
import pandas as pd
import pytest

import ascribo as asc
from ascribo.data.containers import as_recording
from ascribo.data.preprocessing import smooth

nap = pytest.importorskip("pynapple")

SUPPORT = nap.IntervalSet([0.0, 70.0], [60.0, 120.0])
RNG = np.random.default_rng(0)
PLACE = nap.Tsd(t=np.arange(0, 130, 0.04), d=np.abs(np.arange(0, 130, 0.04) % 10 - 5))


def spikes(units=6, seed=0):
    """Units that fire at places of their own, with gaps in their numbering."""
    rng = np.random.default_rng(seed)
    where = np.linspace(0, 5, units)
    fire = rng.random((len(PLACE), units)) < 0.9 * np.exp(-((PLACE.d[:, None] - where) ** 2))
    times = {3 * k + 1: nap.Ts(PLACE.t[fire[:, k]] + 0.01) for k in range(units)}
    about = {"region": ["CA1", "CA3"] * (units // 2), "depth": np.arange(units) / 10}
    return nap.TsGroup(times, SUPPORT, metadata=about)


@pytest.fixture(scope="module")
def group():
    return spikes()


def small(**options):
    spaces = {"place": asc.Follow("place", 1), "rest": asc.Time(1)}
    settings = {"seeds": 1, "steps": 150, "batch_size": 64, "random_state": 0, "progress": False}
    return asc.ContrastiveEmbedding(spaces, encoder=asc.MLP((16,)), penalty=0.0, **settings, **options)


@pytest.fixture(scope="module")
def recording(group):
    return asc.from_pynapple(group, {"place": PLACE}, bin_size=0.2, smooth=0.2, transform="zscore")


@pytest.fixture(scope="module")
def model(recording):
    return small().fit(recording)


# In


def test_spikes_are_counted_as_pynapple_counts_them(group):
    counts = group.count(0.2)
    recording = asc.from_pynapple(group, bin_size=0.2)
    np.testing.assert_array_equal(recording.X, counts.d)
    np.testing.assert_allclose(recording.time, counts.t)
    assert recording.epochs.tolist() == [0] * 300 + [1] * 250
    np.testing.assert_array_equal(recording.support, SUPPORT.values)
    assert recording.channel_names == ["1", "4", "7", "10", "13", "16"] and recording.named_channels
    assert recording.treatment == asc.Treatment(bin_size=0.2, counts_events=True)


def test_unit_metadata_are_kept_through_slices_and_choices(group):
    recording = asc.from_pynapple(group, bin_size=0.2)
    assert list(recording.units) == ["region", "depth"]
    part = recording[10:400].take_channels(["7", "4"])
    assert part.units.loc["4"].to_dict() == {"region": "CA3", "depth": 0.1}
    assert part.units.index.to_list() == ["7", "4"]
    np.testing.assert_allclose(part.support, [[2.0, 60.0], [70.0, 90.0]])


def test_treatment_is_applied_within_epochs(group):
    counts = asc.from_pynapple(group, bin_size=0.2)
    root = asc.from_pynapple(group, bin_size=0.2, smooth=0.3, transform="sqrt")
    np.testing.assert_allclose(root.X, smooth(np.sqrt(counts.X), 1.5, counts.epochs), rtol=1e-5)


@pytest.mark.parametrize("columns", [["left", "right"], [0, 1], [5, 6]])
def test_a_frame_is_taken_as_it_is(columns):
    values = RNG.normal(size=(100, 2)).astype(np.float32)
    support = nap.IntervalSet([0, 6], [4.95, 20])
    frame = nap.TsdFrame(
        np.arange(100) / 10, values, columns=columns, time_support=support, metadata={"shank": [1, 2]}
    )
    recording = as_recording(frame)
    np.testing.assert_array_equal(recording.X, frame.d)
    np.testing.assert_array_equal(recording.time, frame.t)
    assert recording.epochs.tolist() == [0] * 50 + [1] * 40
    np.testing.assert_array_equal(recording.support, support.values)
    assert recording.channel_names == [str(c) for c in columns]
    assert recording.named_channels is (columns != [0, 1])
    assert recording.units["shank"].to_list() == [1, 2]
    assert recording.treatment == asc.Treatment()


def test_float32_frames_are_shared_not_copied(tmp_path):
    values = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (500, 3))
    values[:] = RNG.normal(size=(500, 3))
    frame = nap.TsdFrame(t=np.arange(500.0), d=values)
    assert np.shares_memory(asc.from_pynapple(frame).X, values)


def test_a_frame_left_in_its_file_is_read_in_parts(tmp_path):
    import h5py

    values = RNG.normal(size=(200, 3))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        data = file.create_dataset("x", data=values)
        frame = nap.TsdFrame(t=np.arange(200) / 10, d=data, load_array=False)
        whole = asc.from_pynapple(frame)
        parts = asc.from_pynapple(frame, epochs=nap.IntervalSet([1, 12], [3, 15]))
    np.testing.assert_array_equal(whole.X, values.astype(np.float32))
    np.testing.assert_array_equal(parts.X, np.r_[values[10:31], values[120:151]].astype(np.float32))
    assert parts.epochs.tolist() == [0] * 21 + [1] * 31


def test_a_tsd_is_one_channel():
    recording = asc.from_pynapple(PLACE, transform="zscore")
    assert recording.X.shape == (len(PLACE), 1)
    assert recording.X.mean() == pytest.approx(0, abs=1e-5) and recording.X.std() == pytest.approx(1, abs=1e-5)


def test_samples_are_averaged_in_bins_and_empty_ones_part_epochs():
    time = np.r_[np.arange(0, 3, 0.1), np.arange(5, 8, 0.1)] + 0.05
    frame = nap.TsdFrame(time, np.stack([time, -time], 1), time_support=nap.IntervalSet(0, 8))
    recording = asc.from_pynapple(frame, bin_size=0.5)
    np.testing.assert_allclose(
        recording.X[:, 0], np.r_[np.arange(0, 3, 0.5), np.arange(5, 8, 0.5)] + 0.25, rtol=1e-5
    )
    assert recording.epochs.tolist() == [0] * 6 + [1] * 6
    np.testing.assert_allclose(recording.support, [[0, 3], [5, 8]])
    assert recording.treatment == asc.Treatment(bin_size=0.5, counts_events=False)
    with pytest.raises(ValueError, match=r"bin_size=0\.05 s is shorter than the interval between samples, 0\.1 s"):
        asc.from_pynapple(frame, bin_size=0.05)


def test_epochs_restrict_the_data(group):
    some = nap.IntervalSet([10, 50], [20, 90])
    recording = asc.from_pynapple(group, bin_size=0.2, epochs=some)
    np.testing.assert_allclose(recording.support, [[10, 20], [50, 60], [70, 90]])
    again = asc.from_pynapple(group, bin_size=0.2, epochs=[[10, 20], [50, 90]])
    np.testing.assert_array_equal(recording.X, again.X)
    with pytest.raises(ValueError, match="no time in common"):
        asc.from_pynapple(group, bin_size=0.2, epochs=nap.IntervalSet(200, 300))


def test_epochs_shorter_than_a_bin_are_left_out(group):
    recording = asc.from_pynapple(group, bin_size=5.0, epochs=[[0, 10], [20, 22], [30, 40]])
    assert recording.epochs.tolist() == [0, 0, 1, 1]
    np.testing.assert_allclose(recording.support, [[0, 10], [30, 40]])


# Variables


def test_variables_are_put_on_the_recordings_time(group):
    frame = nap.TsdFrame(t=PLACE.t, d=np.stack([PLACE.d, -PLACE.d], 1), columns=["x", "y"])
    given = {
        "place": PLACE,
        "at": frame,
        "licks": nap.Ts(t=np.arange(0.3, 120, 1.0)),
        "pair": (PLACE.t, PLACE.t),
        "step": np.arange(550),
    }
    table = asc.from_pynapple(group, given, bin_size=0.2).variables
    assert set(table) == {"place", "x", "y", "licks", "pair", "step"}
    time = group.count(0.2).t
    np.testing.assert_allclose(table["place"], np.interp(time, PLACE.t, PLACE.d))
    np.testing.assert_allclose(table["y"], -table["x"])
    assert table["licks"].sum() == 110 and table["licks"][1] == 1
    np.testing.assert_array_equal(table["step"], np.arange(550))
    assert list(asc.from_pynapple(group, frame, bin_size=0.2).variables) == ["x", "y"]
    by_position = pd.DataFrame({"v": np.arange(550)})
    assert asc.from_pynapple(group, by_position, bin_size=0.2).variables["v"].tolist() == list(range(550))


def test_variables_do_not_cross_the_edges_of_epochs(group):
    sparse = nap.Tsd(t=np.array([59.0, 65.0, 71.0]), d=np.array([1.0, 50.0, 2.0]))
    table = asc.from_pynapple(group, {"v": sparse}, bin_size=0.2, max_gap=20).variables
    time = group.count(0.2).t
    assert set(table["v"][time < 60].dropna()) == {1.0} and set(table["v"][time > 70].dropna()) == {2.0}


def test_options_for_variables_there_are_not_are_refused(group):
    with pytest.raises(ValueError, match="period: no variable called 'hd'"):
        asc.from_pynapple(group, {"place": PLACE}, bin_size=0.2, period={"hd": 6.28})
    with pytest.raises(ValueError, match="how: no variable called 'x'"):
        asc.from_pynapple(group, np.zeros(550), bin_size=0.2, how={"x": "linear"})


# Out


def test_an_embedding_comes_back_on_the_same_time_and_epochs(model, group, recording):
    z = model.transform(group)
    assert isinstance(z, nap.TsdFrame)
    np.testing.assert_array_equal(z.t, recording.time)
    np.testing.assert_array_equal(z.time_support.values, SUPPORT.values)
    assert list(z.columns) == ["place0", "rest0"]
    assert z.metadata["space"].to_list() == ["place", "rest"]
    np.testing.assert_array_equal(z.d, model.transform(recording))  # the same treatment, statistics included


def test_new_spikes_get_the_old_treatment(model, recording):
    new = spikes(seed=1).restrict(nap.IntervalSet(20, 50))
    z = model.transform(new)
    again = asc.from_pynapple(new, treatment=model.treatment)
    assert again.treatment == recording.treatment
    np.testing.assert_array_equal(z.d, model.transform(again))
    assert np.isfinite(model.score(new, {"place": PLACE}))


def test_recordings_treated_otherwise_are_refused(model, group):
    with pytest.raises(
        ValueError, match=r"bins of 0\.1 s, instead of bins of 0\.2 s, smoothed over 0\.2 s, z-score"
    ):
        model.transform(asc.from_pynapple(group, bin_size=0.1))
    part = group.restrict(nap.IntervalSet(0, 50))
    own = asc.from_pynapple(part, bin_size=0.2, smooth=0.2, transform="zscore")
    with pytest.raises(ValueError, match=r"with means and spreads of its own, .*treatment=model\.treatment"):
        model.transform(own)
    with pytest.raises(ValueError, match="counts events, and these are samples: pass the spike times"):
        model.transform(group.count(0.2))
    assert model.transform(own.X).shape == (250, 2)  # an array is taken as treated


def test_units_in_another_order_are_refused(model):
    other = nap.TsGroup({k + 2: ts for k, ts in spikes().items()}, SUPPORT)
    with pytest.raises(ValueError, match=r"the model was fitted to \['1', '4'"):
        model.transform(other)


def test_the_treatment_is_kept_in_the_model_file(model, group, tmp_path):
    model.save(tmp_path / "run")
    loaded = asc.load(tmp_path / "run")
    assert loaded.treatment == model.treatment
    np.testing.assert_allclose(loaded.transform(group).d, model.transform(group).d, rtol=1e-6)


def test_channels_that_never_fire_are_dropped_with_their_treatment(group, recording):
    silent = nap.TsGroup({**dict(group.items()), 99: nap.Ts(np.array([500.0]))}, SUPPORT)
    data = asc.from_pynapple(silent, {"place": PLACE}, bin_size=0.2, smooth=0.2, transform="zscore")
    model = small(drop_constant=True).fit(data)
    assert model.transform(silent).shape == (550, 2)


def test_a_frame_in_a_frame_out(group):
    counts = group.count(0.2)
    model = small().fit(counts, {"place": PLACE})
    z = model.transform(counts)
    np.testing.assert_array_equal(z.t, counts.t)
    np.testing.assert_array_equal(z.time_support.values, counts.time_support.values)
    model.set_output(transform="pandas")
    assert isinstance(model.transform(counts), pd.DataFrame)


def test_maps_carry_the_metadata_and_go_back_on_the_units(model, recording, group, quick_unique_variance):
    maps = model.attribute(recording)
    assert maps.by_space["region"].dims == ("channel",)
    assert maps.by_space["region"].values.tolist() == ["CA1", "CA3"] * 3
    calls = maps.calls()
    assert calls.query("channel == '4' and space == 'rest'")["depth"].item() == pytest.approx(0.1)
    assert "region" in maps.to_frame() and len(maps.to_frame()) == 12
    table = maps.by_unit()
    assert list(table)[:5] == ["region", "depth", "place_score", "place_q", "place_called"]
    np.testing.assert_array_equal(table["place_score"], maps.by_space.sel(space="place"))
    marked = asc.annotate(group, maps)
    assert "place_score" not in group.metadata_columns
    np.testing.assert_array_equal(marked.metadata["place_score"], table["place_score"])
    np.testing.assert_array_equal(marked.metadata["region"], group.metadata["region"])
    np.testing.assert_array_equal(marked[4].t, group[4].t)
    first = maps.where(recording.epochs == 0)
    assert first.by_space["depth"].values.tolist() == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.5])


def test_maps_by_gradient_carry_the_metadata_to_files(model, recording, tmp_path):
    import xarray as xr

    maps = model.attribute(recording, method="generative_gradient")
    with xr.open_dataset(maps.to_netcdf(tmp_path / "maps.nc"), engine="h5netcdf") as file:
        assert file["region"].values.tolist() == ["CA1", "CA3"] * 3
    table = pd.read_csv(maps.to_csv(tmp_path / "maps.csv"))
    assert set(table) == {"channel", "space", "score", "z", "region", "depth"}
    frame = recording.units.rename(columns={"region": "space"})
    assert "unit_space" in maps.with_units(frame).by_space.coords


def test_anything_with_a_row_for_each_step_goes_out(recording):
    out = asc.to_pynapple(recording.variables[["place"]], recording)
    assert list(out.columns) == ["place"]
    np.testing.assert_array_equal(out.t, recording.time)
    np.testing.assert_array_equal(out.time_support.values, SUPPORT.values)
    assert isinstance(asc.to_pynapple(recording.epochs, recording), nap.Tsd)
    cut = recording[50:400]
    np.testing.assert_allclose(asc.to_pynapple(cut.X, cut).time_support.values, [[10, 60], [70, 90]])
    with pytest.raises(ValueError, match="3 rows and the recording 550"):
        asc.to_pynapple(np.zeros(3), recording)


# Refusals


@pytest.mark.parametrize(
    ("data", "options", "error", "message"),
    [
        (np.ones((5, 2)), {}, TypeError, "data is a ndarray; expected a pynapple TsGroup"),
        (nap.Ts(np.arange(3.0)), {"bin_size": 1}, TypeError, r"data is a Ts; .*TsGroup\(\{0: ts\}\)"),
        (nap.TsdTensor(np.arange(3.0), np.ones((3, 2, 2))), {}, TypeError, "data is a TsdTensor"),
        (spikes(), {}, ValueError, r"counted in bins.*bin_size=0\.1"),
        (
            spikes(),
            {"treatment": asc.Treatment(bin_size=1), "smooth": 2},
            ValueError,
            "either a treatment or smooth",
        ),
        (spikes(), {"treatment": asc.Treatment(bin_size=1, counts_events=False)}, ValueError, "averages samples"),
        (spikes(), {"bin_size": 0.2, "epochs": [[0, 2], [1, 3]]}, ValueError, "overlap"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_read_is_refused(data, options, error, message):
    with pytest.raises(error, match=message):
        asc.from_pynapple(data, **options)


def test_the_plain_constructor_points_to_the_door(group):
    with pytest.raises(TypeError, match=r"a pynapple TsdFrame; use ascribo\.from_pynapple"):
        asc.Recording(group.count(1.0))


@pytest.mark.parametrize("size", [0.1, 0.25, 0.5, 1.0])
def test_trials_that_touch_keep_all_their_bins(size):
    """pynapple ends an interval a microsecond before the next one starts."""
    edges = np.arange(0, 102, 2.0)
    trials = nap.IntervalSet(edges[:-1], edges[1:])
    group = nap.TsGroup({0: nap.Ts(np.sort(np.random.default_rng(0).uniform(0, 100, 3000)))}, trials)
    recording = asc.from_pynapple(group, bin_size=size)
    assert len(recording) == round(100 / size) and recording.epochs[-1] == 49
    assert recording.X.sum() == len(group[0].t)


def test_an_epoch_of_one_step_comes_back():
    recording = asc.Recording(np.eye(4), epochs=[0, 0, 1, 2], time=[0.0, 1, 5, 9])
    out = asc.to_pynapple(recording.X, recording)
    np.testing.assert_array_equal(out.d, recording.X)
    np.testing.assert_array_equal(out.t, recording.time)
    assert len(out.time_support) == 3
    assert len(asc.to_pynapple(np.eye(3), recording[1:4])) == 3
