"""Channels and variables as a report shows them, against plain ways to compute the same."""

import numpy as np
import pandas as pd
import pytest

import ascribo as asc
from ascribo.report import activity
from ascribo.report.blobs import pack, quantise, unpack


@pytest.mark.parametrize("steps, bins", [(10, 10), (1000, 7), (1001, 200)])
def test_an_envelope_is_the_least_and_the_greatest(steps, bins):
    X = np.random.default_rng(0).normal(size=(steps, 3)).astype(np.float32)
    low, high = activity.envelope(X, bins)
    for b in range(bins):
        part = X[b * steps // bins : (b + 1) * steps // bins]
        np.testing.assert_array_equal(low[:, b], part.min(0))
        np.testing.assert_array_equal(high[:, b], part.max(0))


def test_a_large_recording_is_read_in_parts(monkeypatch):
    monkeypatch.setattr(activity, "ENTRIES_AT_ONCE", 100)
    X = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
    low, high = activity.envelope(X, 30)
    np.testing.assert_array_equal(low, X.reshape(30, 10, -1).min(1).T)
    np.testing.assert_array_equal(high, X.reshape(30, 10, -1).max(1).T)


def test_tuning_is_the_mean_in_each_bin_and_in_halves_of_time():
    rng = np.random.default_rng(0)
    place = rng.uniform(0, 1, 4000)
    place[:50] = np.nan
    side = rng.choice(["left", "right"], 4000)
    X = rng.normal(size=(4000, 2)) + 1000  # far from zero: sums keep their digits
    recording = asc.Recording(X, {"place": place, "side": side})
    place_shown, side_shown = activity.shown_variables(recording, {})
    found = activity.tuning(recording, [place_shown, side_shown], [(0, 0)])
    for k, half in enumerate((slice(None), slice(0, 2000), slice(2000, None))):
        of_bin = place_shown.find_bins(activity.BINS)[half]
        for b in (0, 11, 23):
            np.testing.assert_allclose(found.curves[0][k, :, b], recording.X[half][of_bin == b].mean(0), rtol=1e-6)
        for c, label in enumerate(("left", "right")):
            np.testing.assert_allclose(
                found.curves[1][k, :, c], recording.X[half][side[half] == label].mean(0), rtol=1e-6
            )
    assert np.isfinite(found.maps[0]).sum() == 2 * activity.SIDE  # a variable with itself: the diagonal


def test_angles_labels_and_rare_labels():
    spaces = {"way": asc.Follow("angle", 2, circular=True, period=360), "kind": asc.Discrete("kind", 1)}
    kind = np.r_[np.arange(40), np.zeros(60, int)]
    table = pd.DataFrame({"angle": np.linspace(-350, 700, 100), "kind": kind, "mixed": [1, "1"] * 50})
    shown = {v.name: v for v in activity.shown_variables(asc.Recording(np.zeros((100, 1)), table), spaces)}
    angle = shown["angle"].values
    assert shown["angle"].range == (0.0, 360.0) and angle.min() >= 0 and angle.max() < 360
    assert len(shown["kind"].labels) == activity.MOST_LABELS and shown["kind"].labels[-1] == "17 others"
    assert shown["mixed"].labels == ("1", "1") and np.bincount(shown["mixed"].values.astype(int)).tolist() == [
        50,
        50,
    ]


def test_variables_that_never_change_are_shown_only_where_a_space_asks_for_them():
    table = {"x": np.arange(6.0), "still": np.ones(6), "gone": np.full(6, np.nan), "side": list("llrrll")}
    recording = asc.Recording(np.random.default_rng(0).normal(size=(6, 2)), table)
    shown = [variable.name for variable in activity.shown_variables(recording, {"x": asc.Follow("x", 1)})]
    assert shown == ["x", "side"]
    assert "still" in [v.name for v in activity.shown_variables(recording, {"s": asc.Follow("still", 1)})]


def test_quantised_rows_come_back_within_half_a_step():
    values = np.random.default_rng(0).normal(size=(5, 300)) * np.array([[1e-6], [1], [1e6], [0], [1]])
    values[4] = np.nan
    for kind, most in ((np.uint8, 254), (np.uint16, 65534)):
        codes, ranges = quantise(values, kind)
        step = (ranges[:, 1] - ranges[:, 0])[:, None].astype(float) / most
        back = np.where(codes > most, np.nan, ranges[:, :1] + codes * step)
        np.testing.assert_allclose(back[:4], values[:4], atol=0.6 * step.max(), rtol=1e-5)
        assert (np.abs(back - values)[:4] <= 0.6 * step[:4] + 1e-6 * np.abs(values[:4])).all()
        assert np.isnan(back[4]).all()


def test_arrays_come_back_and_others_are_refused():
    for array in (np.arange(7, dtype=np.uint32), np.zeros((0, 3), np.float32), np.array([[1.5, np.nan]])):
        np.testing.assert_array_equal(unpack(pack(array)), array)
    with pytest.raises(TypeError, match="int64"):
        pack(np.arange(3))
