"""The door for data: every container comes in alike, and what is wrong is refused with a reason."""

import datetime
import itertools
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from ascribo.data.containers import as_recording, in_kind
from ascribo.data.preprocessing import Treatment
from ascribo.data.recording import Recording
from ascribo.support.names import suggest

VALUES = np.arange(12.0).reshape(6, 2) ** 2


# Containers


@pytest.mark.parametrize(
    "X",
    [
        VALUES,
        VALUES.astype(np.float32),
        VALUES.astype(np.int16),
        VALUES.astype(object),
        VALUES.tolist(),
        np.asfortranarray(VALUES),
        torch.tensor(VALUES, requires_grad=True),
        pd.DataFrame(VALUES),
        pd.DataFrame(VALUES).astype({0: "Int64", 1: "float32"}),
        xr.DataArray(VALUES, dims=("time", "unit")),
    ],
    ids=lambda X: type(X).__name__ + str(getattr(X, "dtype", "")),
)
def test_every_container_gives_the_same_channels(X):
    recording = Recording(X)
    assert recording.X.dtype == np.float32
    assert recording.X.flags.c_contiguous
    assert not recording.named_channels
    np.testing.assert_array_equal(recording.X, VALUES)


def test_bfloat16_tensor():
    X = torch.ones(3, 2, dtype=torch.bfloat16)
    np.testing.assert_array_equal(Recording(X).X, np.ones((3, 2)))


def test_float32_data_is_shared():
    X = VALUES.astype(np.float32)
    assert np.shares_memory(Recording(X).X, X)


def test_input_is_not_changed():
    X, variables = pd.DataFrame(VALUES, index=list("abcdef")), pd.DataFrame({0: list("uvwxyz")})
    before = X.copy(), variables.copy()
    Recording(X, variables)
    pd.testing.assert_frame_equal(X, before[0])
    pd.testing.assert_frame_equal(variables, before[1])


@pytest.mark.parametrize(
    ("X", "names", "named"),
    [
        (VALUES, ["channel0", "channel1"], False),
        (pd.DataFrame(VALUES, columns=["a", "b"]), ["a", "b"], True),
        (pd.DataFrame(VALUES), ["0", "1"], False),
        (pd.DataFrame(VALUES, columns=[7, 8]), ["7", "8"], True),
        (pd.DataFrame(VALUES, columns=[1, 0]), ["1", "0"], True),
        (pd.DataFrame(VALUES, columns=[7, "b"]), ["7", "b"], True),
        (xr.DataArray(VALUES, dims=("t", "c")), ["channel0", "channel1"], False),
        (xr.DataArray(VALUES, dims=("t", "c"), coords={"c": ["a", "b"]}), ["a", "b"], True),
        (xr.DataArray(VALUES, dims=("t", "c"), coords={"c": [7, 8]}), ["7", "8"], True),
        (xr.DataArray(VALUES, dims=("t", "c"), coords={"c": [0, 1]}), ["0", "1"], False),
    ],
)
def test_channel_names(X, names, named):
    recording = Recording(X)
    assert recording.channel_names == names
    assert recording.named_channels is named


# Variables


@pytest.mark.parametrize(
    ("variables", "names"),
    [
        (None, []),
        (np.arange(6), ["y"]),
        (list("abcdef"), ["y"]),
        (torch.arange(6), ["y"]),
        (np.ones((6, 2)), ["y0", "y1"]),
        (torch.ones(6, 1), ["y0"]),
        (pd.Series(range(6)), ["y"]),
        (pd.Series(range(6), name="speed", index=range(9, 3, -1)), ["speed"]),
        (pd.DataFrame(np.ones((6, 2))), ["0", "1"]),
        (pd.DataFrame({"speed": range(6)}, index=range(10, 16)), ["speed"]),
        (xr.DataArray(range(6), dims="time"), ["y"]),
        (xr.DataArray(range(6), dims="time", name="speed"), ["speed"]),
        (xr.DataArray(np.ones((6, 2)), dims=("time", "v")), ["y0", "y1"]),
        (xr.DataArray(np.ones((6, 2)), dims=("t", "v"), coords={"v": ["a", "b"]}), ["a", "b"]),
        ({"a": range(6), "b": torch.arange(6), "c": list("uvwxyz")}, ["a", "b", "c"]),
        ({}, []),
    ],
)
def test_variable_names_and_rows(variables, names):
    recording = Recording(VALUES, variables)
    assert list(recording.variables.columns) == names
    assert recording.variables.index.equals(pd.RangeIndex(6))
    assert not recording.variables.isna().any(axis=None)


def test_columns_of_a_matrix_stay_apart():
    recording = Recording(VALUES, VALUES)
    np.testing.assert_array_equal(recording.variables.to_numpy(), VALUES)


def test_variables_keep_their_types():
    variables = pd.DataFrame(
        {
            "text": list("ababab"),
            "category": pd.Categorical(list("xxyyzz")),
            "truth": [True, False] * 3,
            "count": np.arange(6),
            "depth": np.linspace(0, 1, 6),
        }
    )
    pd.testing.assert_frame_equal(Recording(VALUES, variables).variables, variables)


def test_numbers_held_as_objects_become_numbers():
    recording = Recording(VALUES, np.arange(6).astype(object))
    assert pd.api.types.is_integer_dtype(recording.variables["y"])


# Epochs and time


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(1, 4)), min_size=1, max_size=20))
def test_epochs_number_the_contiguous_runs(runs):
    labels = [label for label, length in runs for _ in range(length)]
    expected = [i for i, (_, run) in enumerate(itertools.groupby(labels)) for _ in run]
    recording = Recording(np.zeros((len(labels), 1)), epochs=labels)
    assert recording.epochs.dtype == np.int64
    assert recording.epochs.tolist() == expected


@given(st.lists(st.sampled_from("ab"), min_size=2, max_size=30), st.data())
def test_a_slice_has_the_epochs_of_its_labels(labels, data):
    start = data.draw(st.integers(0, len(labels) - 1))
    stop = data.draw(st.integers(start + 1, len(labels)))
    whole = Recording(np.zeros((len(labels), 1)), epochs=labels)
    part = Recording(np.zeros((stop - start, 1)), epochs=labels[start:stop])
    np.testing.assert_array_equal(whole[start:stop].epochs, part.epochs)


@pytest.mark.parametrize(
    "labels",
    [
        ["rest", "rest", "run", "run", "run", "rest"],
        np.array([True, True, False, False, False, True]),
        np.array([1.5, 1.5, np.nan, np.nan, np.nan, 1.5]),
        np.array([1.5, 1.5, 2, 2, 2, 1], dtype=np.float16),
        pd.Categorical(list("aabbba")),
        pd.Series(["a", "a", None, None, None, "a"]),
        pd.array([1, 1, None, None, None, 1], dtype="Int64"),
        torch.tensor([3, 3, 1, 1, 1, 3]),
        xr.DataArray([3, 3, 1, 1, 1, 3], dims="time"),
        pd.to_datetime(["2020-01-01"] * 2 + ["2020-01-02"] * 3 + ["2020-01-01"]),
    ],
    ids=str,
)
def test_labels_of_any_type(labels):
    assert Recording(VALUES, epochs=labels).epochs.tolist() == [0, 0, 1, 1, 1, 2]


def test_time_may_restart_in_a_new_epoch():
    time = [0.0, 0.1, 0.2, 0.0, 0.1, 0.2]
    recording = Recording(VALUES, epochs=[0, 0, 0, 1, 1, 1], time=time)
    assert recording.time.dtype == np.float64
    assert recording.time.tolist() == time
    with pytest.raises(ValueError, match=r"from 0\.2 to 0 at time step 3.*epoch of its own"):
        Recording(VALUES, time=time)


def test_default_time_counts():
    assert Recording(VALUES).time.tolist() == [0, 1, 2, 3, 4, 5]


def test_datetimes_become_seconds_since_the_first():
    stamps = pd.date_range("2024-05-01 12:00", periods=6, freq="250ms")
    expected = pytest.approx([0, 0.25, 0.5, 0.75, 1, 1.25])
    assert Recording(VALUES, time=stamps).time == expected
    assert Recording(VALUES, time=stamps - stamps[0]).time == expected


def test_a_gap_in_time_is_an_edge():
    time = np.r_[np.arange(10) / 10, 500 + np.arange(10) / 10, 1e6 + np.arange(5) / 10]
    recording = Recording(np.zeros((25, 1)), time=time)
    assert recording.epochs.tolist() == [0] * 10 + [1] * 10 + [2] * 5
    assert repr(recording).endswith("3 epochs)")
    within = Recording(np.zeros((25, 1)), time=time, epochs=np.arange(25) // 5)
    assert within.epochs.tolist() == np.repeat(np.arange(5), 5).tolist()
    both = Recording(np.zeros((25, 1)), time=time, epochs=np.arange(25) // 15)
    assert both.epochs.tolist() == [0] * 10 + [1] * 5 + [2] * 5 + [3] * 5
    assert recording[5:22].epochs.tolist() == [0] * 5 + [1] * 10 + [2] * 2


def test_ten_median_steps_are_no_gap_and_support_says_more_than_time():
    time = np.array([0, 1, 2, 3, 13, 14, 24.5, 25])
    assert Recording(np.zeros((8, 1)), time=time).epochs.tolist() == [0] * 6 + [1] * 2
    held = Recording(np.zeros((8, 1)), time=time, support=[[0, 30]])
    assert held.epochs.tolist() == [0] * 8
    assert Recording([[1.0], [2.0]], time=[0.0, 1e9]).epochs.tolist() == [0, 0]  # no other step to compare with


def test_a_day_between_two_rows_of_an_index_is_an_edge():
    days = pd.date_range("2030-01-01", periods=5, freq="1s").union(
        pd.date_range("2030-01-02", periods=5, freq="1s")
    )
    recording = Recording(pd.DataFrame({"a": range(10)}, index=days))
    assert recording.epochs.tolist() == [0] * 5 + [1] * 5
    assert recording.time[5] == 86400


def test_pairs_do_not_cross_a_gap():
    from ascribo.spaces.kinds.time import Time
    from ascribo.spaces.pairs import Pairs

    time = np.r_[np.arange(50.0), 1000 + np.arange(50.0)]
    recording = Recording(np.zeros((100, 1)), time=time)
    pairs = Pairs({"rest": Time(1, offsets=(1,))}, recording.variables, recording.epochs)
    reference, positive, _ = pairs.rows["rest"]
    drawn = pairs.draw(np.random.default_rng(0), 50, 64)
    assert not ((drawn[:, reference] == 49) & (drawn[:, positive] == 50)).any()


@pytest.mark.parametrize(
    ("index", "time"),
    [
        ([0.5, 1.0, 1.5, 2.0, 2.5, 3.0], [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]),
        ([3, 4, 5, 6, 7, 8], [3, 4, 5, 6, 7, 8]),
        (pd.date_range("2030-01-01", periods=6, freq="250ms"), [0, 0.25, 0.5, 0.75, 1, 1.25]),
        (pd.date_range("2030-01-01", periods=6, freq="250ms", tz="Europe/Paris"), [0, 0.25, 0.5, 0.75, 1, 1.25]),
        (pd.to_timedelta(np.arange(2, 8), unit="s"), [2, 3, 4, 5, 6, 7]),
        (pd.RangeIndex(6), range(6)),
        ([3, 2, 1, 0, -1, -2], range(6)),
        ([0, 0, 1, 1, 2, 2], range(6)),
        ([0.0, 1.0, np.nan, 3.0, 4.0, 5.0], range(6)),
        (list("abcdef"), range(6)),
        (pd.MultiIndex.from_product([[0, 1], [0, 1, 2]]), range(6)),
    ],
    ids=str,
)
def test_the_index_of_a_frame_is_its_time_if_it_can_be(index, time):
    X = pd.DataFrame(VALUES, index=index)
    recording = Recording(X)
    assert recording.time.tolist() == list(time)
    assert Recording(X, time=np.arange(6) * 7).time.tolist() == list(range(0, 42, 7))
    back = in_kind(np.ones((6, 1)), X, recording, ["rest0"], ["rest"])
    assert back.index.equals(X.index)


def test_the_index_may_restart_in_a_new_epoch():
    X = pd.DataFrame(VALUES, index=[0.1, 0.2, 0.3, 0.1, 0.2, 0.3])
    assert Recording(X, epochs=[0, 0, 0, 1, 1, 1]).time.tolist() == [0.1, 0.2, 0.3, 0.1, 0.2, 0.3]
    assert Recording(X).time.tolist() == list(range(6))


# Truth


def test_truth_gets_the_channel_names_and_follows_the_channels():
    truth = xr.DataArray([[True, False], [False, True]], dims=("channel", "space"), coords={"space": ["a", "b"]})
    recording = Recording(VALUES, truth=truth.transpose())
    assert recording.truth is not None
    assert recording.truth.dims == ("channel", "space")
    taken = recording.take_channels("channel1").truth
    assert taken is not None
    assert taken["channel"].values.tolist() == ["channel1"]
    assert taken.sel(channel="channel1", space="b").item() is True


def test_truth_of_other_channels_is_refused():
    truth = xr.DataArray(np.ones((3, 1), dtype=bool), dims=("channel", "space"))
    with pytest.raises(ValueError, match=r"truth has 3 channels .*X has 2"):
        Recording(VALUES, truth=truth)
    named = truth[:2].assign_coords(channel=["channel1", "channel0"])
    with pytest.raises(ValueError, match="same order"):
        Recording(VALUES, truth=named)
    with pytest.raises(ValueError, match="truth is int64"):
        Recording(VALUES, truth=truth.astype(int))
    with pytest.raises(ValueError, match="dimensions"):
        Recording(VALUES, truth=truth.rename(space="other"))
    with pytest.raises(TypeError, match="truth is a ndarray"):
        Recording(VALUES, truth=truth.values)


# Methods


@pytest.fixture
def recording():
    return Recording(
        pd.DataFrame({"left": range(6), "still": 3.0, "right": range(6, 0, -1)}),
        {"speed": np.arange(6) * 10, "side": list("llrrrl")},
        epochs=[0, 0, 1, 1, 1, 2],
        time=np.arange(6) / 2,
    )


def test_slice_keeps_everything_aligned(recording):
    part = recording[1:5]
    assert len(part) == 4
    assert part.X[:, 0].tolist() == [1, 2, 3, 4]
    assert part.X.flags.c_contiguous
    assert part.variables["speed"].tolist() == [10, 20, 30, 40]
    assert part.variables.index.equals(pd.RangeIndex(4))
    assert part.epochs.tolist() == [0, 1, 1, 1]
    assert part.time.tolist() == [0.5, 1, 1.5, 2]
    assert part.channel_names == recording.channel_names
    assert part.named_channels
    assert len(recording) == 6
    assert recording[-2:].variables["side"].tolist() == ["r", "l"]


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        (slice(4, 4), ValueError, "no time steps; the recording has 6"),
        (slice(None, None, 2), ValueError, "neighbours"),
        (slice(None, None, -1), ValueError, "neighbours"),
        (3, TypeError, "slice of time steps"),
        ("left", TypeError, "take_channels"),
    ],
)
def test_other_indices_are_refused(recording, index, error, message):
    with pytest.raises(error, match=message):
        recording[index]


def test_a_recording_is_not_a_sequence(recording):
    with pytest.raises(TypeError):
        list(recording)


def test_take_channels_in_the_order_asked_for(recording):
    part = recording.take_channels(["right", "left"])
    assert part.channel_names == ["right", "left"]
    assert part.named_channels
    np.testing.assert_array_equal(part.X, recording.X[:, [2, 0]])
    assert part.X.flags.c_contiguous
    assert recording.X.shape == (6, 3)


def test_take_channels_refuses_unknown_repeated_and_no_names(recording):
    with pytest.raises(ValueError, match=r"no channel called 'lft'; did you mean 'left'\?"):
        recording.take_channels(["right", "lft"])
    with pytest.raises(ValueError, match="more than one is called 'left'"):
        recording.take_channels(["left", "left"])
    with pytest.raises(ValueError, match="at least one"):
        recording.take_channels([])


def test_constant_channels(recording):
    assert recording.constant_channels() == ["still"]
    assert recording.take_channels(["left", "right"]).constant_channels() == []


def test_repr_is_one_readable_line(recording):
    assert repr(recording) == ("Recording(6 time steps x 3 channels, variables: speed, side, 3 epochs)")
    assert repr(Recording([[1]])) == "Recording(1 time step x 1 channel, no variables, 1 epoch)"
    many = Recording(VALUES, np.zeros((6, 40)))
    assert "variables: y0, y1, y2, y3, y4 and 35 more" in repr(many)


def test_of(recording):
    assert as_recording(recording) is recording
    assert list(as_recording(VALUES, np.zeros(6)).variables) == ["y"]
    with pytest.raises(ValueError, match=r"holds its variables \(speed, side\)\. Leave y out"):
        as_recording(recording, np.zeros(6))


def test_suggest():
    names = ["speed", "Heading", "position"]
    assert suggest("heading", names) == "; did you mean 'Heading'?"
    assert suggest("zzz", names) == "; there are: speed, Heading, position."
    assert suggest("zzz", []) == "; there are none."


# Units, treatment and support


def test_units_follow_their_channels(recording):
    assert recording.units.shape == (3, 0) and recording.units.index.to_list() == recording.channel_names
    table = pd.DataFrame({"region": ["CA3", "CA1", "DG"]}, index=["still", "left", "right"])
    known = Recording(pd.DataFrame({"left": [1, 2], "still": 3.0, "right": [5, 4]}), units=table)
    assert known.units["region"].to_list() == ["CA1", "CA3", "DG"]
    assert known[:1].take_channels(["right", "left"]).units["region"].to_dict() == {"right": "DG", "left": "CA1"}
    numbered = Recording(VALUES, units={"depth": [0.5, 0.7]})
    assert numbered.units.loc["channel1", "depth"] == 0.7


def test_a_data_array_tells_time_and_units():
    X = xr.DataArray(
        VALUES,
        dims=("time", "unit"),
        coords={"unit": ["a", "b"], "time": np.arange(6) / 4, "region": ("unit", ["CA1", "CA3"]), "lab": "ours"},
    )
    recording = Recording(X)
    assert recording.time.tolist() == [0, 0.25, 0.5, 0.75, 1, 1.25]
    assert recording.units.to_dict() == {"region": {"a": "CA1", "b": "CA3"}}
    assert Recording(X, time=np.arange(6)).time.tolist() == [0, 1, 2, 3, 4, 5]


def test_treatment_and_support_follow_channels_and_steps():
    treatment = Treatment(transform="zscore", mean=[1, 2], spread=[3, 4])
    support = [[0.0, 3.0], [3.0, 6.0]]
    recording = Recording(
        VALUES, time=np.arange(6) + 0.5, epochs=[0, 0, 0, 1, 1, 1], treatment=treatment, support=support
    )
    taken = recording.take_channels("channel1").treatment
    assert taken == Treatment(transform="zscore", mean=[2], spread=[4])
    np.testing.assert_array_equal(recording[1:].support, [[1, 3], [3, 6]])
    np.testing.assert_array_equal(recording[3:5].support, [[3, 5]])
    np.testing.assert_array_equal(recording.support, support)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"units": [1, 2]}, TypeError, "units is a list; expected a DataFrame"),
        ({"units": pd.DataFrame({"r": [1]})}, ValueError, r"units has 1 row \(0\) and X has 2 channels"),
        ({"units": pd.DataFrame({"r": [1, 2]}, index=["a", "b"])}, ValueError, "under its name"),
        ({"treatment": "sqrt"}, TypeError, "treatment is a str; expected an ascribo.Treatment"),
        ({"support": [[0, 5], [6, 7]]}, ValueError, r"support has shape \(2, 2\).*\(1, 2\)"),
        ({"support": [[0, 4]]}, ValueError, "time step 5 is at 5 and its epoch from 0 to 4"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_companions_of_channels_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        Recording(VALUES, **arguments)


# Larger than memory


@pytest.fixture
def large(tmp_path):
    """64 MB of float32 in a file, opened as one would a larger one."""
    path = tmp_path / "large.npy"
    whole = np.lib.format.open_memmap(path, "w+", np.float32, (2**16, 256))
    whole[::3, :255] = 1.0
    del whole
    return np.load(path, mmap_mode="r")


def test_a_memory_mapped_recording_is_neither_copied_nor_read_at_once(large):
    tracemalloc.start()
    recording = Recording(large)
    assert recording.constant_channels() == ["channel255"]
    same = recording.take_channels(recording.channel_names)
    part = recording[1000:20_000]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert all(np.shares_memory(r.X, large) for r in (recording, same, part))
    assert peak < large.nbytes / 2  # chunks of a few megabytes, labels and stamps


def test_not_finite_entries_are_found_in_any_chunk(large):
    bad = np.array(large)
    bad[-1, 3] = np.nan
    with pytest.raises(ValueError, match=r"contains NaN in 1 of 256 channels.*channel3 \(1 of 65536\)"):
        Recording(bad)
    double = bad.astype(np.float64)
    double[-1, 3] = 1e300
    with pytest.raises(ValueError, match="too large for float32"):
        Recording(double)


# Refusals: what is wrong, and what to do


def with_value(value):
    X = np.ones((6, 8))
    X[2:4, 1] = value
    return X


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (np.ones(5), ValueError, r"X \(ndarray\) has 1 dimension, shape \(5,\).*Reshape your data"),
        (np.ones((2, 2, 2)), ValueError, "has 3 dimensions"),
        ("recording.npz", ValueError, r"X \(str\) has 0 dimensions"),
        ([[1, 2], [3]], ValueError, "cannot be made into an array"),
        (scipy.sparse.csr_matrix(VALUES), TypeError, r"sparse.*toarray\(\)"),
        (scipy.sparse.coo_array(VALUES), TypeError, r"sparse.*toarray\(\)"),
        (torch.eye(3).to_sparse(), TypeError, r"sparse.*to_dense\(\)"),
        (VALUES + 1j, ValueError, "Complex data not supported: X is complex128"),
        (pd.DataFrame(VALUES + 1j), ValueError, "Complex data not supported"),
        (np.array([[1, {"a": 1}]], dtype=object), TypeError, "argument must be .* string.* number"),
        (np.array([[1, "left"]], dtype=object), ValueError, "not a number: .*'left'"),
        (np.array([["a", "b"]]), ValueError, "dtype <U1; expected numbers"),
        (pd.DataFrame({"a": [1.0], "b": ["left"]}), ValueError, "not a number: .*'left'"),
        (np.array([["2020-01-01"]], dtype="datetime64[D]"), ValueError, "datetime64"),
        (np.empty((0, 3)), ValueError, "no time steps"),
        (
            np.empty((12, 0)),
            ValueError,
            r"0 feature\(s\) \(shape=\(\d*, 0\)\) while a minimum of \d* is required.",
        ),
        (pd.DataFrame(VALUES, columns=["a", "a"]), ValueError, "channel names .*'a'"),
        (pd.DataFrame(VALUES, columns=[1, "1"]), ValueError, "channel names .*'1'"),
        (with_value(np.nan), ValueError, r"contains NaN in 1 of 8 channels.*channel1 \(2 of 6\)"),
        (with_value(-np.inf), ValueError, r"contains infinity.*channel1 \(2 of 6\)"),
        (with_value(1e39), ValueError, r"too large for float32 .*infinity.*rescale"),
        (torch.tensor(with_value(np.nan)), ValueError, "contains NaN"),
        (pd.DataFrame({"a": pd.array([1, None])}), ValueError, r"contains NaN.*a \(1 of 2\)"),
        (np.ma.masked_equal([[1, 2], [3, 4]], 4), ValueError, r"NaN.*channel1 \(1 of 2\)"),
        (Recording(VALUES), TypeError, "Recording already"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_channels_are_refused(X, error, message):
    with pytest.raises(error, match=message):
        Recording(X)


def test_not_finite_message_names_a_few_channels():
    with pytest.raises(ValueError, match=r"channel4 .* and 35 more") as caught:
        Recording(np.full((3, 40), np.nan))
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"variables": np.ones(5)}, ValueError, "variable 'y' has 5 entries and X has 6"),
        ({"variables": {"a": [1]}}, ValueError, "variable 'a' has 1 entry and X has 6"),
        ({"variables": {"a": VALUES}}, ValueError, r"variable 'a' has shape \(6, 2\)"),
        ({"variables": np.ones((6, 1, 1))}, ValueError, r"variables has shape \(6, 1, 1\)"),
        ({"variables": 3.0}, ValueError, r"variables has shape \(\)"),
        ({"variables": {1: np.ones(6), "1": np.ones(6)}}, ValueError, "variable names .*'1'"),
        ({"variables": np.ones(6) * 1j}, ValueError, "Complex data not supported"),
        ({"variables": pd.Series(np.ones(6) * 1j)}, ValueError, "Complex data not supported"),
        ({"variables": np.array([1j] * 6, dtype=object)}, ValueError, "Complex data not supp"),
        ({"variables": scipy.sparse.csr_matrix(VALUES)}, TypeError, "variables is sparse"),
        ({"variables": Recording(VALUES)}, TypeError, "Recording already"),
        ({"epochs": np.zeros(7)}, ValueError, "epochs has 7 entries and X has 6 time steps"),
        ({"epochs": np.zeros((6, 2))}, ValueError, r"epochs has shape \(6, 2\)"),
        ({"epochs": "trial"}, ValueError, r"epochs has shape \(\)"),
        ({"time": np.arange(5)}, ValueError, "time has 5 entries and X has 6 time steps"),
        ({"time": np.zeros(6)}, ValueError, "one of 5 such"),
        ({"time": [0, 1, 2, np.nan, 4, 5]}, ValueError, "time contains NaN.*time step 3"),
        ({"time": list("abcdef")}, ValueError, "time has dtype <U1"),
        ({"time": [datetime.time()] * 6}, TypeError, "time holds something that is not a number"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_companions_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        Recording(VALUES, **arguments)


def test_a_data_array_is_turned_so_that_time_comes_first():
    values = np.arange(12.0).reshape(3, 4)
    for dims in (("channel", "time"), ("channel", "step")):
        turned = Recording(xr.DataArray(values, dims=dims, coords={"channel": ["a", "b", "c"]}))
        np.testing.assert_array_equal(turned.X, values.T)
        assert turned.channel_names == ["a", "b", "c"]
    variables = xr.DataArray(values[:2], dims=("variable", "time"), coords={"variable": ["x", "y"]})
    assert list(Recording(values.T, variables).variables) == ["x", "y"]
