"""Files written by pynwb read back: units, series, behaviour, trials."""

import sys
from datetime import UTC, datetime

import numpy as np
import pytest

import ascribo as asc

pynwb = pytest.importorskip("pynwb")

RNG = np.random.default_rng(0)
SPIKES = [np.sort(RNG.uniform(0, 40, n)) for n in (300, 0, 150)]
PLACE = np.stack([np.linspace(0, 1, 401), RNG.random(401)], 1)
HEAD = np.mod(np.arange(200) * 0.3, 2 * np.pi)
RAW = RNG.normal(size=(4000, 4)).astype(np.float32)
TRIALS = [(1.0, 5.0, "left"), (5.0, 12.0, "right"), (20.0, 21.0, "left")]


def write(path, fill):
    file = pynwb.NWBFile("a session", "one", datetime(2024, 1, 1, tzinfo=UTC))
    fill(file)
    with pynwb.NWBHDF5IO(str(path), "w") as io:
        io.write(file)
    return path


def whole(file):
    file.add_unit_column("region", "where it is")
    for region, times in zip(["CA1", "CA3", "CA1"], SPIKES, strict=True):
        file.add_unit(spike_times=times, region=region, obs_intervals=[[0.0, 40.0]])
    file.add_trial_column("side", "where to")
    for start, stop, side in TRIALS:
        file.add_trial(start_time=start, stop_time=stop, side=side)
    behaviour = file.create_processing_module("behavior", "what it does")
    place = pynwb.behavior.Position()
    place.create_spatial_series("SpatialSeries", data=PLACE * 100, conversion=0.01, rate=10.0, reference_frame="?")
    heading = pynwb.behavior.CompassDirection()
    stamps = np.arange(200) * 0.2
    heading.create_spatial_series("head", data=HEAD, timestamps=stamps, reference_frame="?", unit="radians")
    events = pynwb.behavior.BehavioralEvents()
    events.create_timeseries("licks", data=np.ones(3), timestamps=np.array([1.1, 1.2, 30.0]), unit="1")
    behaviour.add([place, heading, events])
    file.add_acquisition(pynwb.TimeSeries(name="raw", data=RAW, rate=100.0, unit="V"))
    file.add_acquisition(pynwb.TimeSeries(name="video", data=np.zeros((5, 3, 3)), rate=1.0, unit="1"))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    with pytest.warns(UserWarning):  # on conversions, and a time axis pynwb cannot tell
        return write(tmp_path_factory.mktemp("nwb") / "one.nwb", whole)


def test_units_behaviour_and_trials(path):
    recording = asc.read(
        path, bin_size=0.1, epochs="trials", variables=["Position", "head", "licks", "trials/side"]
    )
    assert recording.channel_names == ["0", "1", "2"]
    assert recording.units["region"].to_list() == ["CA1", "CA3", "CA1"] and list(recording.units) == ["region"]
    np.testing.assert_array_equal(recording.support, [[1, 5], [5, 12], [20, 21]])
    assert np.bincount(recording.epochs).tolist() == [40, 70, 10]
    for epoch, (start, stop, side) in enumerate(TRIALS):
        here = recording.epochs == epoch
        edges = np.linspace(start, stop, int(here.sum()) + 1)
        for unit, times in enumerate(SPIKES):
            np.testing.assert_array_equal(recording.X[here, unit], np.histogram(times, edges)[0])
        assert set(recording.variables["side"][here]) == {side}
    table = recording.variables
    start, end = recording.support[recording.epochs].T
    far = np.minimum(recording.time - start, end - recording.time) > 0.2  # an epoch knows its own samples only
    expected = np.interp(recording.time, np.arange(401) / 10, PLACE[:, 0])
    np.testing.assert_allclose(table["Position0"][far], expected[far])
    away = (table["head"] - recording.time * 1.5)[far]
    np.testing.assert_allclose(np.cos(away), 1, atol=1e-9)  # around the circle, by itself
    assert table["licks"].sum() == 2
    assert recording.treatment == asc.Treatment(bin_size=0.1, counts_events=True)


def test_all_of_the_recording_and_of_its_behaviour_by_default(path):
    recording = asc.read(path, bin_size=0.5, smooth=0.5, transform="sqrt")
    assert list(recording.variables) == ["Position0", "Position1", "head", "licks"]
    first, last = min(s[0] for s in SPIKES if len(s)), max(s[-1] for s in SPIKES if len(s))
    np.testing.assert_array_equal(recording.support, [[first, last]])
    assert recording.treatment == asc.Treatment(0.5, 0.5, "sqrt", counts_events=True)


def test_names_for_variables(path):
    given = {"xy": "processing/behavior/Position/SpatialSeries", "turn": "head", "side": "trials/side"}
    table = asc.read(path, bin_size=0.5, variables=given, period={"turn": 2 * np.pi}).variables
    assert list(table) == ["x", "y", "turn", "side"]
    time = asc.read(path, bin_size=0.5).time
    trial = (time >= 5) & (time <= 12)
    assert set(table["side"][trial]) == {"right"} and table["side"][(time > 12.01) & (time < 20)].isna().all()


def test_a_series_within_trials(path):
    recording = asc.read(path, channels="raw", epochs="trials", variables="licks")
    times = np.arange(4000) / 100
    expected = [
        RAW[(times >= 1) & (times < 5)],
        RAW[(times >= 5) & (times <= 12)],
        RAW[(times >= 20) & (times <= 21)],
    ]
    np.testing.assert_array_equal(recording.X, np.concatenate(expected))
    assert np.bincount(recording.epochs).tolist() == [len(part) for part in expected]


def test_a_plain_series_is_mapped_not_read(path):
    recording = asc.read(path, channels="acquisition/raw", variables=[])
    assert isinstance(recording.X.base, np.memmap)
    np.testing.assert_array_equal(recording.X, RAW)
    binned = asc.read(path, channels="raw", variables=[], bin_size=0.1)
    np.testing.assert_allclose(binned.X, RAW.reshape(400, 10, 4).mean(1), atol=1e-6)


def test_a_response_series_and_its_regions(tmp_path):
    values = RNG.normal(size=(300, 3))

    def fill(file):
        device = file.create_device("scope")
        channel = pynwb.ophys.OpticalChannel(name="green", description="green", emission_lambda=500.0)
        plane = file.create_imaging_plane("plane", channel, "here", device, 600.0, "GFP", "CA1")
        masks = pynwb.ophys.PlaneSegmentation(description="cells", imaging_plane=plane, name="cells")
        masks.add_column("kind", "of cell")
        for kind in ("pyramidal", "basket", "pyramidal", "basket"):
            masks.add_roi(image_mask=np.zeros((4, 4)), kind=kind)
        module = file.create_processing_module("ophys", "cells")
        segmentation = pynwb.ophys.ImageSegmentation()
        segmentation.add_plane_segmentation(masks)
        rois = masks.create_roi_table_region("some", region=[0, 2, 3])
        series = pynwb.ophys.RoiResponseSeries(name="dff", data=values, rois=rois, rate=30.0, unit="1")
        module.add([segmentation, pynwb.ophys.DfOverF(roi_response_series=series)])

    path = write(tmp_path / "cells.nwb", fill)
    recording = asc.read(path)
    np.testing.assert_array_equal(recording.X, values.astype(np.float32))
    assert recording.channel_names == ["0", "2", "3"]
    assert recording.units["kind"].to_list() == ["pyramidal", "pyramidal", "basket"]
    assert list(recording.units) == ["kind"]
    np.testing.assert_allclose(np.diff(recording.time), 1 / 30)
    scored = asc.read(path, channels="DfOverF", transform="zscore")
    np.testing.assert_allclose(scored.X.std(0), 1, rtol=1e-4)


def test_a_model_goes_from_file_to_file(path):
    recording = asc.read(path, bin_size=0.2, transform="zscore")
    spaces = {"place": asc.Follow("Position0", 1)}
    settings = {"seeds": 1, "steps": 20, "batch_size": 32, "penalty": 0.0, "progress": False, "drop_constant": True}
    model = asc.ContrastiveEmbedding(spaces, **settings).fit(recording)
    part = asc.read(path, epochs="trials", treatment=model.treatment)
    assert model.transform(part).shape == (len(part), 1)
    with pytest.raises(ValueError, match="treated otherwise"):
        model.transform(asc.read(path, epochs="trials", bin_size=0.2))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"channels": "rwa"}, ValueError, r"one\.nwb: no series called 'rwa'; did you mean 'raw'\?"),
        ({"channels": "video"}, ValueError, r"video has shape \(5, 3, 3\)"),
        ({"variables": "Positon"}, ValueError, "did you mean 'Position'"),
        ({"variables": "speed"}, ValueError, "no series called 'speed'; there are: .*SpatialSeries"),
        ({"variables": "behavior"}, ValueError, "more than one series.*licks.*Give more of the path"),
        (
            {"variables": "trials/sied"},
            ValueError,
            "intervals/trials has no column called 'sied'; did you mean 'side'",
        ),
        ({"variables": 3}, TypeError, "int"),
        ({"epochs": "trails"}, ValueError, "no table of intervals called 'trails'; did you mean 'trials'"),
        ({"epochs": [[0, 2], [1, 3]]}, ValueError, "overlap"),
        ({}, ValueError, r"pass their size in seconds, such as bin_size=0\.1"),
        ({"time": "stamps"}, TypeError, "there is no option 'time' for such files; there are: channels"),
        ({"period": {"heading": 6.28}}, ValueError, "no variable called 'heading'; did you mean 'head'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_in_the_file_is_refused(path, options, error, message):
    with pytest.raises(error, match=message):
        asc.read(path, **({"bin_size": 0.5} if options and "channels" not in options else {}), **options)


def test_a_file_that_is_something_else(tmp_path):
    (tmp_path / "a.nwb").write_text("not NWB")
    with pytest.raises(ValueError, match=r"cannot be read as a \.nwb file"):
        asc.read(tmp_path / "a.nwb")
    with pytest.raises(FileNotFoundError, match=r"did you mean 'a\.nwb'"):
        asc.read(tmp_path / "b.nwb")


def test_without_pynwb_the_extra_is_named(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynwb", None)
    with pytest.raises(ImportError, match=r"pip install 'ascribo\[neuro\]'"):
        asc.read(path, bin_size=0.5)


def test_options_of_nwb_are_not_for_other_files(tmp_path):
    np.savez(tmp_path / "x.npz", X=np.ones((5, 2)))
    with pytest.raises(TypeError, match=r"bin_size is for files ending in \.nwb, not for this one"):
        asc.read(tmp_path / "x.npz", bin_size=0.5)


def test_channels_have_conversions_of_their_own(tmp_path):
    def fill(file):
        probe = file.create_device("probe")
        group = file.create_electrode_group("shank", description="a", location="b", device=probe)
        for _ in range(2):
            file.add_electrode(group=group, location="CA1")
        electrodes = file.create_electrode_table_region([0, 1], "all")
        series = pynwb.ecephys.ElectricalSeries(
            "lfp",
            np.ones((50, 2)),
            electrodes,
            rate=10.0,
            conversion=2.0,
            channel_conversion=[1.0, -5.0],
            offset=1.0,
        )
        file.add_acquisition(series)

    recording = asc.read(write(tmp_path / "lfp.nwb", fill), channels="lfp")
    np.testing.assert_array_equal(recording.X, np.tile([3.0, -9.0], (50, 1)))


def test_time_that_goes_back_is_refused(tmp_path):
    stamps = np.roll(np.arange(100) / 10, 50)

    def fill(file):
        file.add_acquisition(pynwb.TimeSeries("raw", data=np.ones((100, 2)), unit="V", timestamps=stamps))

    path = write(tmp_path / "back.nwb", fill)
    for options in ({}, {"bin_size": 1.0}):
        with pytest.raises(ValueError, match=r"time goes from 9.9 to 0 s"):
            asc.read(path, channels="raw", **options)
