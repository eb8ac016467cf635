"""Behaviour at other sampling rates: nothing crosses an epoch's edge, gaps are missing, angles go the short way."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import ascribo as asc
from ascribo.data.variables import align_variables

TIME = np.arange(0, 10, 0.1)


@st.composite
def epochs_and_samples(draw):
    """Time steps of epochs that touch or have gaps between them, and samples all over the place."""
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=5))
    gaps = draw(st.lists(st.sampled_from([0.0, 0.3, 2.0]), min_size=len(lengths), max_size=len(lengths)))
    starts = np.cumsum([0.0, *(n + g for n, g in zip(lengths, gaps, strict=True))])[:-1]
    time = np.concatenate([s + 0.5 + np.arange(n) for s, n in zip(starts, lengths, strict=True)])
    epochs = np.repeat(np.arange(len(lengths)), lengths)
    support = np.stack([starts, starts + lengths], 1)
    stamps = np.sort(draw(st.lists(st.floats(-1, float(support[-1, 1]) + 1), min_size=1, max_size=30)))
    return time, epochs, support, stamps


@given(epochs_and_samples(), st.sampled_from(["linear", "nearest", "previous"]), st.floats(0.1, 20))
def test_nothing_crosses_an_epochs_edge(case, how, max_gap):
    """Samples of other epochs, whatever they say, change nothing; those of the own epoch bound what comes out."""
    time, epochs, support, stamps = case
    owner = np.array([[a <= t <= b for a, b in support] for t in stamps])
    # each sample tells its epoch, or nonsense if it lies in none; on an edge it is the later epoch's
    told = np.where(owner.any(1), owner.shape[1] - 1 - owner[:, ::-1].argmax(1), 1e6).astype(float)
    options = {"support": support, "how": {"x": how}, "max_gap": {"x": max_gap}}
    out = align_variables({"x": (stamps, told)}, time, epochs, **options)["x"].to_numpy()
    known = ~np.isnan(out)
    np.testing.assert_array_equal(out[known], epochs[known])


@given(epochs_and_samples(), st.floats(0.1, 5))
def test_gaps_are_missing_and_the_rest_is_interpolated(case, max_gap):
    """Against the definition, one time step at a time."""
    time, epochs, support, stamps = case
    stamps = np.unique(stamps)
    values = np.sin(stamps * 3)
    options = {"support": support, "max_gap": max_gap}
    out = align_variables({"x": (stamps, values)}, time, epochs, **options)["x"].to_numpy()
    for t, epoch, got in zip(time, epochs, out, strict=True):
        start, end = support[epoch]
        later = epoch + 1 < len(support) and support[epoch + 1, 0] == end
        mine = (stamps >= start) & ((stamps < end) if later else (stamps <= end))
        own, told = stamps[mine], values[mine]
        before, after = own[own <= t], own[own > t]
        if len(before) and before[-1] == t:
            expected = told[own == t][0]
        elif len(before) and len(after):
            expected = np.interp(t, own, told) if after[0] - before[-1] <= max_gap else np.nan
        elif len(own):
            end_sample = before[-1] if len(before) else after[0]
            expected = told[own == end_sample][0] if abs(end_sample - t) <= max_gap / 2 else np.nan
        else:
            expected = np.nan
        np.testing.assert_allclose(got, expected, atol=1e-9)


@given(
    st.lists(st.floats(-1.4, 1.4), min_size=2, max_size=20),
    st.floats(0, 6.28),
    st.sampled_from([2 * np.pi, 360.0]),
)
def test_angles_go_the_short_way(turns, start, period):
    """An animal that turns by less than half a circle between samples is followed wherever it turns."""
    unrolled = (start + np.cumsum(turns)) * period / (2 * np.pi)
    stamps = np.arange(len(turns)) * 0.5
    time = np.linspace(0, stamps[-1], 37)
    wrapped = np.mod(unrolled, period)
    out = align_variables({"a": (stamps, wrapped)}, time, period={"a": period})["a"].to_numpy()
    assert ((out >= 0) & (out < period)).all()
    away = np.mod(out - np.interp(time, stamps, unrolled) + period / 2, period) - period / 2
    np.testing.assert_allclose(away, 0, atol=1e-9 * period)
    signed = wrapped - period / 2 - 1e-3
    out = align_variables({"a": (stamps, signed)}, time, period={"a": period})["a"].to_numpy()
    if signed.min() < 0:
        assert ((out >= -period / 2) & (out < period / 2)).all()


def test_headings_across_north():
    out = align_variables({"a": ([0.0, 1.0], [350.0, 20.0])}, [0.2, 0.5, 0.9], period={"a": 360})["a"]
    np.testing.assert_allclose(out, [356, 5, 17])


def test_missing_samples_are_passed_over_up_to_the_limit():
    stamps = np.arange(0, 10, 0.1)
    values = stamps.copy()
    values[30:33] = np.nan  # 0.4 s between known samples
    values[60:80] = np.nan  # 2.1 s
    out = align_variables({"x": (stamps, values)}, TIME + 0.05, max_gap=0.5)["x"]
    np.testing.assert_allclose(out[29:33], TIME[29:33] + 0.05)
    lost = np.isnan(out.to_numpy())
    assert lost[59:80].all() and lost.sum() == 21


@given(epochs_and_samples())
def test_events_are_counted_once_in_their_epoch(case):
    time, epochs, support, stamps = case
    counts = align_variables({"licks": (stamps, None)}, time, epochs, support=support)["licks"].to_numpy()
    for epoch, (start, end) in enumerate(support):
        later = epoch + 1 < len(support) and support[epoch + 1, 0] == end
        inside = (stamps >= start) & ((stamps < end) if later else (stamps <= end))
        assert counts[epochs == epoch].sum() == inside.sum()  # here the bins fill the epochs


def test_counts_without_support_stop_half_a_step_away():
    counts = align_variables({"licks": ([-3.0, -0.04, 0.02, 0.06, 0.26], None)}, [0.0, 0.1, 0.2])["licks"]
    assert counts.tolist() == [2, 1, 0]


def test_how_is_told_from_what_is_there():
    stamps = [0.0, 1.0]
    given = {
        "float": (stamps, [0.0, 1.0]),
        "integer": (stamps, [0, 1]),
        "text": (stamps, ["a", "b"]),
        "truth": (stamps, [False, True]),
        "category": pd.Series(pd.Categorical(["a", "b"]), index=stamps),
        "events": (stamps, None),
    }
    row = align_variables(given, [0.6, 1.4]).iloc[0]
    assert row.to_list() == [0.6, 1, "a", False, "a", 0]


def test_labels_hold_until_the_next_unless_a_limit_names_them():
    given = {"side": ([0.0, 9.0], ["left", "right"])}
    time = [5.0, 8.0, 9.5]
    assert align_variables(given, time)["side"].to_list() == ["left", "left", "right"]
    limited = align_variables(given, time, max_gap={"side": 6})["side"]
    assert limited.isna().tolist() == [False, True, False] and limited[0] == "left"
    assert align_variables(given, [-1.0])["side"].isna().all()


@pytest.mark.parametrize(
    "samples",
    [
        (TIME[::-1], TIME[::-1] ** 2),
        pd.Series(TIME**2, index=TIME),
        xr.DataArray(TIME**2, dims="time", coords={"time": TIME}),
    ],
    ids=["a pair in another order", "Series", "DataArray"],
)
def test_every_container_gives_the_same(samples):
    out = align_variables({"x": samples}, TIME)
    np.testing.assert_array_equal(out["x"], TIME**2)


def test_columns_become_variables():
    matrix = np.stack([TIME, -TIME], 1)
    assert list(align_variables({"at": (TIME, matrix)}, TIME)) == ["at0", "at1"]
    frame = pd.DataFrame({"x": TIME, "y": -TIME}, index=TIME)
    out = align_variables(frame, TIME)
    np.testing.assert_array_equal(out["y"], -TIME)
    assert list(out) == ["x", "y"]


def test_a_variable_without_samples_here_is_missing():
    out = align_variables({"x": ([99.0], [1.0]), "y": ([], [])}, TIME)
    assert out.isna().all(axis=None)


@pytest.mark.parametrize(
    ("given", "options", "error", "message"),
    [
        ({"x": TIME}, {}, TypeError, "'x' is a ndarray without time stamps; expected a pair"),
        (TIME, {}, TypeError, "variables is a ndarray; expected a dict"),
        ({"x": (TIME, TIME[1:])}, {}, ValueError, "99 values and 100 time stamps"),
        ({"x": (TIME, TIME[:, None, None])}, {}, ValueError, r"shape \(100, 1, 1\)"),
        ({"x": ([0, np.nan], [1, 2])}, {}, ValueError, "expected a finite number of seconds"),
        ({"x": (TIME, TIME)}, {"how": {"x": "cubic"}}, ValueError, "'cubic': expected one of linear, nearest"),
        ({"speed": (TIME, TIME)}, {"how": {"sped": "linear"}}, ValueError, "how: .*did you mean 'speed'"),
        ({"x": (TIME, TIME)}, {"period": {"y": 1}}, ValueError, "period: no variable called 'y'"),
        ({"x": (TIME, TIME)}, {"how": {"x": "nearest"}, "period": {"x": 1}}, ValueError, "expected 'linear'"),
        ({"x": (TIME, TIME)}, {"max_gap": 0}, ValueError, "max_gap=0: expected a positive"),
        ({"x": (TIME, ["a"] * 100)}, {"how": {"x": "linear"}}, ValueError, "needs numbers; use 'previous'"),
        ({"x": (TIME, None)}, {"how": {"x": "linear"}}, ValueError, "events, time stamps without values"),
        ({"x0": (TIME, TIME), "x": (TIME, TIME[:, None])}, {}, ValueError, "called 'x0'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_aligned_is_refused(given, options, error, message):
    with pytest.raises(error, match=message):
        align_variables(given, TIME, **options)


def test_time_that_restarts_is_refused():
    with pytest.raises(ValueError, match="goes back at time step 2"):
        align_variables({"x": (TIME, TIME)}, [0, 1, 0, 1], [0, 0, 1, 1])


def test_it_is_public():
    assert asc.align_variables is align_variables


def test_columns_of_a_data_array_keep_their_names():
    path = xr.DataArray(
        np.ones((5, 2)), dims=("time", "axis"), coords={"time": np.arange(5.0), "axis": ["px", "py"]}
    )
    assert list(align_variables({"place": path}, np.arange(4.0))) == ["px", "py"]


@pytest.mark.parametrize("turn", [0, -360, np.nan, "360", True])
def test_a_full_turn_is_a_positive_number(turn):
    with pytest.raises(ValueError, match="expected the full turn"):
        align_variables({"head": (np.arange(5.0), np.arange(5.0))}, np.arange(4.0), period={"head": turn})
